from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import torch
from torch.distributions import Gamma, Normal, constraints, transforms

import ggmc
from ggmc.errors import BadInput, NotExact

F64 = torch.float64


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=F64)


def test_one_tensor_or_a_dict() -> None:
    one = ggmc.Density(lambda x: -(x**2).sum() / 2, zeros(3))
    many = ggmc.Density(lambda p: -(p["a"] ** 2).sum() / 2 - p["b"] ** 2 / 2, {"a": zeros(2), "b": zeros()})
    position = torch.randn(5, 3, dtype=F64)
    for target in (one, many):
        potential, gradient = target.potential_and_gradient(position)
        torch.testing.assert_close(potential, (position**2).sum(1) / 2)
        torch.testing.assert_close(gradient, position)
        torch.testing.assert_close(target.potential(position), potential)
    assert list(one.constrain(position)) == ["theta"]
    assert torch.equal(many.constrain(position)["b"], position[:, 2])


def test_potentials_are_float64_whatever_the_start() -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2))
    potential, gradient = target.potential_and_gradient(torch.ones(3, 2))
    assert potential.dtype == torch.float64
    assert target.potential(torch.ones(3, 2)).dtype == torch.float64
    assert gradient.dtype == torch.float32


CONSTRAINTS = {
    "positive": (constraints.positive, torch.tensor([0.5, 2.0], dtype=F64)),
    "greater": (constraints.greater_than(1.0), torch.tensor([1.5], dtype=F64)),
    "interval": (constraints.interval(-1.0, 3.0), torch.tensor([0.0, 2.5], dtype=F64)),
    "unit": (constraints.unit_interval, torch.tensor(0.3, dtype=F64)),
    "simplex": (constraints.simplex, torch.tensor([0.2, 0.3, 0.5], dtype=F64)),
    "corr": (constraints.corr_cholesky, torch.linalg.cholesky(torch.tensor([[1.0, 0.3], [0.3, 1.0]], dtype=F64))),
    "real": (constraints.real_vector, torch.tensor([0.1, 0.2], dtype=F64)),
    "transform": (transforms.AffineTransform(2.0, 3.0), torch.tensor([0.4], dtype=F64)),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_round_trip_and_reach_log_prob(name: str) -> None:
    constraint, start = CONSTRAINTS[name]
    seen: list[torch.Tensor] = []

    def log_prob(p: dict[str, torch.Tensor]) -> torch.Tensor:
        seen.append(p["x"])
        return -(p["x"] ** 2).sum()

    target = ggmc.Density(log_prob, {"x": start}, {"x": constraint})
    torch.testing.assert_close(seen[0].detach(), start)
    rows = target.unconstrain({"x": start.expand(2, *start.shape)})
    torch.testing.assert_close(target.constrain(rows)["x"][1], start)
    assert target.starts(3, torch.Generator().manual_seed(0)).shape == (3, target.layout.size)


@pytest.mark.parametrize(
    ("constraint", "density"),
    [
        (constraints.positive, Gamma(torch.tensor(2.0, dtype=F64), 1.5)),
        (constraints.interval(0.0, 2.0), torch.distributions.Uniform(torch.tensor(0.0, dtype=F64), 2.0)),
        (transforms.AffineTransform(2.0, -3.0), Normal(torch.tensor(0.5, dtype=F64), 0.7)),
    ],
)
def test_the_jacobian_makes_the_unconstrained_density_integrate_to_one(constraint, density) -> None:
    target = ggmc.Density(lambda x: density.log_prob(x) + 0 * x, density.mean, constraint)
    grid = torch.linspace(-30, 30, 200_001, dtype=F64)
    total = torch.exp(-target.potential(grid[:, None])).sum() * (grid[1] - grid[0])
    assert total.item() == pytest.approx(1.0, abs=1e-4)


def test_the_simplex_has_its_jacobian_too() -> None:
    """Uniform on the simplex: volume ½ in two coordinates."""
    start = torch.tensor([0.2, 0.3, 0.5], dtype=F64)
    target = ggmc.Density(lambda p: 0 * p.sum(), start, constraints.simplex)
    axis = torch.linspace(-14, 14, 801, dtype=F64)
    grid = torch.cartesian_prod(axis, axis)
    total = torch.exp(-target.potential(grid)).sum() * (axis[1] - axis[0]) ** 2
    assert total.item() == pytest.approx(0.5, rel=1e-2)


def test_what_cannot_be_vectorised_runs_chain_by_chain_with_a_notice(caplog: pytest.LogCaptureFixture) -> None:
    def log_prob(x: torch.Tensor) -> torch.Tensor:
        return -(x**2).sum() if x[0].item() > 0 else -(x**2).sum() / 2

    with caplog.at_level(logging.WARNING):
        target = ggmc.Density(log_prob, zeros(2))
    assert "one after another" in caplog.text
    position = torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=F64)
    potential, gradient = target.potential_and_gradient(position)
    assert potential.tolist() == [2.0, 1.0]
    torch.testing.assert_close(gradient, torch.tensor([[2.0, 2.0], [-1.0, 1.0]], dtype=F64))


def test_values_outside_a_distribution_are_rejections_not_errors() -> None:
    target = ggmc.Density(lambda x: Normal(0.0, x).log_prob(torch.ones((), dtype=F64)), torch.ones((), dtype=F64))
    position = torch.tensor([[-1.0], [1.0]], dtype=F64)
    assert target.potential(position).isfinite().tolist() == [False, True]
    with pytest.raises(ValueError, match="scale"):
        Normal(0.0, torch.tensor(-1.0))  # the user's own validation is as it was


def test_a_singular_matrix_stops_only_its_own_chain() -> None:
    def log_prob(x: torch.Tensor) -> torch.Tensor:
        matrix = torch.eye(2, dtype=F64) + x * torch.ones(2, 2, dtype=F64)
        return torch.linalg.cholesky(matrix).diagonal().log().sum() - x**2

    target = ggmc.Density(log_prob, zeros())
    potential, gradient = target.potential_and_gradient(torch.tensor([[0.3], [-5.0], [0.1]], dtype=F64))
    assert potential.isfinite().tolist() == [True, False, True]
    assert gradient.isfinite().squeeze().tolist() == [True, False, True]
    assert target.potential(torch.tensor([[0.3], [-5.0]], dtype=F64)).isfinite().tolist() == [True, False]


def test_chains_start_apart_and_inside_the_support() -> None:
    target = ggmc.Density(lambda x: torch.where((x.abs() < 0.01).all(), -(x**2).sum(), -torch.inf), zeros(3))
    starts = target.starts(50, torch.Generator().manual_seed(0))
    assert target.potential(starts).isfinite().all()
    assert len(starts.unique(dim=0)) == 50
    still = ggmc.Density(lambda x: -(x**2).sum(), zeros(3), jitter=0.0)
    assert torch.equal(still.starts(2, torch.Generator()), zeros(2, 3))


def _raises(message: str, *args, **kwargs) -> None:
    with pytest.raises(BadInput, match=message):
        ggmc.Density(*args, **kwargs)


def test_bad_starts_are_refused() -> None:
    f = lambda x: -(x["a"] ** 2).sum()  # noqa: E731
    _raises(r"start must be finite, got nan in a\[1\]", f, {"a": torch.tensor([0.0, float("nan")])})
    _raises("start must be floating point, got torch.int64 for a", f, {"a": torch.tensor([1])})
    _raises("got list for a", f, {"a": [1.0]})
    _raises("empty dict", f, {})
    _raises("jitter must be zero or a positive number, got -1", f, {"a": torch.zeros(1)}, jitter=-1)
    _raises("one dtype and device", f, {"a": torch.zeros(1), "b": zeros(1)})
    _raises("log_prob is -inf at the start", lambda x: torch.log(x).sum(), zeros(1))
    _raises(r"gradient of log_prob is not finite in theta\[0\]", lambda x: -torch.sqrt(x).sum(), zeros(1))


def test_bad_constraints_are_refused() -> None:
    f = lambda x: -(x["a"] ** 2).sum()  # noqa: E731
    inside = "start must lie inside the constraint .* of a"
    _raises(inside, f, {"a": torch.tensor([-1.0])}, {"a": constraints.positive})
    _raises(inside, f, {"a": torch.tensor([1.5])}, {"a": constraints.unit_interval})
    _raises(inside, f, {"a": torch.tensor([0.5, 0.4])}, {"a": constraints.simplex})
    _raises(inside, f, {"a": torch.tensor([-1.0])}, {"a": transforms.ExpTransform()})
    _raises(r"constraints name \['b'\]", f, {"a": torch.tensor([1.0])}, {"b": constraints.positive})
    _raises("no bijection", f, {"a": torch.eye(2)}, {"a": constraints.lower_cholesky})
    _raises("constraints must be a dict", f, {"a": torch.tensor([1.0])}, constraints.positive)


def test_bad_log_probs_are_refused() -> None:
    _raises("must return a scalar, got shape \\(2,\\)", lambda x: -(x**2), zeros(2))
    _raises("scalar torch tensor, got float", lambda x: -1.0, zeros(2))
    _raises("leaves torch's graph", lambda x: -(x.detach() ** 2).sum(), torch.ones(2))
    _raises("leaves torch's graph", lambda p: -(p["a"] ** 2 + p["b"].detach() ** 2), {"a": zeros(), "b": zeros() + 1})
    _raises("does not depend on b", lambda p: -(p["a"] ** 2), {"a": zeros(), "b": zeros()})
    with pytest.raises(NotExact, match="must be deterministic"):
        ggmc.Density(lambda x: -(x**2).sum() + torch.rand(()), zeros(2))


def test_a_constrained_parameter_may_have_a_flat_prior() -> None:
    target = ggmc.Density(
        lambda p: -(p["a"] ** 2), {"a": zeros(), "u": zeros() + 0.5}, {"u": constraints.unit_interval}
    )
    assert target.potential(zeros(1, 2)).isfinite().all()


def test_every_constrained_parameter_has_its_jacobian() -> None:
    one = torch.ones((), dtype=F64)
    target = ggmc.Density(
        lambda p: -p["a"] - 2 * p["b"] - p["c"] ** 2,
        {"a": one, "c": one, "b": one},
        {"a": constraints.positive, "b": constraints.positive},
    )
    expected = math.exp(0.3) - 0.3 + 2 * math.exp(-0.7) + 0.7 + 0.16
    assert target.potential(torch.tensor([[0.3, 0.4, -0.7]], dtype=F64)).item() == pytest.approx(expected)


def test_the_jacobian_is_added_in_float64() -> None:
    target = ggmc.Density(lambda x: -1e6 + 0 * x.sum(), torch.ones(1), constraints.positive)
    assert target.potential(torch.full((1, 1), 0.01)).item() == pytest.approx(1e6 - 0.01, abs=1e-6)


def test_starts_spread_both_ways_and_only_bad_ones_draw_in() -> None:
    generator = torch.Generator().manual_seed(0)
    wide = ggmc.Density(lambda x: -(x**2).sum(), zeros(3), jitter=2.0).starts(500, generator)
    assert wide.min() < -1.9
    assert 1.9 < wide.max() <= 2.0
    walled = ggmc.Density(lambda x: torch.where(x[0] > -0.01, -(x**2).sum(), -torch.inf), zeros(1))
    assert walled.starts(500, generator).max() > 0.9


# Starts that are not tensors


def test_a_start_may_be_an_array_or_a_number() -> None:
    given = np.array([0.5, -0.5])
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, given)
    assert target.dtype == F64
    assert target.start.tolist() == [0.5, -0.5]
    given[0] = 7.0  # theirs to change
    assert target.start.tolist() == [0.5, -0.5]
    assert ggmc.Density(lambda x: -(x**2).sum() / 2, np.zeros(2, np.float32)).dtype == torch.float32
    number = ggmc.Density(lambda x: -(x**2) / 2, 0.5)
    assert (number.dtype, number.start.tolist()) == (F64, [0.5])
    mixed = ggmc.Density(
        lambda p: -(p["a"] ** 2).sum() - p["b"] ** 2 - p["c"] ** 2,
        {"a": np.zeros(2), "b": 1.0, "c": np.float64(2.0)},
        {"b": constraints.positive},
    )
    assert mixed.dtype == F64
    assert mixed.start.tolist() == [0.0, 0.0, 0.0, 2.0]
    single = ggmc.Density(lambda p: -(p["a"] ** 2).sum() - p["b"] ** 2, {"a": torch.zeros(2), "b": 1.0})
    assert single.dtype == torch.float32  # a plain number takes the precision of the tensors beside it
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    assert ggmc.Density(lambda x: -(x**2).sum() / 2, frozen).start.tolist() == [0.0, 0.0]


def test_other_starts_are_refused_in_words() -> None:
    f = lambda x: -(x**2).sum()  # noqa: E731
    _raises("start must be floating point, got torch.int64 for theta", f, np.zeros(2, int))
    _raises("start must be floating point, got an array of <U1 for theta", f, np.array(["a"]))
    _raises("a tensor, a NumPy array or a float, or a dict of these, got list for theta", f, [0.0, 0.0])
    _raises("got int for theta", f, 0)
    _raises("got NoneType for theta", f, None)
    _raises("one dtype and device", lambda p: -(p["a"] ** 2).sum(), {"a": np.zeros(1), "b": np.zeros(1, np.float32)})


def test_values_may_be_arrays_or_numbers_too() -> None:
    start = {"a": torch.zeros(2), "b": torch.ones(())}
    target = ggmc.Density(lambda p: -(p["a"] ** 2).sum() - p["b"], start, {"b": constraints.positive})
    row = target.unconstrain({"a": np.array([1.0, 2.0]), "b": math.e})
    assert row.dtype == torch.float32
    torch.testing.assert_close(row, torch.tensor([1.0, 2.0, 1.0]))


def test_values_near_a_border_are_not_rounded_before_they_are_unconstrained() -> None:
    target = ggmc.Density(lambda p: p.log().sum(), torch.full((3,), 1 / 3), constraints.simplex)
    exact = ggmc.Density(lambda p: p.log().sum(), torch.full((3,), 1 / 3, dtype=F64), constraints.simplex)
    for values in ([1e-6, 1e-6, 1 - 2e-6], [1 - 2e-6, 1e-6, 1e-6]):  # of the latter, float32 keeps no digit of 2e-6
        near = torch.tensor(values, dtype=F64)
        torch.testing.assert_close(target.unconstrain(near).double(), exact.unconstrain(near), rtol=1e-6, atol=1e-6)
