"""Compiled trajectories are those of the letters, for every kernel, guide and mass, and refuse what has changed."""

from __future__ import annotations

import logging
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics import compiled_moves, compiled_stretch
from ggmc.dynamics.compiled_moves import CompiledMoves
from ggmc.dynamics.mass import LowRank, as_mass
from ggmc.dynamics.schedule import Along, Cosine, ThereAndBack
from ggmc.dynamics.scheme import Scheme
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import NotExact
from ggmc.programs.compiled import Compiled
from tests.support.invariance import bound

F64 = torch.float64
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
D = 3


def tilted(w: Tensor) -> Tensor:
    return -(w**4 / 4 + w).sum() - (w[0] * w[1]).sin()


def with_data() -> ggmc.DataDensity:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(24, D, dtype=F64, generator=generator)
    y = (torch.rand(24, dtype=F64, generator=generator) < 0.5).double()

    def log_likelihood(w: Tensor, batch: Any) -> Tensor:
        return batch[1] * (batch[0] @ w) - torch.nn.functional.softplus(batch[0] @ w)

    return ggmc.DataDensity(lambda w: -(w**2).sum() / 2, log_likelihood, (x, y), torch.zeros(D, dtype=F64))


def network() -> ggmc.Posterior:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(20, 2, dtype=F64, generator=generator)
    net = ggmc.nets.MLP([2, 4, 1]).double()
    return ggmc.Posterior(net, ggmc.likelihoods.Gaussian(0.5), ggmc.priors.Gaussian(1.0), x, x.sum(1), vectorise=True)


MASSES: dict[str, Any] = {
    "identity": None,
    "diagonal": torch.tensor([2.0, 1.0, 0.5], dtype=F64),
    "dense": torch.tensor([[2.0, 0.8, 0.0], [0.8, 1.0, 0.1], [0.0, 0.1, 1.0]], dtype=F64),
    "low rank": LowRank(
        torch.tensor([1.0, 0.5, 2.0], dtype=F64),
        torch.tensor([[0.6], [0.8], [0.0]], dtype=F64),
        torch.tensor([3.0], dtype=F64),
    ),
}  # fmt: skip
KERNELS: dict[str, Any] = {
    "GGMC": ggmc.GGMC(0.2, 0.7, 4),
    "GGMC, ends": ggmc.GGMC(0.2, 0.7, (2, 6), "O(BAB)O"),
    "one step": ggmc.GGMC(0.2, 0.7, 1, "O(BAB)O"),
    "HMC": ggmc.HMC(0.2, 4),
    "three stages": ggmc.HMC(0.3, 3, scheme="O(BCSS3)O"),
    "BAOAB": ggmc.GGMC(0.2, 0.7, 3, "BAOAB"),
    "ABOBA": ggmc.GGMC(0.2, 0.7, 3, "ABOBA"),
    "OABAO": ggmc.GGMC(0.2, 0.7, 3, "OABAO"),
    "no friction": ggmc.GGMC(0.2, 0.0, 3, fresh_momentum=True),
    "cold": ggmc.GGMC(0.2, 0.7, 4, temperature=0.3),
    "there and back": ggmc.GGMC(
        0.2, 0.7, 4, along=Along(step_size=ThereAndBack(Cosine(0.5)), temperature=ThereAndBack(Cosine(2.0)))
    ),
    "MALA": ggmc.MALA(0.2),
    "MALT": ggmc.MALT(0.2, 0.7, 4),
    "AMAGOLD": ggmc.AMAGOLD(0.2, 0.7, 4),
    "unadjusted": ggmc.GGMC(0.2, 0.7, 4, adjust=False),
    "SGHMC": ggmc.SGHMC(0.1, steps=3),
    "SGLD": ggmc.SGLD(0.1),
    "SGNHT": ggmc.SGNHT(0.1, steps=3),
}
GUIDES: dict[str, Any] = {
    "sweeps": ggmc.Minibatch(5),
    "independent": ggmc.Minibatch(5, "iid"),
    "cut anew": ggmc.Minibatch(5, recut=True),
    "control variates": ggmc.ControlVariate(5, anchor=torch.zeros(D, dtype=F64)),
    "curved control variates": ggmc.ControlVariate(5, curvature="dense", anchor=torch.zeros(D, dtype=F64)),
    "surrogate": ggmc.Surrogate(lambda w: -(w**2).sum()),
}


def both_ways(target: Any, kernel: Any, trajectories: int = 3, chains: int = 3) -> None:
    """The same random numbers, by letters and compiled: the same positions, momenta, work and decisions."""
    found: list[Any] = []
    for bind in (lambda: kernel.bind(target), lambda: bound(target, kernel)):
        init, step = bind()
        generator = torch.Generator().manual_seed(0)
        state = init(0.3 * torch.randn(chains, target.layout.size, dtype=F64, generator=generator), generator)
        reports = []
        for _ in range(trajectories):
            state, info = step(state, generator)
            reports.append(info)
        found.append((state, reports))
    (plain, expected), (compiled, reports) = found
    torch.testing.assert_close(compiled.position, plain.position, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(compiled.momentum, plain.momentum, rtol=1e-9, atol=1e-9)
    for one, other in zip(reports, expected, strict=True):
        assert torch.equal(one.accepted, other.accepted)
        torch.testing.assert_close(one.work, other.work, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(one.energy_error, other.energy_error, rtol=1e-9, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str) -> None:
    both_ways(ggmc.Density(tilted, torch.zeros(D, dtype=F64)), KERNELS[name])


@pytest.mark.parametrize("scheme", ["OBABO", "O(BAB)O", "O(ABA)O"])
@pytest.mark.parametrize("name", GUIDES)
def test_guides(name: str, scheme: str) -> None:
    both_ways(with_data(), ggmc.GGMC(0.1, 0.7, 10, scheme, GUIDES[name]))


@pytest.mark.parametrize("name", MASSES)
def test_masses(name: str) -> None:
    both_ways(with_data(), ggmc.GGMC(0.1, 0.7, 4, mass=MASSES[name]))


def test_networks() -> None:
    both_ways(network(), ggmc.GGMC(0.02, 0.7, 5))
    both_ways(network(), ggmc.GGMC(0.02, 0.7, 8, guide=ggmc.Minibatch(5)))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is compiled from now on."""
    made: list[Any] = []

    class Counted(Compiled):
        def __init__(self, *arguments: Any, **options: Any):
            super().__init__(*arguments, **options)
            made.append(self)

    monkeypatch.setattr(compiled_stretch, "Compiled", Counted)
    return made


def test_other_numbers_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    target, kernel = ggmc.Density(tilted, torch.zeros(D, dtype=F64)), ggmc.GGMC(0.2, 0.7, (2, 6), mass=MASSES["dense"])
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    sampler.compiled = CompiledMoves(sampler.field, sampler.program.letters)
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(torch.zeros(3, D, dtype=F64), generator)
    for _ in range(5):
        state, _ = sampler.step(state, sampler.parameters, generator)
    number = len(made)
    assert 0 < number <= 3
    other = sampler.parameters.change(
        step_size=0.1, friction=0.3, temperature=0.5, mass=as_mass(2 * MASSES["dense"]), steps=(1, 9)
    )
    for _ in range(20):
        state, _ = sampler.step(state, other, generator)
    assert len(made) == number


def test_a_word_of_equal_steps_is_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    both_ways(ggmc.Density(tilted, torch.zeros(D, dtype=F64)), ggmc.HMC(0.2, 5))
    assert len(made) == 1


def test_numbers_may_differ_from_chain_to_chain() -> None:
    target, kernel = ggmc.Density(tilted, torch.zeros(D, dtype=F64)), ggmc.GGMC(0.2, 0.7, 4)
    ends = []
    for compiled in (False, True):
        sampler = kernel.sampler(target, kernel.guide.bind(target))
        if compiled:
            sampler.compiled = CompiledMoves(sampler.field, sampler.program.letters)
        own = sampler.parameters.change(
            step_size=torch.tensor([0.1, 0.2]), friction=torch.tensor([0.5, 2.0]), temperature=torch.tensor([1.0, 0.3])
        )
        generator = torch.Generator().manual_seed(0)
        state = sampler.init(torch.zeros(2, D, dtype=F64), generator)
        for _ in range(3):
            state, _ = sampler.step(state, own, generator)
        ends.append(state.position)
    torch.testing.assert_close(*ends, rtol=1e-10, atol=1e-10)


def run(target: Any, kernel: Any, trajectories: int) -> CompiledMoves:
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    sampler.compiled = CompiledMoves(sampler.field, sampler.program.letters)
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(target.starts(2, generator), generator)
    for _ in range(trajectories):
        state, _ = sampler.step(state, sampler.parameters, generator)
    return sampler.compiled


def test_a_branch_on_values_is_noticed_and_runs_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """One that torch can see is refused at once; one that it cannot is seen by comparing."""

    def seen(x: Tensor) -> Tensor:
        return -(x**2).sum() if float(x.detach().sum()) > 0 else -(x**4).sum()

    def unseen(x: Tensor) -> Tensor:
        return -(x**2).sum() if x.detach().numpy().sum() > 0 else -(x**4).sum()

    for function in (seen, unseen):
        caplog.clear()
        moves = run(ggmc.Density(function, torch.full((2,), 0.05, dtype=F64)), ggmc.HMC(0.2, 3), 5)
        assert moves.gave_up
        assert "trajectories are not compiled, which is slower: " in caplog.text
        assert caplog.text.count("not compiled") == 1


def test_a_density_that_changes_within_a_run_ends_it() -> None:
    calls = torch.zeros((), dtype=F64)

    def changing(x: Tensor) -> Tensor:
        return -(x**2).sum() * factor["now"] + 0 * calls

    factor = {"now": 1.0}
    target, kernel = ggmc.Density(changing, torch.zeros(2, dtype=F64)), ggmc.HMC(0.2, 3)
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    sampler.compiled = CompiledMoves(sampler.field, sampler.program.letters)
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(torch.ones(2, 2, dtype=F64), generator)
    state, _ = sampler.step(state, sampler.parameters, generator)
    factor["now"] = 2.0
    for _ in range(2, 4):
        with pytest.raises(NotExact, match="no longer gives what it gave before"):
            sampler.step(state, sampler.parameters, generator)
        state, _ = sampler.step(state, sampler.parameters, generator)


def test_without_a_compiler_trajectories_run_as_they_are(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with caplog.at_level(logging.WARNING):
        moves = run(ggmc.Density(tilted, torch.zeros(D, dtype=F64)), ggmc.HMC(0.2, 3), 10)
    assert moves.gave_up
    assert [record.getMessage() for record in caplog.records] == [
        "trajectories are not compiled, which is slower: there is no C compiler: install gcc or clang"
    ]


def test_one_singular_matrix_does_not_stop_the_other_chains() -> None:
    """Its trajectory is rejected, as it is without compiling."""

    def log_prob(x: Tensor) -> Tensor:
        return torch.linalg.cholesky(torch.diag(x)).diagonal().log().sum() - x.sum()

    target = ggmc.Density(log_prob, torch.ones(2, dtype=F64), jitter=0.1)
    both_ways_from_ones(target)


def both_ways_from_ones(target: Any) -> None:
    ends = []
    for bind in (ggmc.HMC(0.8, 4).bind, lambda target: bound(target, ggmc.HMC(0.8, 4))):
        init, step = bind(target)
        generator = torch.Generator().manual_seed(3)
        state = init(torch.ones(4, 2, dtype=F64), generator)
        accepted = []
        for _ in range(30):
            state, info = step(state, generator)
            accepted.append(info.accepted)
        ends.append((state.position, torch.stack(accepted)))
    assert torch.equal(ends[0][1], ends[1][1])
    assert not ends[0][1].all()
    torch.testing.assert_close(ends[0][0], ends[1][0], rtol=1e-8, atol=1e-8)


def test_what_observes_kicks_is_not_compiled() -> None:
    both_ways(with_data(), ggmc.GGMC(0.1, 0.7, 10, guide=ggmc.Minibatch(5), explain=1.0))


def test_a_path_is_observed_all_along_its_way() -> None:
    target, kernel = ggmc.Density(tilted, torch.zeros(D, dtype=F64)), ggmc.HMC(0.2, 5)
    field = kernel.guide.bind(target)
    sampler = kernel.sampler(target, field)
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(torch.ones(2, D, dtype=F64), generator)
    unit = sampler.scheme.unit
    assert unit is not None
    path = Trajectory(state, sampler.parameters, field, None, lambda: state.momentum)
    step_by_step = []
    for _ in range(4):
        path.run(unit)
        step_by_step.append((path.position, path.work, path.potential))
    again = Trajectory(state, sampler.parameters, field, None, lambda: state.momentum)
    moves = compiled_moves.CompiledMoves(field, sampler.program.letters)
    seen = moves.observe(again, unit, 4)
    assert seen is not None
    assert seen.potentials is not None
    for number, (position, work, potential) in enumerate(step_by_step):
        torch.testing.assert_close(seen.positions[number], position)
        torch.testing.assert_close(seen.works[number], work)
        torch.testing.assert_close(seen.potentials[number], potential)
    torch.testing.assert_close(again.position, path.position)
    torch.testing.assert_close(again.work, path.work)
    assert moves.observe(again, Scheme("O(BCSS2)O").plan(1).moves, 3) is None  # two gradients each time
