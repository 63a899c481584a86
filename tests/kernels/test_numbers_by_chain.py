"""Step size, friction and temperature may differ from chain to chain: each moves as it would alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from experiments.linear import Noisy
from ggmc.dynamics import letters, metropolis, trajectory
from ggmc.dynamics.schedule import Along, Cosine, Over, ThereAndBack
from ggmc.dynamics.state import Info, Parameters, State
from ggmc.kernels import words
from tests.support.invariance import quartic
from tests.support.kernels import MASS, quartic_with_data

F64 = torch.float64
STEP_SIZES = torch.tensor([0.1, 0.3, 0.6], dtype=F64)
FRICTIONS = torch.tensor([0.2, 0.0, 3.0], dtype=F64)
TEMPERATURES = torch.tensor([0.3, 1.0, 2.5], dtype=F64)

KERNELS: list[Any] = [
    ggmc.GGMC(0.1, steps=3, mass=MASS),
    ggmc.GGMC(0.1, steps=3, scheme="O(BAB)O"),
    ggmc.GGMC(0.1, steps=3, scheme="BAOAB", adjust=False),
    ggmc.GGMC(0.1, steps=3, guide=Noisy(0.5), adjust=False),
    ggmc.GGMC(0.1, steps=3, over=Over(3, Cosine(0.3))),
    ggmc.GGMC(0.1, steps=3, explain=1.0),
    ggmc.GGMC(0.1, steps=3, along=Along(ThereAndBack(Cosine(0.3)), ThereAndBack(Cosine(0.5)))),
    ggmc.AMAGOLD(0.1, steps=3, mass=MASS),
    ggmc.HMC(0.1, 3),
    ggmc.MALT(0.1, 1.0, 3),
    ggmc.SGLD(0.1, 3),
    ggmc.SGHMC(0.1, 1.0, 3),
    ggmc.SGNHT(0.1, 1.0, 3, mass=MASS),
]


class Given:
    """Random numbers of three chains, of which a run may take some rows."""

    def __init__(self, chosen: list[int]):
        self.generator = torch.Generator().manual_seed(7)
        self.chosen = chosen

    def normals(self, like: Tensor, generator: torch.Generator) -> Callable[[], Tensor]:
        return lambda: torch.randn(3, like.shape[1], generator=self.generator, dtype=F64)[self.chosen]

    def log_uniforms(self, chains: int, generator: torch.Generator) -> Tensor:
        return torch.rand(3, generator=self.generator, dtype=F64)[self.chosen].log()


def run(
    kernel: Any, parameters: Parameters, start: State, chosen: list[int], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[State, Info]]:
    """Five trajectories of some of the chains."""
    given = Given(chosen)
    monkeypatch.setattr(words, "normals", given.normals)
    monkeypatch.setattr(trajectory, "normals", given.normals)
    monkeypatch.setattr(metropolis, "log_uniforms", given.log_uniforms)
    target = quartic_with_data()
    field = kernel.guide.bind(target)
    if field.order is not None:
        # One tape for all three, of which each chain has its column.
        draw = field.order.draw
        field.order.draw = lambda entries, batches, chains, _: draw(entries, batches, 3, given.generator)[:, chosen]
    sampler = kernel.sampler(target, field)
    state = start.map(lambda tensor: tensor[chosen])
    found = []
    for _ in range(5):
        state, info = sampler.step(state, parameters, torch.Generator().manual_seed(0))
        found.append((state, info))
    return found


def of_kernel(kernel: Any, **numbers: Any) -> Parameters:
    target = quartic_with_data()
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    if "friction" in numbers and sampler.program.friction == math.inf:
        numbers["friction"] = math.inf
    return sampler.parameters.change(**numbers)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_each_chain_moves_as_it_would_alone(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = quartic_with_data()
    generator = torch.Generator().manual_seed(1)
    start = kernel.sampler(target, kernel.guide.bind(target)).init(target.starts(3, generator), generator)
    # Without friction a chain alone draws no noise: compare it at a friction too small to matter.
    frictions = FRICTIONS.clamp_min(1e-300)
    numbers = {"step_size": STEP_SIZES, "friction": frictions, "temperature": TEMPERATURES}
    together = run(kernel, of_kernel(kernel, **numbers), start, [0, 1, 2], monkeypatch)
    for chain in range(3):
        own = {name: values[chain].item() for name, values in numbers.items()}
        alone = run(kernel, of_kernel(kernel, **own), start, [chain], monkeypatch)
        for (state, info), (own_state, own_info) in zip(together, alone, strict=True):
            for all_chains, one in zip(_tensors(state, info), _tensors(own_state, own_info), strict=True):
                torch.testing.assert_close(all_chains[chain : chain + 1], one, rtol=1e-12, atol=1e-12, equal_nan=True)


def _tensors(state: State, info: Info) -> list[Tensor]:
    found = [*state, *state.extra.values(), *info, *info.statistics.values()]
    return [value for value in found if isinstance(value, Tensor)]


def test_a_chain_without_friction_is_leapfrog_beside_others_with() -> None:
    target = quartic_with_data()
    field = ggmc.Exact().bind(target)
    sampler = ggmc.GGMC(0.1, 1.0, 3).sampler(target, field)
    generator = torch.Generator().manual_seed(0)
    start = sampler.init(target.starts(3, generator), generator)
    parameters = sampler.parameters.change(friction=torch.tensor([0.0, 1.0, math.inf], dtype=F64))
    after, _ = sampler.step(start, parameters, generator)
    plain = ggmc.GGMC(0.1, 0.0, 3).bind(target)[1]
    assert torch.equal(after.position[0], plain(start, torch.Generator().manual_seed(0))[0].position[0])


def test_a_number_for_all_is_the_same_number_for_each() -> None:
    target = quartic_with_data()
    ends = []
    for spread_out in (False, True):
        sampler = ggmc.GGMC(0.3, 0.7, (1, 4), temperature=0.6).sampler(target, ggmc.Exact().bind(target))
        generator = torch.Generator().manual_seed(0)
        state = sampler.init(target.starts(3, generator), generator)
        parameters = sampler.parameters
        if spread_out:
            numbers = {name: getattr(parameters, name).expand(3) for name in ("step_size", "friction", "temperature")}
            parameters = parameters.change(**numbers)
        for _ in range(5):
            state, _ = sampler.step(state, parameters, generator)
        ends.append(state)
    assert torch.equal(ends[0].position, ends[1].position)
    assert torch.equal(ends[0].momentum, ends[1].momentum)


@pytest.mark.parametrize(
    "kernel",
    [
        ggmc.GGMC(0.6, 0.9, 2),
        ggmc.AMAGOLD(0.6, 0.9, 2),
        ggmc.GGMC(0.6, 0.9, 3, along=Along(Cosine(0.3), either_way=True)),
    ],
    ids=str,
)
def test_every_temperature_has_its_own_distribution(kernel: Any) -> None:
    """Half of the chains at T = 1 and half at 0.4, started from their own distributions: both stay there."""
    chains = 20_000
    warm, cold = quartic(), quartic(0.4)
    generator = torch.Generator().manual_seed(3)
    sampler = kernel.sampler(warm.target, kernel.guide.bind(warm.target))
    temperature = torch.tensor([1.0, 0.4], dtype=F64).repeat_interleave(chains)
    parameters = sampler.parameters.change(temperature=temperature)
    positions = torch.cat([case.exact(chains, generator) for case in (warm, cold)])
    state = start = sampler.init(positions, generator)
    noise = torch.randn(positions.shape, generator=generator, dtype=F64)
    state = start = state._replace(momentum=letters.fresh_momentum(parameters, noise))
    for _ in range(10):
        state, _ = sampler.step(state, parameters, generator)
    for half in (slice(0, chains), slice(chains, None)):
        for feature in (lambda s: s.position[:, 0], lambda s: s.position[:, 0] ** 2, lambda s: s.momentum[:, 0] ** 2):
            moved = (feature(state) - feature(start))[half]
            assert abs(moved.mean()) < 5.5 * moved.std() / chains**0.5
