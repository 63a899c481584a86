"""What every kernel promises, in one table."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
import torch

import ggmc
from ggmc.dynamics.metropolis import Info
from ggmc.dynamics.schedule import Along, Cosine, ThereAndBack
from ggmc.dynamics.scheme import State
from ggmc.errors import BadInput
from ggmc.guides import Field
from ggmc.kernels import from_dict, to_dict

F64 = torch.float64

KERNELS: list[Any] = [
    ggmc.GGMC(step_size=0.4, friction=0.5, steps=3),
    ggmc.GGMC(step_size=0.4, scheme="O(ABA)O", steps=(1, 3), mass=[1.0, 2.0]),
    ggmc.GGMC(step_size=0.4, scheme="BAOAB", mass=[[1.0, 0.2], [0.2, 2.0]], temperature=0.5),
    ggmc.GGMC(step_size=0.4, adjust=False),
    ggmc.HMC(step_size=0.4, steps=3),
    ggmc.HMC(step_size=0.4, steps=(2, 5), mass="identity"),
    ggmc.MALA(step_size=0.4),
    ggmc.MALT(step_size=0.4, friction=0.7, steps=3),
    ggmc.GGMC(step_size=0.4, friction=math.inf, scheme="ABA"),
    ggmc.GGMC(step_size=0.2, guide=ggmc.Minibatch(2)),
    ggmc.GGMC(step_size=0.2, guide=ggmc.Minibatch(2, "iid"), steps="2 epochs", adjust=False),
    ggmc.HMC(step_size=0.2, steps=3, guide=ggmc.Minibatch(3, "epoch")),
    ggmc.GGMC(step_size=0.2, guide=ggmc.ControlVariate(2, curvature="dense"), steps=4),
    ggmc.GGMC(step_size=0.2, along=Along(ThereAndBack(Cosine(0.2))), steps=4),
    ggmc.GGMC(step_size=0.2, along=Along(Cosine(0.2), either_way=True), steps=4),
    ggmc.AMAGOLD(step_size=0.2, friction=2.0, steps=3),
    ggmc.AMAGOLD(step_size=0.2, friction=2.0, guide=ggmc.Minibatch(2, "iid")),
    ggmc.SGLD(step_size=0.2, steps=3, mass=[1.0, 2.0]),
    ggmc.SGLD(step_size=0.2, guide=ggmc.Minibatch(2)),
    ggmc.SGHMC(step_size=0.2, guide=ggmc.Minibatch(2), temperature=0.5),
]
KINDS = [ggmc.GGMC, ggmc.HMC, ggmc.MALA, ggmc.MALT, ggmc.AMAGOLD]


def target(dtype: torch.dtype = F64) -> ggmc.DataDensity:
    """U = Σ (x⁴/4 + x), the quartic part shared out over five examples."""
    shares = torch.tensor([0.1, 0.4, 0.2, 0.25, 0.05], dtype=dtype)
    start = torch.zeros(2, dtype=dtype)
    return ggmc.DataDensity(lambda x: -x.sum(), lambda x, share: -share * (x**4).sum() / 4, shares, start)


def start(kernel: Any, chains: int = 6, dtype: torch.dtype = F64) -> tuple[State, Any, torch.Generator]:
    generator = torch.Generator().manual_seed(0)
    t = target(dtype)
    init, step = kernel.bind(t)
    return init(t.starts(chains, generator), generator), step, generator


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
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
        for name in ("log_accept", "energy_error", "work"):
            assert getattr(info, name).dtype == torch.float64
            assert getattr(info, name).shape == (6,)
        assert info.accepted.dtype == info.diverging.dtype == torch.bool

    def test_the_cached_potential_and_gradient_are_those_of_the_position(self, kernel: Any) -> None:
        state, step, generator = start(kernel)
        for _ in range(30):
            state, _ = step(state, generator)
            potential, gradient = target().potential_and_gradient(state.position)
            torch.testing.assert_close(state.potential, potential)
            if state.gradient is not None and isinstance(kernel.guide, ggmc.Exact):
                torch.testing.assert_close(state.gradient, gradient)

    def test_a_step_does_not_change_the_state_it_was_given(self, kernel: Any) -> None:
        state, step, generator = start(kernel)
        tensors = [x for x in state if isinstance(x, torch.Tensor)]
        copies = [x.clone() for x in tensors]
        step(state, generator)
        assert all(map(torch.equal, copies, tensors))

    def test_the_same_generator_gives_the_same_steps(self, kernel: Any) -> None:
        ends = []
        for _ in range(2):
            state, step, generator = start(kernel)
            for _ in range(5):
                state, _ = step(state, generator)
            ends.append(state)
        assert torch.equal(ends[0].position, ends[1].position)
        assert torch.equal(ends[0].momentum, ends[1].momentum)

    def test_chains_go_different_ways(self, kernel: Any) -> None:
        generator = torch.Generator().manual_seed(0)
        init, step = kernel.bind(target())
        state = init(torch.zeros(50, 2, dtype=F64), generator)
        assert len(state.momentum.unique(dim=0)) == 50
        state, _ = step(state, generator)
        assert len(state.position.unique(dim=0)) > 25

    def test_settings_are_frozen_printable_and_survive_storage(self, kernel: Any) -> None:
        with pytest.raises(FrozenInstanceError):
            kernel.step_size = 1.0
        assert type(kernel).__name__ in repr(kernel)
        assert pickle.loads(pickle.dumps(kernel)) == kernel
        again = from_dict(json.loads(json.dumps(to_dict(kernel), allow_nan=False)))
        assert again.step_size == kernel.step_size
        assert again == kernel

    def test_it_works_in_float32(self, kernel: Any) -> None:
        state, step, generator = start(kernel, dtype=torch.float32)
        state, info = step(state, generator)
        assert state.position.dtype == torch.float32
        assert state.potential is not None
        assert state.potential.dtype == info.work.dtype == torch.float64

    def test_small_steps_accept_everything(self, kernel: Any) -> None:
        if isinstance(kernel, ggmc.SGHMC):
            pytest.skip("never: it cannot retrace its steps")
        state, step, generator = start(replace(kernel, step_size=1e-3))
        for _ in range(3):
            state, info = step(state, generator)
            assert (info.log_accept.abs() < 1e-2).all()

    def test_a_non_finite_start_is_an_error_that_says_where(self, kernel: Any) -> None:
        init, _ = kernel.bind(target())
        position = torch.zeros(4, 2, dtype=F64)
        position[2, 1] = math.nan
        with pytest.raises(BadInput, match=r"chain 2 starts with a position of nan in theta\[1\]"):
            init(position, torch.Generator())

    def test_positions_of_the_wrong_shape_are_refused(self, kernel: Any) -> None:
        init, _ = kernel.bind(target())
        with pytest.raises(BadInput, match=r"shape \[chains, 2\], got \[4, 3\]"):
            init(torch.zeros(4, 3), torch.Generator())


@pytest.mark.parametrize("kind", KINDS)
class TestBadSettings:
    @pytest.mark.parametrize(
        ("setting", "value", "why"),
        [
            ("step_size", -0.1, "step_size must be a positive number, got -0.1"),
            ("step_size", 0.0, "step_size must be a positive number"),
            ("step_size", math.inf, "step_size must be a positive number"),
            ("step_size", math.nan, "step_size must be a positive number"),
            ("step_size", "big", "step_size must be a number"),
            ("temperature", -1.0, "temperature must be zero or a positive number, got -1.0"),
            ("temperature", math.inf, "temperature must be zero or a positive number"),
            ("temperature", 0.0, "use adjust=False"),
            ("friction", -1.0, "friction must be zero or a positive number, got -1.0"),
            ("friction", math.nan, "friction must be zero or a positive number"),
            ("steps", 0, "steps must be a whole number of at least 1, got 0"),
            ("steps", 1.5, "steps must be a whole number"),
            ("steps", (3, 2), r"pair \(least, most\), got \(3, 2\)"),
            ("steps", (1, 2, 3), "pair"),
            ("mass", [1.0, -1.0], "positive definite"),
            ("friction", "2", "friction must be a number, got '2'"),
            ("mass", "dense", "mass='dense' is found in warm-up: leave step_size out too"),
            ("mass", "heavy", "mass must be a tensor, 'identity', 'diagonal' or 'dense', got 'heavy'"),
            ("guide", "exact", "guide must be a guide"),
        ],
    )
    def test_are_refused(self, kind: Any, setting: str, value: Any, why: str) -> None:
        if setting not in kind.__dataclass_fields__:
            pytest.skip(f"{kind.__name__} has no {setting}")
        settings = {"step_size": 0.1} | ({"steps": 2} if "steps" in kind.__dataclass_fields__ else {})
        with pytest.raises(BadInput, match=why):
            kind(**(settings | {setting: value}))

    def test_an_open_step_size_cannot_be_bound_by_hand(self, kind: Any) -> None:
        with pytest.raises(BadInput, match=r"step_size=None is tuned by ggmc\.sample"):
            kind().bind(target())

    def test_a_mass_of_another_size_is_refused(self, kind: Any) -> None:
        settings = {"steps": 2} if "steps" in kind.__dataclass_fields__ else {}
        with pytest.raises(BadInput, match="mass is for 3 parameters, but the target has 2"):
            kind(step_size=0.1, mass=[1.0, 1.0, 1.0], **settings).bind(target())


@pytest.mark.parametrize("kind", [ggmc.HMC, ggmc.MALT])
def test_a_given_step_size_needs_steps_where_one_step_is_another_sampler(kind: Any) -> None:
    with pytest.raises(BadInput, match="needs steps too"):
        kind(step_size=0.1)


def test_unknown_kernels_are_refused() -> None:
    with pytest.raises(BadInput, match="unknown kernel 'NUTS'"):
        from_dict({"kernel": "NUTS"})


def test_unknown_guides_are_refused() -> None:
    plain = to_dict(ggmc.HMC(0.1, 2))
    with pytest.raises(BadInput, match="unknown guide or schedule 'Oracle'"):
        from_dict(plain | {"guide": {"type": "Oracle"}})


def test_a_start_outside_the_support_is_an_error() -> None:
    t = ggmc.Density(lambda x: torch.where(x[1] > -1, -(x**2).sum(), -torch.inf), torch.zeros(2, dtype=F64))
    init, _ = ggmc.MALA(0.1).bind(t)
    with pytest.raises(BadInput, match="chain 1 starts at a potential of inf"):
        init(torch.tensor([[0.0, 0.0], [0.0, -5.0]], dtype=F64), torch.Generator())


def test_temperature_zero_is_descent() -> None:
    """No noise at all: potentials only fall once momentum is lost."""
    state, step, generator = start(ggmc.GGMC(step_size=0.1, friction=5.0, temperature=0.0, adjust=False))
    assert (state.momentum == 0).all()
    for _ in range(500):
        state, info = step(state, generator)
        assert not info.diverging.any()
        assert info.log_accept.dtype == torch.float64
    torch.testing.assert_close(state.position, torch.full_like(state.position, -1.0))


def test_rejections_keep_the_refreshment() -> None:
    """A hopeless step: every trajectory is rejected, and yet the momentum goes on being refreshed."""
    state, step, generator = start(ggmc.GGMC(step_size=50.0, friction=0.01))
    momenta = []
    for _ in range(4):
        state, info = step(state, generator)
        assert not info.accepted.any()
        momenta.append(state.momentum)
    assert not torch.equal(momenta[0].abs(), momenta[1].abs())


def test_hmc_mala_and_malt_are_words_of_ggmc() -> None:
    assert ggmc.HMC(0.1, 5).as_ggmc() == ggmc.GGMC(0.1, math.inf, 5, "O(BAB)O")
    assert ggmc.MALA(0.1).as_ggmc() == ggmc.GGMC(0.1, math.inf, 1, "OBABO")
    assert ggmc.MALT(0.1, 2.0, 5).as_ggmc() == ggmc.GGMC(0.1, 2.0, 5, "OBABO", fresh_momentum=True)


def test_one_gradient_per_step() -> None:
    calls = 0

    class Counting(ggmc.Density):
        def potential_and_gradient(self, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            nonlocal calls
            calls += 1
            return super().potential_and_gradient(position)

        def potential(self, position: torch.Tensor) -> torch.Tensor:
            raise AssertionError("the last gradient had the potential for free")

    t = Counting(lambda x: -(x**2).sum(), torch.zeros(2, dtype=F64))
    for kernel in (
        ggmc.GGMC(0.1, steps=5),
        ggmc.HMC(0.1, 5),
        ggmc.MALT(0.1, 1.0, 5),
        ggmc.GGMC(0.1, scheme="BAOAB", steps=5),
    ):
        generator = torch.Generator().manual_seed(0)
        init, step = kernel.bind(t)
        state = init(torch.zeros(3, 2, dtype=F64), generator)
        calls = 0
        for _ in range(4):
            state, _ = step(state, generator)
        assert calls == 20


def test_steps_of_a_pair_are_drawn_evenly() -> None:
    state, step, generator = start(ggmc.HMC(0.01, (2, 4)), chains=1)
    seen = [step(state, generator)[1].steps for _ in range(600)]
    assert {n: 150 < seen.count(n) < 250 for n in set(seen)} == {2: True, 3: True, 4: True}


@pytest.mark.parametrize("word", ["O(BAB)O", "OBABO", "BAOAB", "O(ABA)O"])
def test_friction_acts_for_the_whole_time_of_a_trajectory(word: str) -> None:
    """Without a force or noise, momentum falls by e^(−γ·steps·h), wherever the O's stand."""
    flat = ggmc.Density(lambda x: -1e-12 * x.sum(), torch.zeros(1, dtype=F64))
    generator = torch.Generator().manual_seed(0)
    init, step = ggmc.GGMC(0.1, 0.7, 4, word, temperature=0.0, adjust=False).bind(flat)
    state = init(torch.zeros(3, 1, dtype=F64), generator)._replace(momentum=torch.ones(3, 1, dtype=F64))
    after, _ = step(state, generator)
    torch.testing.assert_close(after.momentum, torch.full((3, 1), math.exp(-0.28), dtype=F64))


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_reaches_the_word(kind: Any) -> None:
    given = {
        "step_size": 0.3,
        "steps": (2, 5),
        "friction": 0.3,
        "temperature": 0.5,
        "mass": [1.0, 2.0],
        "adjust": False,
    }
    names = set(kind.__dataclass_fields__)
    kernel = kind(**{name: value for name, value in given.items() if name in names})
    for name in names:
        assert getattr(kernel.as_ggmc(), name) == getattr(kernel, name), name


@pytest.mark.parametrize("word", ["OBABO", "O(ABA)O", "BAOAB"])
def test_every_kick_point_reads_its_own_entry_of_a_fresh_tape(word: str) -> None:
    read: list[int] = []
    tapes: list[list[int]] = []

    class Counted(Field):
        deterministic = False

        def __call__(self, position: torch.Tensor, entry: int) -> tuple[torch.Tensor, None]:
            read.append(entry)
            return position + entry, None

        def tape(self, gradients: int, chains: int, generator: torch.Generator) -> list[int]:
            tapes.append([1000 * len(tapes) + i for i in range(gradients)])
            return tapes[-1]

    class Guide:
        def bind(self, target: Any) -> Field:
            return Counted()

    generator = torch.Generator().manual_seed(0)
    init, step = ggmc.GGMC(0.1, steps=3, scheme=word, guide=Guide()).bind(target())
    state = init(torch.zeros(3, 2, dtype=F64), generator)
    for _ in range(3):
        state, _ = step(state, generator)
        assert state.gradient is None
    assert read == [entry for tape in tapes for entry in tape]


def test_the_number_of_steps_does_not_look_at_the_state() -> None:
    init, step = ggmc.HMC(0.1, (1, 9)).bind(target())
    generator = torch.Generator()

    def seen(place: float) -> list[int]:
        state = init(torch.full((2, 2), place, dtype=F64), generator.manual_seed(0))
        return [step(state, generator.manual_seed(seed))[1].steps for seed in range(30)]

    assert seen(-1.0) == seen(0.0) == seen(1.0) == seen(4.0)
