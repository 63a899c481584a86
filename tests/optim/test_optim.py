"""The torch.optim face: SGD at zero temperature, the library's own trajectories, exactness, and state that survives."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from ggmc import optim
from ggmc.dynamics import metropolis
from ggmc.dynamics.mass import Identity
from ggmc.dynamics.scheme import Dynamics, Scheme, State, normals, refresh, run
from ggmc.errors import BadInput, NotExact
from ggmc.optim.flat import Flat
from ggmc.optim.midpoint import Midpoint
from ggmc.optim.sampler import Sampler
from ggmc.optim.trajectory import Trajectory

F64 = torch.float64
N = 20
BATCHES = torch.randn(5, N, 3, dtype=F64, generator=torch.Generator().manual_seed(0))


def net(seed: int = 0, dtype: torch.dtype = F64) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)


def loss(module: nn.Module, k: int) -> Tensor:
    """The mean over a batch."""
    x = BATCHES[k % len(BATCHES)].to(next(module.parameters()).dtype)
    return ((module(x) - x.sum(1, keepdim=True)) ** 2).mean()


def steps(module: nn.Module, optimiser: Any, number: int, first: int = 0) -> None:
    for k in range(first, first + number):
        optimiser.zero_grad()
        loss(module, k).backward()
        optimiser.step()


def values(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def total(module: nn.Module) -> Callable[[], Tensor]:
    return lambda: N * loss(module, 0)


def ggmc(module: Any, **changes: Any) -> optim.GGMC:
    return optim.GGMC(module, **{"lr": 0.01, "momentum": 0.9, "num_data": N, "seed": 0} | changes)


# Zero temperature is SGD.


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize(
    ("kind", "factor"), [(optim.GGMC, 0.95), (optim.SGHMC, 1.0), (optim.SGLD, 1.0)], ids=["GGMC", "SGHMC", "SGLD"]
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
        (after_one_step(optim.SGLD)[0], 2 * h2),
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


# The library's trajectories.


class Gradients:
    """The same gradients for `scheme.run`: of the batch that the tape names, weight decay included."""

    deterministic = False

    def __init__(self, weight_decay: float):
        self.module, self.weight_decay = net(), weight_decay
        self.flat = Flat(list(self.module.parameters()))

    def __call__(self, position: Tensor, k: int) -> tuple[Tensor, None]:
        self.flat.values.copy_(position[0])
        self.module.zero_grad()
        loss(self.module, k).backward()
        return N * (self.flat.gather() + self.weight_decay * position[0])[None].clone(), None


@pytest.mark.parametrize("momentum", [1.0, 0.8, 0.0])
@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O"])
def test_a_trajectory_is_the_library_s(scheme: str, momentum: float) -> None:
    module, lr, temperature, number = net(), 0.03, 0.7, 6
    optimiser = ggmc(module, lr=lr, momentum=momentum, temperature=temperature, weight_decay=0.1, scheme=scheme)
    potential = total(module)
    optimiser.begin_trajectory(potential)
    steps(module, optimiser, number)
    info = optimiser.end_trajectory(potential)

    h = math.sqrt(lr / N)
    friction = math.inf if momentum == 0 else -math.log(momentum) / h
    dynamics = Dynamics(h, friction, temperature, Identity())
    plan = Scheme(scheme).plan(number)
    start = values(net())[None]
    noise = normals(start, torch.Generator().manual_seed(0))
    state = State(start, refresh(torch.zeros_like(start), math.inf, dynamics, noise), None, None)
    field: Any = Gradients(0.1)
    end, work = run(plan, state, dynamics, field, range(number), noise)
    assert torch.allclose(values(module), end.position[0], rtol=0, atol=1e-12)
    assert torch.allclose(optimiser.momenta, end.momentum[0], rtol=0, atol=1e-12)
    assert info.work.item() == pytest.approx(work.item(), abs=1e-10)
    assert info.steps == number

    def energy(position: Tensor) -> float:
        field.flat.values.copy_(position[0])
        return total(field.module)().item() + N * 0.1 / 2 * (position**2).sum().item()

    error = energy(end.position) - energy(start) + work.item()
    assert info.energy_error.item() == pytest.approx(error, abs=1e-10)
    assert info.log_accept.item() == pytest.approx(-error / temperature, abs=1e-10)

    # The friction at the ends, which stands outside the test, comes before the next trajectory.
    outer = refresh(end.momentum, dynamics.decay(plan.outer), dynamics, _after_one_more(scheme, momentum, noise))
    optimiser.begin_trajectory()
    assert torch.allclose(optimiser.momenta, outer[0], rtol=0, atol=1e-12)


def _after_one_more(scheme: str, momentum: float, noise: Iterator[Tensor]) -> Iterator[Tensor]:
    """With friction at every step, the last step drew noise before it was known to be the last."""
    if scheme == "OABAO" and momentum < 1:
        next(noise)
    return noise


def test_work_is_the_kinetic_energy_that_the_kicks_added() -> None:
    module = net(dtype=torch.float32)
    optimiser = ggmc(module, lr=0.003, weight_decay=0.1, scheme="OABAO")
    optimiser.begin_trajectory()
    added = 0.0
    for k in range(10):
        before = optimiser.momenta.double().square().sum() / 2
        steps(module, optimiser, 1, k)
        kicked = optimiser._spare  # before the friction
        added += (kicked.double().square().sum() / 2 - before).item()
    info = optimiser.end_trajectory()
    assert info.work.dtype == F64
    assert info.work.item() == pytest.approx(added, rel=1e-5)
    assert math.isnan(info.log_accept)


def _travel(module: nn.Module, optimiser: Any, rates: list[float], tape: list[int]) -> float:
    """One trajectory; the first rate is that at the start."""
    group = optimiser.param_groups[0]
    group["lr"] = rates[0]
    optimiser.begin_trajectory()
    for rate, k in zip(rates[1:], tape, strict=True):
        group["lr"] = rate
        steps(module, optimiser, 1, k)
    return optimiser.end_trajectory(total(module)).energy_error.item()


@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O"])
@pytest.mark.parametrize("rates", [[0.02] * 5, [0.01, 0.02, 0.03, 0.02, 0.01]])
def test_the_way_back_retraces_the_way_there(rates: list[float], scheme: str) -> None:
    module = net()
    optimiser = ggmc(module, momentum=1.0, weight_decay=0.1, scheme=scheme)
    there = _travel(module, optimiser, rates, [0, 1, 2, 3])
    optimiser.momenta.neg_()
    back = _travel(module, optimiser, rates, [3, 2, 1, 0])
    assert torch.allclose(values(module), values(net()), rtol=0, atol=1e-12)
    assert back == pytest.approx(-there, abs=1e-10)


def test_rates_that_differ_backwards_do_not_retrace() -> None:
    module = net()
    optimiser = ggmc(module, momentum=1.0)
    for tape in ([0, 1, 2], [2, 1, 0]):
        _travel(module, optimiser, [0.01, 0.01, 0.02, 0.01], tape)
        optimiser.momenta.neg_()
    assert (values(module) - values(net())).abs().max() > 1e-4


def test_a_rejection_restores_the_start_and_flips() -> None:
    module = net()
    optimiser = ggmc(module, lr=1.0, weight_decay=0.1)
    potential = total(module)
    optimiser.begin_trajectory(potential)
    start, momentum = optimiser._trajectory.position.clone(), optimiser._trajectory.momentum.clone()  # pyright: ignore
    steps(module, optimiser, 5)
    info = optimiser.end_trajectory(potential, reject=True)
    assert not info.accepted
    assert torch.equal(values(module), start)
    assert torch.equal(optimiser.momenta, -momentum)
    expected = potential().item() + N * 0.05 * start.square().sum().item()
    optimiser.begin_trajectory()
    assert optimiser._trajectory.potential.item() == pytest.approx(expected)  # pyright: ignore


def test_the_cached_potential_follows_the_weight_decay() -> None:
    module = net()
    optimiser = ggmc(module, weight_decay=0.1)
    potential = total(module)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.end_trajectory(potential)
    optimiser.param_groups[0]["weight_decay"] = 0.3
    expected = potential().item() + N * 0.15 * values(module).square().sum().item()
    optimiser.begin_trajectory()
    assert optimiser._trajectory.potential.item() == pytest.approx(expected)  # pyright: ignore


def test_a_divergence_is_put_back() -> None:
    module = net()
    optimiser = ggmc(module)
    for reject in (False, True):
        optimiser.begin_trajectory(total(module))
        steps(module, optimiser, 2)
        info = optimiser.end_trajectory(lambda: math.inf, reject=reject)
        assert (info.accepted.item(), info.diverging.item(), info.log_accept.item()) == (False, True, -math.inf)
        assert torch.equal(values(module), values(net()))


# State.


def _through_a_file(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


def _go_on(module: nn.Module, optimiser: Any, scheduler: Any, reject: bool) -> list[Tensor]:
    steps(module, optimiser, 2, first=3)
    infos = []
    if not isinstance(optimiser, optim.SGLD):
        infos = [optimiser.end_trajectory(total(module), reject=reject)]
        optimiser.begin_trajectory()
        steps(module, optimiser, 4)
        scheduler.step()
        infos.append(optimiser.end_trajectory(total(module), reject=reject))
    return [values(module), optimiser.momenta.clone(), *(x.log_accept for x in infos)]


@pytest.mark.parametrize("order", ["module first", "optimiser first", "assign"])
@pytest.mark.parametrize("kind", [optim.GGMC, "O(ABA)O", optim.HMC, optim.SGHMC, optim.SGLD])
def test_state_survives_bit_for_bit_in_mid_trajectory(kind: Any, order: str) -> None:
    def make(seed: int) -> tuple[nn.Module, Any, Any]:
        module = net(seed).to(torch.float32)
        if kind == "O(ABA)O":
            optimiser: Any = ggmc(module, scheme=kind, weight_decay=0.1, seed=seed)
        else:
            optimiser = kind(module, lr=0.01, num_data=N, weight_decay=0.1, seed=seed)
        return module, optimiser, torch.optim.lr_scheduler.StepLR(optimiser, 1)

    module, optimiser, scheduler = make(0)
    if kind is not optim.SGLD:
        optimiser.begin_trajectory(total(module))
    steps(module, optimiser, 3)
    saved = _through_a_file([part.state_dict() for part in (module, optimiser, scheduler)])
    reject = kind not in (optim.SGHMC, optim.SGLD)
    expected = _go_on(module, optimiser, scheduler, reject)

    again, other, timer = make(1)
    if order == "optimiser first":
        other.load_state_dict(saved[1])
    again.load_state_dict(saved[0], assign=order == "assign")
    if order != "optimiser first":
        if order == "assign":  # the optimiser was made of the parameters before
            again, other, timer = make(1)
            for p, value in zip(again.parameters(), saved[0].values(), strict=True):
                p.data = value
        other.load_state_dict(saved[1])
    timer.load_state_dict(saved[2])
    torch.manual_seed(123)
    for a, b in zip(_go_on(again, other, timer, reject), expected, strict=True):
        assert torch.equal(a, b)


def test_saved_state_does_not_change_with_the_run() -> None:
    module = net()
    optimiser = ggmc(module)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    saved = optimiser.state_dict()
    before = _through_a_file(saved)
    steps(module, optimiser, 2)
    assert torch.equal(saved["sampler"]["momentum"][0], before["sampler"]["momentum"][0])
    assert torch.equal(saved["sampler"]["trajectory"]["work"], before["sampler"]["trajectory"]["work"])


def test_torch_s_seed_is_enough_to_repeat_a_run() -> None:
    found = []
    for _ in range(2):
        module = net(3)
        optimiser = ggmc(module, seed=None)
        steps(module, optimiser, 3)
        found.append(values(module))
    assert torch.equal(*found)


# Gradients, parameters, and others.


def _none(module: nn.Module, optimiser: Any) -> None:
    module.zero_grad()


def _kept(module: nn.Module, optimiser: Any) -> None:
    optimiser.zero_grad(set_to_none=False)


def _replaced(module: nn.Module, optimiser: Any) -> None:
    for p in module.parameters():
        p.grad = torch.zeros_like(p)


@pytest.mark.parametrize("clear", [_none, _kept, _replaced])
def test_whoever_clears_the_gradients_the_steps_are_the_same(clear: Any) -> None:
    module = net()
    optimiser = ggmc(module)
    for k in range(5):
        clear(module, optimiser)
        loss(module, k).backward()
        optimiser.step()
    expected = net()
    steps(expected, ggmc(expected), 5)
    assert torch.equal(values(module), values(expected))


def test_closure_scaler_and_clipping() -> None:
    module, expected = net(), net()
    optimiser, other = ggmc(module), ggmc(expected)

    def closure() -> Tensor:
        optimiser.zero_grad()
        found = loss(module, 0)
        found.backward()
        return found

    assert optimiser.step(closure) == loss(expected, 0)
    scaler: Any = torch.amp.GradScaler("cpu", init_scale=8.0)  # pyright: ignore[reportPrivateImportUsage]
    scaler.scale(loss(expected, 0)).backward()
    scaler.unscale_(other)
    nn.utils.clip_grad_norm_(expected.parameters(), 1e6)
    scaler.step(other)
    assert torch.allclose(values(module), values(expected), rtol=0, atol=1e-14)


def test_a_step_leaves_the_gradients_alone() -> None:
    module = net()
    optimiser = ggmc(module, weight_decay=0.5)
    loss(module, 0).backward()
    before = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    optimiser.step()
    assert all(torch.equal(p.grad, g) for p, g in zip(module.parameters(), before, strict=True))  # pyright: ignore


def test_frozen_tied_and_unused_parameters() -> None:
    module: Any = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)).double()
    module[1].weight = module[0].weight
    module[2].bias.requires_grad_(False)
    module.unused = nn.Parameter(torch.zeros(2, dtype=F64))
    frozen = module[2].bias.clone()
    optimiser = ggmc([*module.parameters(), module[1].weight])
    assert len(optimiser.momenta) == 9 + 3 + 3 + 3 + 2
    steps(module, optimiser, 2)
    assert torch.equal(module[2].bias, frozen)
    assert module[0].weight is module[1].weight
    assert module.unused.abs().min() > 0  # its law is the prior's: it moves too
    module[0].weight.requires_grad_(False)
    with pytest.raises(BadInput, match="frozen after the optimiser was made"):
        steps(module, optimiser, 1)


def test_memory_formats_stay() -> None:
    module = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    expected = nn.Conv2d(3, 4, 3)
    expected.load_state_dict(module.state_dict())
    image = torch.randn(2, 3, 8, 8)
    for one in (module, expected):
        optimiser = ggmc(one, temperature=0.0)
        one(image).square().mean().backward()
        optimiser.step()
    assert module.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(module.weight, expected.weight, atol=1e-6)


@pytest.mark.parametrize("way", ["in place", "load", "rebind"])
def test_values_written_by_others_are_taken_up(way: str) -> None:
    module, given = net(), net(5)
    optimiser = ggmc(module)
    potential = total(module)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.end_trajectory(potential)
    if way == "load":
        module.load_state_dict(given.state_dict())
    for p, q in zip(module.parameters(), given.parameters(), strict=True):
        if way == "in place":
            with torch.no_grad():
                p.copy_(q)
        elif way == "rebind":
            p.data = q.detach().clone()
    optimiser.begin_trajectory()
    assert torch.equal(optimiser._trajectory.position, values(given))  # pyright: ignore
    assert optimiser._trajectory.potential is None  # pyright: ignore  # that of the old values is of no use
    steps(module, optimiser, 2)
    with torch.no_grad():
        next(module.parameters()).clamp_(-0.1, 0.1)
    with pytest.raises(NotExact, match="somebody else wrote to the parameters"):
        optimiser.end_trajectory(potential, reject=True)
    with pytest.raises(BadInput, match="move the module first"):
        optimiser.end_trajectory(total(module.float()))


def test_what_cannot_be_sampled_is_refused() -> None:
    one = nn.Parameter(torch.zeros(2))
    for given, reason in [
        (one, "put it in a list"),
        ([one, torch.zeros(2, dtype=torch.int64)], r"parameter 1 has dtype torch.int64"),
        ([one, nn.Parameter(torch.zeros(2, dtype=F64))], "parameter 1 is torch.float64 on cpu, but the first is"),
        ([nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))], "too coarse to retrace"),
        ([{"params": [one]}], "parameter 0 is a dict"),
        ([torch.zeros(2)], "nothing to sample"),
        ([one * 2], "computed from others"),
        ([one, nn.Parameter(one.data)], "share their memory"),
        (nn.LazyLinear(2), "run a batch through the module first"),
    ]:
        with pytest.raises(BadInput, match=reason):
            ggmc(given)
    for changes, reason in [
        ({"lr": -1.0}, "lr must be zero or a positive number, got -1.0"),
        ({"momentum": 1.5}, "momentum must lie between 0 and 1, got 1.5"),
        ({"num_data": 0}, "num_data must be a whole number of at least 1, got 0"),
        ({"scheme": "OBABO"}, "OABAO or O.ABA.O, got 'OBABO'"),
    ]:
        with pytest.raises(BadInput, match=reason):
            ggmc([one], **changes)
    optimiser = ggmc([one])
    with pytest.raises(BadInput, match="no parameter has a gradient"):
        optimiser.step()
    with pytest.raises(BadInput, match="all parameters together are one chain"):
        optimiser.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    with pytest.raises(BadInput, match="another optimiser"):
        optimiser.load_state_dict(torch.optim.SGD([one], lr=0.1).state_dict())
    with pytest.raises(BadInput, match=r"GGMC with scheme O\(ABA\)O, not of GGMC with scheme OABAO"):
        optimiser.load_state_dict(ggmc([one], scheme="O(ABA)O").state_dict())


# What cannot be tested, and loses nothing.


def _refused(optimiser: Any, error: Any, reason: str, *given: Any) -> None:
    before = optimiser._position.clone()
    with pytest.raises(error, match=reason):
        optimiser.end_trajectory(*given, reject=True)
    assert torch.equal(optimiser._position, before)
    optimiser.end_trajectory()  # and nothing is lost


@pytest.mark.parametrize("name", ["lr", "momentum", "temperature", "weight_decay", "num_data"])
def test_settings_that_change_along_a_trajectory_are_refused(name: str) -> None:
    module = net()
    optimiser = ggmc(module, weight_decay=0.1)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.param_groups[0][name] /= 2 if name != "num_data" else 1
    optimiser.param_groups[0]["num_data"] = N + (name == "num_data")
    steps(module, optimiser, 1)
    reason = "number 1 of 4 is 0.01, but number 1 from the end is 0.005" if name == "lr" else f"{name} changed along"
    _refused(optimiser, NotExact, reason, total(module))


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(3), nn.Dropout(0.1)])
def test_layers_in_training_mode_are_refused(layer: nn.Module) -> None:
    module = nn.Sequential(layer, nn.Linear(3, 1)).double()
    optimiser = ggmc(module)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    module.eval()  # too late
    _refused(optimiser, NotExact, f"{type(layer).__name__} '0' was in training mode", total(module))
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.end_trajectory(total(module), reject=True)


def test_batchnorm_without_memory_may_be_tested_in_eval_mode() -> None:
    module = nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False), nn.Linear(3, 1)).double().eval()
    optimiser = ggmc(module)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)  # a batch's loss is a function of the parameters and of that batch
    assert math.isfinite(optimiser.end_trajectory(total(module), reject=True).log_accept)


def test_an_unknown_start_and_numbers() -> None:
    module = net()
    optimiser = ggmc(module, lr=1e-5)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    with pytest.raises(BadInput, match=r"half a step further, so 3\.0 is not the potential"):
        optimiser.end_trajectory(3.0)
    _refused(optimiser, BadInput, "needs the potential at the end")
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.rest()
    number = total(module)().item()
    with pytest.raises(BadInput, match="needs the potential at the start too"):
        optimiser.end_trajectory(number, reject=True)
    with pytest.raises(BadInput, match="call end_trajectory"):
        steps(module, optimiser, 1)
    assert math.isnan(optimiser.end_trajectory(number).log_accept)
    optimiser.begin_trajectory()  # now the start is known
    steps(module, optimiser, 2)
    optimiser.rest()
    assert abs(optimiser.end_trajectory(total(module)().item(), reject=True).log_accept) < 0.1
    steps(module, optimiser, 1)
    with pytest.raises(BadInput, match="half a step further"):
        optimiser.begin_trajectory(3.0)
    with pytest.raises(BadInput, match="begin at a potential of inf"):
        optimiser.begin_trajectory(lambda: math.inf)
    with pytest.raises(BadInput, match=r"must be one number.*got shape \(2,\)"):
        optimiser.begin_trajectory(torch.zeros(2))


def test_trajectories_out_of_order_are_refused() -> None:
    module = net()
    optimiser = ggmc(module)
    with pytest.raises(BadInput, match="no trajectory is under way"):
        optimiser.end_trajectory()
    optimiser.begin_trajectory()
    with pytest.raises(BadInput, match="a trajectory is under way"):
        optimiser.begin_trajectory()
    for act in (optimiser.end_trajectory, optimiser.rest):
        with pytest.raises(BadInput, match="no steps yet"):
            act()
    cold = ggmc(net(), temperature=0.0)
    cold.begin_trajectory()
    steps(module, optimiser, 1)
    with pytest.raises(BadInput, match="temperature 0 is optimisation"):
        cold._trajectory.require_exact()  # pyright: ignore[reportOptionalMemberAccess]
    loss(module, 0).backward()
    with pytest.raises(BadInput, match="begin_trajectory"):
        optim.HMC(module, lr=0.1, num_data=N).step()
    sghmc = optim.SGHMC(module, lr=0.1, num_data=N)
    with pytest.raises(NotExact, match=r"Theorem 1.*Use ggmc.optim.GGMC"):
        sghmc.end_trajectory(reject=True)
    for act in (
        optim.SGLD(module, lr=0.1, num_data=N).begin_trajectory,
        optim.SGLD([*module.parameters()], 1, num_data=1).end_trajectory,
    ):
        with pytest.raises(NotExact, match="MALA"):
            act()


def test_an_interruption_while_ending_loses_nothing() -> None:
    module, other = net(), net()
    first, second = ggmc(module), ggmc(other)

    def interrupted() -> float:
        raise KeyboardInterrupt

    for one, optimiser in ((module, first), (other, second)):
        optimiser.begin_trajectory()
        steps(one, optimiser, 3)
    with pytest.raises(KeyboardInterrupt):
        first.end_trajectory(interrupted, reject=True)
    infos = [one.end_trajectory(total(m), reject=True) for one, m in ((first, module), (second, other))]
    assert infos[0] == infos[1]
    assert torch.equal(values(module), values(other))


def test_friction_acts_at_every_step_where_there_are_no_trajectories() -> None:
    found = []
    for scheme in ("OABAO", "O(ABA)O"):
        module = net()
        steps(module, ggmc(module, scheme=scheme), 5)
        found.append(values(module))
    assert torch.equal(*found)


# Exactness.

GRID = np.linspace(-6, 6, 200_001)


def u(x: Any) -> Any:
    """U = x⁴/4 + x: light tails, not symmetric."""
    return x * x * x * x / 4 + x  # not a power: far out it shall be infinite, not an error


def features(x: Any, m: Any) -> dict[str, Any]:
    return {"x": x, "x²": x**2, "m": m, "m²": m**2, "xm": x * m, "x²m": x**2 * m, "xm²": x * m**2}


def violations(
    make: Callable[[list[Tensor]], Any], trajectories: int, temperature: float = 1.0, rates: Any = (2.56, 2.56, 2.56)
) -> dict[str, float]:
    """Features of (θ, m), over one long chain, that differ from the truth by more than their Monte Carlo error.

    Errors come from the means of 40 stretches, in the long chain each ten times as long as anything is remembered; the
    false-failure rate is 1e-6 for all features together. Part of the potential, x²/2, is the weight decay's, and the
    gradients are noisy.
    """
    density = np.exp(-(u(GRID) - u(GRID).min()) / temperature)
    dice = random.Random(0)
    point = torch.tensor([dice.choices(GRID, density)[0]], dtype=F64, requires_grad=True)
    optimiser = make([point])
    share = 0.5

    def rest() -> float:
        x = point.item()
        return u(x) - share * x * x

    rows: list[tuple[float, float]] = []
    for _ in range(trajectories):
        optimiser.param_groups[0]["lr"] = rates[0]
        optimiser.begin_trajectory()
        for rate in rates[1:]:
            x = point.item()
            point.grad = torch.tensor([(x * x * x + 1 - 2 * share * x + dice.gauss(0, 0.3)) / 4], dtype=F64)
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()
        optimiser.end_trajectory(rest, reject=True)
        rows.append((point.item(), optimiser.momenta.item()))
    x, m = np.array(rows).T
    kinetic = stats.norm(scale=math.sqrt(temperature))
    # Moments of the law: θ and m are independent.
    momenta = {"m": 0.0, "m²": kinetic.var()}
    truth = {}
    for name in features(0.0, 0.0):
        of_x, of_m = (name.split("m")[0], "m" + name.split("m")[1]) if "m" in name else (name, "")
        mean = {"": 1.0, "x": np.average(GRID, weights=density), "x²": np.average(GRID**2, weights=density)}[of_x]
        truth[name] = mean * (momenta[of_m] if of_m else 1.0)
    limit = stats.t.isf(1e-6 / 2 / len(truth), 39)
    found = {}
    for name, series in features(x, m).items():
        means = series.reshape(40, -1).mean(1)
        z = (means.mean() - truth[name]) / (means.std(ddof=1) / math.sqrt(40))
        if not abs(z) < limit:
            found[name] = float(z)
    return found


def sampler(scheme: str = "OABAO", momentum: float = 0.9, temperature: float = 1.0) -> Callable[[list[Tensor]], Any]:
    def make(given: list[Tensor]) -> Any:
        settings: Any = {"lr": 1.0, "num_data": 4, "temperature": temperature, "weight_decay": 0.25, "seed": 0}
        if scheme == "HMC":
            return optim.HMC(given, **settings)
        return optim.GGMC(given, momentum=momentum, scheme=scheme, **settings)

    return make


SHORT, LONG = 2000, 8000  # trajectories
THERE_AND_BACK = (1.0, 3.5, 1.0)


@pytest.mark.parametrize(
    ("scheme", "temperature", "rates"),
    [
        ("OABAO", 1.0, (2.56, 2.56, 2.56)),
        ("OABAO", 0.5, THERE_AND_BACK),
        ("O(ABA)O", 1.0, (2.56, 2.56, 2.56)),
        ("HMC", 1.0, (2.56, 2.56, 2.56)),
    ],
)
def test_the_chain_is_exact(scheme: str, temperature: float, rates: tuple[float, ...]) -> None:
    assert violations(sampler(scheme, temperature=temperature), LONG, temperature, rates) == {}


def caught(**settings: Any) -> bool:
    """Does the same check fail? A short chain is tried first, to save time."""
    try:
        return any(violations(sampler(), number, **settings) for number in (SHORT, LONG))
    except BadInput as error:
        return "inside the support" in str(error)  # the chain ran away


def _no_flip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metropolis, "flip", lambda state: state)


def _stale_potential(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = metropolis.choose
    monkeypatch.setattr(metropolis, "choose", lambda a, e, s: choose(a, e, s)._replace(potential=e.potential))


def _half_drift_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    def stay(self: Any) -> None:
        if self._pending is not None and self._trajectory is not None:
            self._momentum, self._spare = self._spare, self._momentum
        self._pending = None

    monkeypatch.setattr(Midpoint, "_come_to_rest", stay)


def _work_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Trajectory.judge

    def buggy(self: Trajectory, *given: Any) -> Any:
        self.work.zero_()
        return judge(self, *given)

    monkeypatch.setattr(Trajectory, "judge", buggy)


def _prior_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sampler, "_prior", lambda self, now: 0.0)


def _everything_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.optim.sampler.log_uniforms", lambda n, g: torch.full((n,), -1e9, dtype=F64))


@pytest.mark.parametrize(
    "plant",
    [_no_flip, _stale_potential, _half_drift_not_undone, _work_left_out, _prior_left_out, _everything_accepted],
)
def test_planted_bugs_are_caught(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert caught()


def test_a_planted_lopsided_rate_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trajectory, "require_exact", lambda self: None)
    assert caught(rates=(0.6, 0.6, 3.5))
