"""What every kernel promises, in one table; two kernels of a user's own among them."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics import metropolis
from ggmc.dynamics.letters import LETTERS, Letter, Motion
from ggmc.dynamics.mass import Diagonal, Identity, LowRank, MassLike, fixed_mass
from ggmc.dynamics.schedule import Along, Cosine, Over, ThereAndBack
from ggmc.dynamics.state import Info, Parameters, State
from ggmc.errors import BadInput
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels import Kernel, Program, Sampler, WordKernel, from_dict, to_dict
from ggmc.targets.base import Target
from tests.support.invariance import quartic, violations
from tests.support.kernels import quartic_with_data

F64 = torch.float64


# A user's kernel that is a word with a letter of its own


class RandomSigns(Letter[None]):
    """S: each coordinate of the momentum keeps or changes its sign, with probability one half; counts the changes."""

    kicks, drifts, merges, outside = False, False, False, True
    noisy, not_reversible = True, None

    def prepare(self, time: float, warmth: float, parameters: Parameters, like: Tensor) -> None:
        return None

    def apply(self, motion: Motion, numbers: None) -> None:
        changed = motion.noise() < 0
        motion.momentum = torch.where(changed, -motion.momentum, motion.momentum)
        motion.extra["sign_changes"] = motion.extra["sign_changes"] + changed.sum(1)

    def noises(self, time: float, parameters: Parameters) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class SignFlipper(WordKernel):
    step_size: float | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = True

    def program(self, field: GradientField) -> Program:
        def none_yet(position: Tensor) -> Tensor:
            return torch.zeros(len(position), dtype=torch.int64)

        def statistics(state: State) -> Mapping[str, Tensor]:
            return {"sign_changes": state.extra["sign_changes"]}

        return Program(
            "SOBABOS",
            friction=0.5,
            steps=2,
            letters=LETTERS | {"S": RandomSigns()},
            variables={"sign_changes": none_yet},
            statistics=statistics,
        )


# A user's kernel from the ground up


class RandomWalkSampler(Sampler):
    def __init__(self, kernel: RandomWalk, target: Target, field: GradientField):
        step_size = math.nan if kernel.step_size is None else kernel.step_size
        mass = fixed_mass(kernel.mass, target.start)
        parameters = Parameters.of(step_size, 0.0, kernel.temperature, mass)
        super().__init__(target, field, parameters, ["It is slow."], adjust=kernel.adjust)

    def init(self, position: Tensor, generator: torch.Generator) -> State:
        position = position.to(self.target.dtype)
        return State(position, torch.zeros_like(position), self.target.potential(position))

    def step(self, state: State, parameters: Parameters, generator: torch.Generator) -> tuple[State, Info]:
        noise = torch.randn(state.position.shape, generator=generator, dtype=state.position.dtype)
        there = state.position + parameters.step_size.to(noise.dtype) * noise
        end = state._replace(
            position=there, potential=self.target.potential(there), trajectories=state.trajectories + 1
        )
        no_work = torch.zeros(len(there), dtype=F64)
        log_uniform = metropolis.log_uniforms(len(there), generator)
        after, info = metropolis.decide(state, end, no_work, 1, parameters.temperature, log_uniform)
        return after, info._replace(statistics={"proposed": there})


@dataclass(frozen=True, eq=False)
class RandomWalk(Kernel):
    step_size: float | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = True
    limits: tuple[float, float] = (-1.0, 0.0)

    def sampler(self, target: Target, field: GradientField) -> Sampler:
        return RandomWalkSampler(self, target, field)


LOW_RANK = LowRank(
    torch.tensor([1.0, 2.0], dtype=F64), torch.tensor([[0.6], [0.8]], dtype=F64), torch.tensor([3.0], dtype=F64)
)
OWN: list[Any] = [SignFlipper(0.4), SignFlipper(0.4, ggmc.Minibatch(2), 0.5, [1.0, 2.0]), RandomWalk(0.4)]
LIBRARYS: list[Any] = [
    ggmc.GGMC(step_size=0.4, friction=0.5, steps=3),
    ggmc.GGMC(step_size=0.4, scheme="O(ABA)O", steps=(1, 3), mass=[1.0, 2.0]),
    ggmc.GGMC(step_size=0.4, scheme="BAOAB", mass=[[1.0, 0.2], [0.2, 2.0]], temperature=0.5),
    ggmc.GGMC(step_size=0.4, scheme="O(BAB)O", steps=(1, 3), mass=LOW_RANK, temperature=0.5),
    ggmc.GGMC(step_size=0.2, guide=ggmc.Minibatch(2), mass=LOW_RANK),
    ggmc.GGMC(step_size=0.4, adjust=False),
    ggmc.HMC(step_size=0.4, steps=3),
    ggmc.HMC(step_size=0.4, steps=(2, 5), mass="identity"),
    ggmc.MALA(step_size=0.4),
    ggmc.MALT(step_size=0.4, friction=0.7, steps=3),
    ggmc.GGMC(step_size=0.4, friction=math.inf, scheme="ABA"),
    ggmc.GGMC(step_size=0.2, guide=ggmc.Minibatch(2)),
    ggmc.GGMC(step_size=0.2, guide=ggmc.Minibatch(2, recut=True), mass=torch.tensor([1.0, 2.0])),
    ggmc.GGMC(step_size=0.2, guide=ggmc.Minibatch(2, "iid"), steps="2 epochs", adjust=False),
    ggmc.HMC(step_size=0.2, steps=3, guide=ggmc.Minibatch(3, "epoch")),
    ggmc.GGMC(step_size=0.2, guide=ggmc.ControlVariate(2, curvature="dense"), steps=4),
    ggmc.GGMC(step_size=0.2, along=Along(ThereAndBack(Cosine(0.2))), steps=4),
    ggmc.GGMC(step_size=0.2, along=Along(Cosine(0.2), either_way=True), steps=4),
    ggmc.GGMC(step_size=0.2, along=Along(temperature=ThereAndBack(Cosine(0.5))), steps=4),
    ggmc.GGMC(step_size=0.2, over=Over(3, Cosine(0.2)), explain=0.5, steps=4),
    ggmc.AMAGOLD(step_size=0.2, friction=2.0, steps=3),
    ggmc.AMAGOLD(step_size=0.2, friction=2.0, guide=ggmc.Minibatch(2, "iid")),
    ggmc.SGLD(step_size=0.2, steps=3, mass=[1.0, 2.0]),
    ggmc.SGLD(step_size=0.2, guide=ggmc.Minibatch(2)),
    ggmc.SGHMC(step_size=0.2, guide=ggmc.Minibatch(2), temperature=0.5),
    ggmc.SGNHT(step_size=0.2, steps=3, mass=[1.0, 2.0], thermal_mass=2.0),
    ggmc.SGNHT(step_size=0.2, guide=ggmc.Minibatch(2), temperature=0.5),
]


def start(kernel: Kernel, chains: int = 6, dtype: torch.dtype = F64) -> tuple[State, Any, torch.Generator]:
    generator = torch.Generator().manual_seed(0)
    target = quartic_with_data(dtype)
    init, step = kernel.bind(target)
    return init(target.starts(chains, generator), generator), step, generator


def tensors(state: State) -> dict[str, Tensor]:
    named = dict(state._asdict()) | dict(state.extra)
    return {name: value for name, value in named.items() if isinstance(value, Tensor)}


@pytest.mark.parametrize("kernel", [*LIBRARYS, *OWN], ids=str)
class TestEveryKernel:
    def test_steps_return_state_and_info_for_every_chain(self, kernel: Any) -> None:
        state, step, generator = start(kernel)
        after, info = step(state, generator)
        assert isinstance(after, State)
        assert isinstance(info, Info)
        assert after.position.shape == after.momentum.shape == (6, 2)
        assert after.potential is not None
        assert after.potential.shape == (6,)
        assert after.potential.dtype == torch.float64
        for number in (info.log_accept, info.energy_error, info.work):
            assert number.dtype == torch.float64
            assert number.shape == (6,)
        assert info.accepted.dtype == info.diverging.dtype == torch.bool
        assert info.accepted.shape == info.diverging.shape == (6,)
        assert after.trajectories == state.trajectories + 1
        assert after.extra.keys() == state.extra.keys()
        for own in [*after.extra.values(), *info.statistics.values()]:
            assert len(own) == 6

    def test_the_cached_potential_and_gradient_are_those_of_the_position(self, kernel: Any) -> None:
        state, step, generator = start(kernel)
        for _ in range(30):
            state, _ = step(state, generator)
            potential, gradient = quartic_with_data().potential_and_gradient(state.position)
            torch.testing.assert_close(state.potential, potential)
            if state.gradient is not None and isinstance(kernel.guide, ggmc.Exact):
                torch.testing.assert_close(state.gradient, gradient)

    def test_a_step_does_not_change_the_state_it_was_given(self, kernel: Any) -> None:
        state, step, generator = start(kernel)
        before = {name: tensor.clone() for name, tensor in tensors(state).items()}
        step(state, generator)
        for name, tensor in tensors(state).items():
            assert torch.equal(before[name], tensor), name

    def test_the_same_generator_gives_the_same_steps(self, kernel: Any) -> None:
        ends = []
        for _ in range(2):
            state, step, generator = start(kernel)
            for _ in range(5):
                state, _ = step(state, generator)
            ends.append(tensors(state))
        assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])

    def test_chains_go_different_ways(self, kernel: Any) -> None:
        generator = torch.Generator().manual_seed(0)
        init, step = kernel.bind(quartic_with_data())
        state = init(torch.zeros(50, 2, dtype=F64), generator)
        if isinstance(kernel, WordKernel):
            assert len(state.momentum.unique(dim=0)) == 50
        state, _ = step(state, generator)
        assert len(state.position.unique(dim=0)) > 25

    def test_settings_are_frozen_printable_and_survive_pickling(self, kernel: Any) -> None:
        with pytest.raises(FrozenInstanceError):
            kernel.step_size = 1.0
        assert type(kernel).__name__ in repr(kernel)
        again = pickle.loads(pickle.dumps(kernel))
        assert again == kernel
        assert hash(again) == hash(kernel)
        assert kernel != replace(kernel, step_size=0.123)

    def test_it_works_in_float32(self, kernel: Any) -> None:
        state, step, generator = start(kernel, dtype=torch.float32)
        state, info = step(state, generator)
        assert state.position.dtype == state.momentum.dtype == torch.float32
        assert state.potential is not None
        assert state.potential.dtype == info.work.dtype == torch.float64

    def test_small_steps_accept_everything(self, kernel: Any) -> None:
        if isinstance(kernel, ggmc.SGHMC | ggmc.SGNHT):
            pytest.skip("never: no test applies to it")
        along = kernel.along if isinstance(kernel, ggmc.GGMC) else None
        tempered = along is not None and not along.keeps_temperature  # its heat falls as the root of the step only
        state, step, generator = start(replace(kernel, step_size=1e-6 if tempered else 1e-3))
        for _ in range(3):
            state, info = step(state, generator)
            assert (info.log_accept.abs() < 1e-2).all()

    def test_it_runs_in_sample_with_its_own_statistics(self, kernel: Any) -> None:
        trace = ggmc.sample(quartic_with_data(), kernel, draws=4, warmup=3, chains=3, progress=False)
        _, info = (found := start(kernel))[1](found[0], found[2])
        assert trace["theta"].shape == (3, 4, 2)
        assert trace.stats.keys() >= info.statistics.keys()
        for name, own in info.statistics.items():
            assert trace.stats[name].shape == (3, 4, *own.shape[1:])
        assert (trace.stats["step_size"] > 0).all()

    def test_its_settings_are_plain_values(self, kernel: Any) -> None:
        assert json.loads(json.dumps(to_dict(kernel), allow_nan=False))["step_size"] == kernel.step_size


@pytest.mark.parametrize("kernel", LIBRARYS, ids=str)
class TestEveryKernelOfTheLibrary:
    def test_settings_survive_storage(self, kernel: Any) -> None:
        again = from_dict(json.loads(json.dumps(to_dict(kernel), allow_nan=False)))
        assert again.step_size == kernel.step_size
        assert again == kernel

    def test_a_non_finite_start_is_an_error_that_says_where(self, kernel: Any) -> None:
        init, _ = kernel.bind(quartic_with_data())
        position = torch.zeros(4, 2, dtype=F64)
        position[2, 1] = math.nan
        with pytest.raises(BadInput, match=r"chain 2 starts with a position of nan in theta\[1\]"):
            init(position, torch.Generator())

    def test_positions_of_the_wrong_shape_are_refused(self, kernel: Any) -> None:
        init, _ = kernel.bind(quartic_with_data())
        with pytest.raises(BadInput, match=r"shape \[chains, 2\], got \[4, 3\]"):
            init(torch.zeros(4, 3), torch.Generator())


# Kernels of a user's own: right, tuned by warm-up, and named in what is stored


@pytest.mark.parametrize("kernel", [SignFlipper(0.7), RandomWalk(1.5)], ids=str)
def test_own_kernels_are_exact(kernel: Any) -> None:
    assert violations(quartic(), kernel) == {}


@pytest.mark.parametrize("kernel", [SignFlipper(), RandomWalk()], ids=str)
def test_own_kernels_are_tuned_by_warm_up(kernel: Any) -> None:
    trace = ggmc.sample(quartic().target, kernel, draws=600, warmup=300, progress=False)
    assert trace.kernel.step_size is not None
    assert trace.kernel.step_size > 0.1
    assert 0.6 < trace.stats["acceptance_rate"].mean() < 0.99
    assert abs(trace["theta"].mean() + 0.6224) < 6 * trace.summary()["mcse_mean"].item()


def test_own_variables_and_statistics_reach_the_trace() -> None:
    trace = ggmc.sample(quartic_with_data(), SignFlipper(0.4), draws=20, warmup=0, progress=False)
    changes = trace.stats["sign_changes"]
    assert changes.shape == (4, 20)
    # Two steps with two letters each, and two coordinates, half of which change. A rejection forgets what changed along
    # the way, and never what changed at the ends.
    assert (np.diff(changes, axis=1) >= 0).all()
    assert (np.diff(changes, axis=1) <= 8).all()
    assert changes[:, -1].min() > 0
    walk = ggmc.sample(quartic_with_data(), RandomWalk(0.4), draws=20, warmup=0, progress=False)
    taken = walk.stats["is_accepted"]
    assert 0 < taken.sum() < taken.size
    assert np.array_equal(walk.stats["proposed"][taken], walk["theta"][taken])
    assert "It is slow." in walk.warnings
    exported = walk.to_arviz().sample_stats["proposed"]
    assert exported.shape == (4, 20, 2)


@pytest.mark.parametrize(("step_size", "kept", "changes"), [(1e-3, True, 4.0), (50.0, False, 2.0)])
def test_own_variables_go_with_the_chain(step_size: float, kept: bool, changes: float) -> None:
    """Of eight signs half change, and the four at the ends, outside the test, whether it is accepted or not."""
    chains = 2000
    state, step, generator = start(SignFlipper(step_size), chains)
    after, info = step(state, generator)
    assert info.accepted.double().mean() > 0.99 if kept else not info.accepted.any()
    assert torch.equal(info.statistics["sign_changes"], after.extra["sign_changes"])
    mean = after.extra["sign_changes"].double().mean().item()
    assert abs(mean - changes) < 6 * (changes / 2 / chains) ** 0.5 + 0.02


def test_own_settings_that_look_like_no_mass_are_compared_as_they_are() -> None:
    assert RandomWalk(0.1, limits=(-1.0, 0.0)) == RandomWalk(0.1, limits=(-1.0, 0.0))
    assert RandomWalk(0.1, limits=(-1.0, 0.0)) != RandomWalk(0.1, limits=(-1.0, 1.0))


@pytest.mark.parametrize("kernel", [SignFlipper(0.4), RandomWalk(0.4)], ids=str)
def test_own_kernels_are_stored_by_name_and_not_restored(kernel: Any) -> None:
    plain = json.loads(json.dumps(to_dict(kernel)))
    assert plain["kernel"] == f"{__name__}.{type(kernel).__name__}"
    assert plain["step_size"] == 0.4
    with pytest.raises(BadInput, match=f"unknown kernel '{__name__}.{type(kernel).__name__}'"):
        from_dict(plain)


def test_an_incomplete_kernel_cannot_be_made() -> None:
    class Nothing(Kernel):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()  # pyright: ignore[reportAbstractUsage]


def test_a_mass_is_the_same_in_every_form() -> None:
    one = ggmc.GGMC(0.1, mass=[1.0, 2.0])
    assert one == ggmc.GGMC(0.1, mass=torch.tensor([1.0, 2.0])) == ggmc.GGMC(0.1, mass=Diagonal(torch.tensor([1.0, 2])))
    assert one != ggmc.GGMC(0.1, mass=[1.0, 3.0])
    assert one != ggmc.GGMC(0.1)
    assert ggmc.GGMC(0.1, mass=Identity()) == from_dict(to_dict(ggmc.GGMC(0.1, mass=Identity())))
    assert ggmc.GGMC(mass="dense") != ggmc.GGMC(mass="diagonal")
