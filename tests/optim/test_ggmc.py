"""GGMC in a training loop: SGD at zero temperature, its noise, and the library's own trajectories."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ggmc import optim
from ggmc.dynamics.letters import fresh_momentum
from ggmc.dynamics.mass import Diagonal
from ggmc.dynamics.scheme import Scheme
from ggmc.dynamics.state import Parameters, State, normals
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import BadInput
from ggmc.optim.flat import Flat
from tests.support.training import F64, N, compute_gradient, ggmc, halves, loss, net, steps, total, values


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize(
    ("kind", "factor"), [(optim.GGMC, 0.95), (optim.SGHMC, 1.0), (optim.SGLD, 0.5)], ids=["GGMC", "SGHMC", "SGLD"]
)
def test_zero_temperature_is_sgd(kind: Any, factor: float, dtype: torch.dtype, weight_decay: float) -> None:
    momentum: Any = {} if kind is optim.SGLD else {"momentum": 0.9}
    ours, theirs = net(dtype=dtype), net(dtype=dtype)
    optimiser = kind(ours, lr=0.02, num_data=N, temperature=0.0, weight_decay=weight_decay, **momentum)
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.02 * factor, weight_decay=weight_decay, **momentum)
    for k in range(100):
        steps(ours, optimiser, 1, k)
        steps(theirs, sgd, 1, k)
    tolerance = 1e-12 if dtype == F64 else 2e-6
    assert torch.allclose(values(ours), values(theirs), rtol=0, atol=tolerance)
    assert (values(ours) - values(net(dtype=dtype))).abs().max() > 0.1


@pytest.mark.parametrize(("kind", "factor"), [(optim.GGMC, 0.95), (optim.SGHMC, 1.0)], ids=["GGMC", "SGHMC"])
def test_with_a_scheduler_sgd_carries_the_momentum_not_the_velocity(kind: Any, factor: float) -> None:
    """m = −N·h·v stays where h changes, so SGD's v must be rescaled. GGMC's kick acts for the mean of both times."""
    ours, theirs = net(), net()
    optimiser = kind(ours, lr=0.02, momentum=0.9, num_data=N, temperature=0.0)
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.02 * factor, momentum=0.9)
    schedulers = [torch.optim.lr_scheduler.CosineAnnealingLR(o, 60) for o in (optimiser, sgd)]
    last = 0.02
    for k in range(100):
        lr = optimiser.param_groups[0]["lr"]
        change = math.sqrt(last / lr)
        for state in sgd.state.values():
            state["momentum_buffer"] *= change
        steps(ours, optimiser, 1, k)
        sgd.zero_grad()
        loss(theirs, k).backward()
        for p in theirs.parameters():
            assert p.grad is not None
            p.grad *= (1 + change) / 2 if kind is optim.GGMC else 1.0
        sgd.step()
        for scheduler in schedulers if k % 3 == 2 and k < 90 else []:
            scheduler.step()
        last = lr
    assert torch.allclose(values(ours), values(theirs), rtol=0, atol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_the_noise_is_as_large_as_it_says(temperature: float) -> None:
    """Without a force, 200,000 coordinates each show the noise; five standard errors of their variance are allowed."""
    number, lr = 200_000, 0.02

    def after_one_step(kind: Any, **settings: Any) -> tuple[float, float]:
        points = torch.zeros(number, dtype=F64, requires_grad=True)
        optimiser = kind([points], lr=lr, num_data=N, temperature=temperature, seed=0, **settings)
        points.grad = torch.zeros_like(points)
        optimiser.step()
        return points.detach().var().item(), optimiser.momenta.var().item()

    h2 = lr / N
    for found, expected in [
        (after_one_step(optim.SGLD)[0], h2),
        (after_one_step(optim.SGHMC, momentum=0.7)[1], 0.7**2 + 2 * 0.3),
        (after_one_step(optim.SGHMC, momentum=0.7)[0], h2 * (0.7**2 + 2 * 0.3)),
        (after_one_step(optim.GGMC, momentum=0.7)[1], 1.0),
        (after_one_step(optim.GGMC, momentum=0.7)[0], h2 / 4 * (1.7**2 + 1 - 0.7**2)),
    ]:
        assert found == pytest.approx(temperature * expected, rel=5 * math.sqrt(2 / number))


def test_a_rate_of_zero_moves_nothing() -> None:
    module = net()
    optimiser = ggmc(module, lr=torch.tensor(0.0))
    steps(module, optimiser, 3)
    assert torch.equal(values(module), values(net()))
    optimiser.param_groups[0]["lr"].fill_(0.01)
    steps(module, optimiser, 1)
    assert not torch.equal(values(module), values(net()))


class Gradients:
    """The same gradients for the library's own trajectories: of the batch that the tape names, with weight decay."""

    def __init__(self, weight_decay: float):
        self.module, self.weight_decay = net(), weight_decay
        self.flat = Flat(list(self.module.parameters()))

    def __call__(self, position: Tensor, entry: Any) -> tuple[Tensor, None]:
        self.flat.values.copy_(position[0])
        self.module.zero_grad()
        loss(self.module, int(entry)).backward()
        return N * (self.flat.gather() + self.weight_decay * position[0])[None].clone(), None


@pytest.mark.parametrize("rates", [(0.03, 0.03), (0.01, 0.03)], ids=["one rate", "two rates"])
@pytest.mark.parametrize("momentum", [1.0, 0.8, 0.0])
@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O", "OBABO"])
def test_a_trajectory_is_the_library_s(scheme: str, momentum: float, rates: tuple[float, float]) -> None:
    """Groups with rates of their own are the library's diagonal mass, M = ℓ_largest/ℓ, and m = M^½ · momenta."""
    module, temperature, number, h = net(), 0.7, 6, math.sqrt(0.03 / N)
    groups = halves(module, {"lr": rates[0]}, {"lr": rates[1]})
    optimiser = ggmc(groups, momentum=momentum, temperature=temperature, weight_decay=0.1, scheme=scheme)
    potential = total(module)
    optimiser.begin_trajectory(potential)
    steps(module, optimiser, number)
    if scheme == "OBABO":
        compute_gradient(module, optimiser, number)
    info = optimiser.end_trajectory(potential)

    friction = math.inf if momentum == 0 else -math.log(momentum) / h
    masses = torch.tensor([0.03 / rates[0]] * 16 + [0.03 / rates[1]] * 5, dtype=F64)
    parameters = Parameters.of(h, friction, temperature, Diagonal(masses))
    plan = Scheme(scheme).plan(number)
    start = values(net())[None]
    noise = normals(start, torch.Generator().manual_seed(0))
    field: Any = Gradients(0.1)
    state = State(start, fresh_momentum(parameters, noise()))
    path = Trajectory(state, parameters, field, torch.arange(plan.gradients), noise)
    path.run(plan.moves)
    end, work = path.state, path.work
    assert torch.allclose(values(module), end.position[0], rtol=0, atol=1e-12)
    assert torch.allclose(optimiser.momenta * masses.sqrt(), end.momentum[0], rtol=0, atol=1e-12)
    assert info.work.item() == pytest.approx(work.item(), abs=1e-10)
    assert info.steps == number

    def energy(position: Tensor) -> float:
        field.flat.values.copy_(position[0])
        return total(field.module)().item() + N * 0.1 / 2 * (position**2).sum().item()

    error = energy(end.position) - energy(start) + work.item()
    assert info.energy_error.item() == pytest.approx(error, abs=1e-10)
    assert info.log_accept.item() == pytest.approx(-error / temperature, abs=1e-10)

    # The friction at the ends, which stands outside the test, comes before the next trajectory. With OABAO, the last
    # step drew noise before it was known to be the last.
    if scheme == "OABAO" and momentum < 1:
        noise()
    path.run(plan.before)
    optimiser.begin_trajectory()
    assert torch.allclose(optimiser.momenta * masses.sqrt(), path.momentum[0], rtol=0, atol=1e-12)


def test_friction_acts_at_every_step_where_there_are_no_trajectories() -> None:
    found = []
    for scheme in ("OABAO", "O(ABA)O"):
        module = net()
        steps(module, ggmc(module, scheme=scheme), 5)
        found.append(values(module))
    assert torch.equal(*found)


def test_obabo_at_zero_temperature_is_sgd_after_its_first_half_kick() -> None:
    ours, theirs = net(), net()
    optimiser = ggmc(ours, lr=0.02, temperature=0.0, scheme="OBABO")
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.02 * 0.95, momentum=0.9)
    for k in range(100):
        steps(ours, optimiser, 1, k)
        compute_gradient(theirs, sgd, k)
        for p in theirs.parameters() if k == 0 else ():
            assert p.grad is not None
            p.grad /= 1.9
        sgd.step()
        assert torch.allclose(values(ours), values(theirs), rtol=0, atol=1e-12)
    assert (values(ours) - values(net())).abs().max() > 0.1


@pytest.mark.parametrize("scheme", ["OABAO", "OBABO"])
def test_friction_every_k_steps_keeps_the_momentum_in_between(scheme: str) -> None:
    """At T = 0, against the letters written out: a damping of β^k after each k-th step."""
    ours, theirs = net(), net()
    optimiser = ggmc(ours, lr=0.02, momentum=0.8, temperature=0.0, scheme=scheme, friction_every=3)
    h, m = math.sqrt(0.02 / N), torch.zeros(21, dtype=F64)
    flat = Flat(list(theirs.parameters()))
    for k in range(12):
        steps(ours, optimiser, 1, k)
        theirs.zero_grad()
        loss(theirs, k).backward()
        kick = -h * N * flat.gather()
        if scheme == "OABAO":
            m = m + kick
            flat.values += h / 2 * m
            m = m * (0.8**3 if k % 3 == 2 else 1.0)
            flat.values += h / 2 * m
        else:
            m = m + kick / 2 if k else m
            m = m * (0.8**3 if k in (3, 6, 9) else 1.0)
            m = m + kick / 2
            flat.values += h * m
        assert torch.allclose(values(ours), flat.values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scheme", ["OABAO", "OBABO"])
@pytest.mark.parametrize("every", [1, 2, 5])
def test_friction_every_k_steps_has_the_noise_of_its_whole_time(scheme: str, every: int) -> None:
    """Without a force the momentum keeps its variance T, and its correlation over ten steps is β^10."""
    number, beta = 200_000, 0.9
    points = torch.zeros(number, dtype=F64, requires_grad=True)
    optimiser = ggmc([points], momentum=beta, temperature=0.5, scheme=scheme, friction_every=every)
    points.grad = torch.zeros_like(points)
    optimiser.begin_trajectory()
    before = optimiser.momenta.clone()
    for _ in range(10):
        optimiser.step()
    points.grad = torch.zeros_like(points)
    optimiser.end_trajectory()
    optimiser.begin_trajectory()  # carries out the friction at the ends
    assert optimiser.momenta.var().item() == pytest.approx(0.5, rel=5 * math.sqrt(2 / number))
    correlation = torch.corrcoef(torch.stack([before, optimiser.momenta]))[0, 1].item()
    assert correlation == pytest.approx(beta**10, abs=5 / math.sqrt(number))


def test_friction_at_every_step_is_the_default() -> None:
    found = []
    for changes in ({}, {"friction_every": 1}):
        module = net()
        steps(module, ggmc(module, **changes), 5)
        found.append(values(module))
    assert torch.equal(*found)


def test_friction_between_trajectories_and_friction_every_exclude_each_other() -> None:
    with pytest.raises(BadInput, match=r"friction_every is 2, but O\(ABA\)O has friction at a trajectory's ends only"):
        ggmc(net(), scheme="O(ABA)O", friction_every=2)
    with pytest.raises(BadInput, match="friction_every must be a whole number of at least 1, got 0"):
        ggmc(net(), friction_every=0)


@pytest.mark.parametrize("kind", [optim.GGMC, optim.HMC, optim.SGHMC, optim.SGLD])
def test_what_is_not_given_has_its_usual_value(kind: Any) -> None:
    optimiser = kind(net(), 0.01, num_data=N)
    (group,) = optimiser.param_groups
    usual = {"lr": 0.01, "num_data": N, "temperature": 1.0, "weight_decay": 0.0}
    if kind in (optim.GGMC, optim.SGHMC):
        usual["momentum"] = 0.9
    assert {name: value for name, value in group.items() if name != "params"} == usual
    scheme = " with scheme OABAO" if kind is optim.GGMC else ""
    assert optimiser.kernel.name == f"ggmc.optim.{kind.__name__}{scheme}"
