import pytest
import torch

from ggmc.dynamics.mass import Dense, Diagonal, Identity, as_mass
from ggmc.errors import BadInput

DENSE = torch.tensor([[2.0, 0.8, 0.1], [0.8, 1.0, -0.3], [0.1, -0.3, 0.7]], dtype=torch.float64)
ALL = [
    (Identity(), torch.eye(3, dtype=torch.float64)),
    (Diagonal(DENSE.diagonal()), torch.diag(DENSE.diagonal())),
    (Dense(DENSE), DENSE),
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
