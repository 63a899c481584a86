import math

import pytest
import torch

from ggmc.dynamics.mass import Dense, Diagonal, Identity, LowRank, as_mass, restored_mass
from ggmc.errors import BadInput

DENSE = torch.tensor([[2.0, 0.8, 0.1], [0.8, 1.0, -0.3], [0.1, -0.3, 0.7]], dtype=torch.float64)
SCALES = torch.tensor([2.0, 0.5, 1.0], dtype=torch.float64)
DIRECTIONS = torch.tensor([[0.6, 0.0], [0.0, 1.0], [0.8, 0.0]], dtype=torch.float64)
LOW_RANK = LowRank(SCALES, DIRECTIONS, torch.tensor([8.0, -0.5], dtype=torch.float64))
ALL = [
    (Identity(), torch.eye(3, dtype=torch.float64)),
    (Diagonal(DENSE.diagonal()), torch.diag(DENSE.diagonal())),
    (Dense(DENSE), DENSE),
    (
        LOW_RANK,
        torch.outer(SCALES, SCALES).sqrt()
        * (torch.eye(3, dtype=torch.float64) + (DIRECTIONS * LOW_RANK.values) @ DIRECTIONS.mT),
    ),
    (LowRank(SCALES, DIRECTIONS[:, :0], SCALES[:0]), torch.diag(SCALES)),
]


@pytest.mark.parametrize(("mass", "matrix"), ALL)
def test_velocity_is_the_inverse_and_colour_a_root(mass, matrix) -> None:
    momentum = torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(mass.velocity(momentum), torch.linalg.solve(matrix, momentum.mT).mT)
    root = mass.colour(torch.eye(3, dtype=torch.float64))  # rows e_i M^½ᵀ, so rootᵀ root is M
    torch.testing.assert_close(root.mT @ root, matrix)


@pytest.mark.parametrize(("mass", "matrix"), ALL)
def test_the_variance_of_the_velocity_is_the_inverses_diagonal(mass, matrix) -> None:
    expected = torch.linalg.inv(matrix).diagonal()
    torch.testing.assert_close(mass.velocity_variance().double().expand(3), expected)


def test_a_badly_scaled_dense_mass_stays_consistent() -> None:
    scale = torch.tensor([1e-6, 1.0, 1e6], dtype=torch.float64)
    matrix = DENSE * torch.outer(scale, scale)
    mass = Dense(matrix)
    noise = torch.randn(4, 3, dtype=torch.float64)
    momentum = mass.colour(noise)
    torch.testing.assert_close((momentum * mass.velocity(momentum)).sum(-1), (noise**2).sum(-1))


def test_equality_and_names() -> None:
    assert Dense(DENSE) == Dense(DENSE.clone())
    assert Dense(DENSE) != Dense(2 * DENSE)
    assert Diagonal(torch.ones(3)) != Identity()
    assert repr(Dense(DENSE)) == "Dense(d = 3)"
    assert LowRank(*LOW_RANK.tensors()) == LOW_RANK
    assert LowRank(SCALES, DIRECTIONS, 1.5 * LOW_RANK.values) != LOW_RANK
    assert Diagonal(SCALES) != LOW_RANK
    assert repr(LOW_RANK) == "LowRank(d = 3, rank = 2)"
    assert hash(LOW_RANK) == hash(LowRank(*LOW_RANK.tensors()))
    assert LOW_RANK.rank == 2
    assert as_mass([1, 2]) == Diagonal(torch.tensor([1.0, 2.0], dtype=torch.float64))


@pytest.mark.parametrize(
    ("mass", "why"),
    [
        (torch.tensor([1.0, -2.0]), "positive definite, got a diagonal entry of -2"),
        (torch.tensor([1.0, 0.0]), "positive definite"),
        (torch.tensor([1.0, float("nan")]), "positive definite"),
        (torch.tensor([[1.0, 2.0], [2.0, 1.0]]), "positive definite, got a smallest eigenvalue of -1"),
        (torch.tensor([[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        (torch.tensor([[1.0, float("inf")], [float("inf"), 1.0]]), "not finite"),
        (torch.ones(2, 3), "shape"),
        (torch.tensor(1.0), "shape"),
        ("heavy", "mass must be"),
    ],
)
def test_what_is_not_a_mass_is_refused(mass, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        as_mass(mass)


def test_a_mass_for_another_target_is_refused() -> None:
    with pytest.raises(BadInput, match="mass is for 3 parameters, but the target has 2"):
        Dense(DENSE).to(torch.zeros(1, 2))


def test_a_float32_dense_mass_is_factored_in_float64() -> None:
    matrix, eye = torch.tensor([[1.0, 0.9999], [0.9999, 1.0]]), torch.eye(2)
    exact = Dense(matrix.double()).velocity(eye.double()).float()
    torch.testing.assert_close(Dense(matrix).velocity(eye), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("mass", "matrix"), ALL)
def test_what_is_stored_comes_back(mass, matrix) -> None:
    again = restored_mass(mass.stored())
    assert again == mass
    assert all(map(torch.equal, again.tensors(), mass.tensors()))


def large(dtype: torch.dtype, stiffest: float) -> tuple[LowRank, Dense]:
    generator = torch.Generator().manual_seed(0)
    directions = torch.linalg.qr(torch.randn(40, 6, generator=generator, dtype=torch.float64))[0]
    diagonal = torch.rand(40, generator=generator, dtype=torch.float64) + 0.1
    values = torch.logspace(math.log10(stiffest), 0, 6, dtype=torch.float64)
    root = diagonal.sqrt()
    matrix = torch.diag(diagonal) + root[:, None] * ((directions * values) @ directions.mT) * root
    return LowRank(diagonal, directions, values, dtype=dtype), Dense(matrix, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("stiffest", [10.0, 700.0, 1e6])
def test_low_rank_agrees_with_the_same_matrix_in_full(dtype: torch.dtype, stiffest: float) -> None:
    mass, dense = large(dtype, stiffest)
    assert torch.allclose(mass.velocity_variance(), dense.velocity_variance(), rtol=1e-5)
    momentum = dense.colour(torch.randn(20, 40, dtype=dtype, generator=torch.Generator().manual_seed(1)))
    velocity = mass.velocity(momentum)
    assert velocity.dtype == dtype
    exact = large(torch.float64, stiffest)[1].velocity(momentum.double())
    close = 1e-4 if dtype == torch.float32 else 1e-9
    assert (velocity - exact).norm() < close * exact.norm()
    root = mass.colour(torch.eye(40, dtype=dtype)).double()
    assert (root.mT @ root - dense.matrix).norm() < close * dense.matrix.norm()
    # Colour and velocity belong to one matrix: the kinetic energy of M^½ε is |ε|²/2, along every direction.
    whitened = mass.colour(mass.directions.mT.to(dtype))
    energy = (whitened * mass.velocity(whitened)).sum(-1)
    torch.testing.assert_close(energy, torch.ones_like(energy), rtol=2e-4 if dtype == torch.float32 else 1e-9, atol=0)


def test_nothing_of_low_rank_is_a_full_matrix() -> None:
    d, k = 200_000, 3
    directions = torch.linalg.qr(torch.randn(d, k, generator=torch.Generator().manual_seed(0)))[0]
    mass = LowRank(torch.ones(d), directions, torch.tensor([9.0, 4.0, 1.0]))
    assert max(map(torch.numel, mass.tensors())) == d * k
    assert mass.velocity(mass.colour(torch.ones(2, d))).isfinite().all()


def test_directions_are_made_orthonormal_to_the_last_digit_once() -> None:
    rough = torch.linalg.qr(torch.randn(50, 4, generator=torch.Generator().manual_seed(0)))[0]
    mass = LowRank(torch.ones(50), rough, torch.full((4,), 5.0))
    assert mass.dtype == torch.float32
    torch.testing.assert_close(mass.directions.float(), rough, rtol=0, atol=1e-6)
    product = mass.directions.mT @ mass.directions
    torch.testing.assert_close(product, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-13)
    assert torch.equal(restored_mass(mass.stored()).tensors()[1], mass.directions)


ONE, UNIT = torch.ones(1, dtype=torch.float64), torch.tensor([[1.0], [0.0], [0.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ((SCALES, 2 * UNIT, ONE), "orthonormal columns, but UᵀU is off by 3: take the factor Q of torch.linalg.qr"),
        ((SCALES, UNIT, -ONE), "positive definite, so values must be above −1, got -1"),
        ((-SCALES, UNIT, ONE), "positive definite, got a diagonal entry of -2"),
        ((SCALES, UNIT, ONE * torch.nan), "the values of a mass of low rank must be finite, got nan"),
        ((SCALES, UNIT / 0, ONE), "the directions of a mass of low rank must be finite"),
        ((SCALES, UNIT[:2], ONE), r"\[d\], \[d, k\] and \[k\] with k ≤ d, got \(\[3\], \[2, 1\], \[1\]\)"),
        ((SCALES, UNIT, torch.ones(2)), r"\[d\], \[d, k\] and \[k\]"),
        ((SCALES, UNIT[:, 0], ONE), r"directions of a mass of low rank must be a tensor of real numbers \[d, k\], got"),
        ((SCALES, UNIT.long(), ONE), "real numbers .* got torch.int64"),
        (([2.0, 0.5, 1.0], UNIT, ONE), r"the diagonal .* \[d\], got \[2.0, 0.5, 1.0\]"),
    ],
)
def test_what_is_no_mass_of_low_rank_is_refused(parts, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        LowRank(*parts)


def test_a_mass_of_low_rank_for_another_target_is_refused() -> None:
    with pytest.raises(BadInput, match="mass is for 3 parameters, but the target has 2"):
        LOW_RANK.to(torch.zeros(1, 2))
    with pytest.raises(BadInput, match=r"made of diagonal, directions, values, got \['diagonal'\]"):
        restored_mass({"diagonal": SCALES})


def test_a_mass_of_low_rank_is_made_where_its_parts_are() -> None:
    with torch.device("meta"):
        mass = LowRank(*LOW_RANK.tensors()).to(torch.zeros(1, 3, device="cpu"))
        moved = mass.velocity(mass.colour(torch.ones(2, 3, device="cpu")))
    assert moved.device.type == "cpu"
    assert moved.dtype == torch.float32
    assert moved.isfinite().all()
