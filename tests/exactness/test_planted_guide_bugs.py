"""Bugs in tapes, guides, schedules and the streamed potential: each must make the suite fail."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics import metropolis
from ggmc.dynamics.letters import Motion
from ggmc.dynamics.schedule import Along, Cosine, ThereAndBack
from ggmc.dynamics.state import State
from ggmc.guides import orders as tape
from ggmc.guides.base import GradientField
from ggmc.guides.control_variate import ControlVariateField
from ggmc.guides.minibatch import MinibatchField, batch_gradient
from ggmc.kernels import words
from ggmc.kernels.words import Setup, WordSampler
from ggmc.targets.data_density import DataDensity
from ggmc.targets.potential import SumOverData
from tests.support.invariance import Case, independence_violations, noisy_funnel, noisy_quartic, violations
from tests.support.logistic import decisions

F64 = torch.float64
ORDERS = ["iid", "epoch", "palindrome"]


def kernel(order: str = "palindrome", steps: int = 6, step_size: float = 0.35) -> ggmc.GGMC:
    return ggmc.GGMC(step_size, 0.5, steps, "O(ABA)O", ggmc.Minibatch(4, order))


def caught(kernel: Any, case: Case | None = None, trajectories: int = 12) -> bool:
    return violations(case or noisy_quartic(), kernel, trajectories, chains=40_000) != {}


@pytest.mark.parametrize("order", ORDERS)
def test_without_a_bug_nothing_is_caught(order: str) -> None:
    assert not caught(kernel(order))


@pytest.mark.parametrize("order", ["iid", "palindrome"])
def test_one_stages_kick_reads_another_stages_entry(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    """The second kick of six reads what the first one has read."""
    three = ggmc.GGMC(1.0, 0.5, 2, "O(BCSS3d)O", ggmc.Minibatch(4, order))
    assert not caught(three)
    force = Motion.force

    def buggy(self: Motion) -> Tensor:
        if self.gradient is None and self.reads == 1 and self._tape is not None:
            self.gradient, self.potential = self._field(self.position, self._tape[0])
            self.reads += 1
        return force(self)

    monkeypatch.setattr(Motion, "force", buggy)
    assert caught(three)


def _tapes(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    right = GradientField.tape

    def buggy(self: Any, entries: int, chains: int, generator: torch.Generator) -> Tensor | None:
        found = right(self, entries, chains, generator)
        # The check that one position and entry give one gradient draws a tape of one chain; it is left alone.
        return found if found is None or chains == 1 else change(found, self.epoch)

    monkeypatch.setattr(GradientField, "tape", buggy)


@pytest.mark.parametrize("order", ["iid", "epoch"])
def test_sorted_batches(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    """The first batches always come first: a tape that does not read the same backwards."""
    _tapes(monkeypatch, lambda tape, batches: tape.sort(0).values)
    assert caught(kernel(order))


def test_batches_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """0, 1, 2, 0, 1, 2: every trajectory in the same direction, wherever it begins."""

    def in_turn(tape: Tensor, batches: int) -> Tensor:
        return (tape[:1] + torch.arange(len(tape))[:, None]) % batches

    _tapes(monkeypatch, in_turn)
    assert caught(kernel("iid"))


def test_epochs_cut_off_at_the_end_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four entries of three batches: the last two may be equal, the first two never are."""

    def draw(self: Any, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        return tape._shuffles(2, batches, chains, generator).flatten(0, 1)[:entries]

    monkeypatch.setattr(tape.Epoch, "draw", draw)
    assert caught(kernel("epoch", steps=4, step_size=0.5), trajectories=40)


def test_one_batch_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tape that never changes is a wrong gradient, not a wrong law: what is exact must not be called a bug."""
    _tapes(monkeypatch, lambda tape, batches: torch.zeros_like(tape))
    assert not caught(kernel())


@pytest.mark.parametrize("order", ORDERS)
def test_tape_reused_after_a_rejection(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    decide = metropolis.decide
    last: dict[str, Any] = {}

    def remembering(*args: Any) -> Any:
        after, info = decide(*args)
        last["accepted"] = info.accepted
        return after, info

    def change(tape: Tensor, batches: int) -> Tensor:
        if "tape" in last:
            tape = torch.where(last["accepted"], tape, last["tape"])
        last["tape"] = tape
        return tape

    monkeypatch.setattr(metropolis, "decide", remembering)
    _tapes(monkeypatch, change)
    assert caught(kernel(order), trajectories=30)


def test_one_tape_for_all_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    _tapes(monkeypatch, lambda tape, batches: tape[:, :1].expand_as(tape))
    assert independence_violations(noisy_quartic(), ggmc.GGMC(0.35, 2.0, 6, guide=ggmc.Minibatch(4))) != {}


def test_a_tape_that_looks_at_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch that suits the position best."""
    call = MinibatchField.__call__
    monkeypatch.setattr(
        MinibatchField, "__call__", lambda self, position, entry: call(self, position, (position[:, 0] > 0).long())
    )
    assert not caught(kernel())  # a function of θ alone is one more guide ...

    run = WordSampler.carry_out

    def at_start(self: Any, state: State, setup: Setup) -> Any:
        monkeypatch.setattr(
            MinibatchField,
            "__call__",
            lambda self, position, entry: call(self, position, (state.position[:, 0] > 0).long()),
        )
        return run(self, state, setup)

    monkeypatch.setattr(WordSampler, "carry_out", at_start)
    assert caught(kernel())  # ... but not one of where the trajectory began


def test_cosine_inside_a_trajectory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Along, "lopsided", lambda self, steps=64: None)
    for guide in (ggmc.Exact(), ggmc.Minibatch(4)):
        assert caught(ggmc.GGMC(0.6, 0.8, 6, "O(ABA)O", guide, along=Along(Cosine(0.2))))


def test_a_schedule_meant_for_either_way_always_travelled_forwards(monkeypatch: pytest.MonkeyPatch) -> None:
    run = words.run_either_way
    monkeypatch.setattr(words, "run_either_way", lambda plans, *rest: run((plans[0], plans[0]), *rest))
    assert caught(ggmc.GGMC(0.6, 0.8, 6, along=Along(Cosine(0.2), either_way=True)))


def test_one_coin_for_all_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    run = words.run_either_way

    def one_coin(plans: Any, *rest: Any) -> Any:
        chosen = plans if torch.rand((), generator=rest[-1]) < 0.5 else plans[::-1]
        return run((chosen[0], chosen[0]), *rest)

    monkeypatch.setattr(words, "run_either_way", one_coin)
    assert caught(ggmc.GGMC(0.6, 0.8, 6, along=Along(Cosine(0.2), either_way=True)), trajectories=5)


@pytest.mark.parametrize("word", ["OBABO", "ACA"])
def test_heat_of_another_temperature_not_counted(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    run = WordSampler.carry_out

    def buggy(self: Any, state: State, setup: Setup) -> Any:
        # The noise has the schedule's temperature; the sum over moves does not know.
        warm = setup.parameters.change(temperature=setup.parameters.temperature * 2)
        plain = setup.plan._replace(moves=tuple(move._replace(warmth=1.0) for move in setup.plan.moves))
        return run(self, state, setup._replace(plan=plain, parameters=warm))

    monkeypatch.setattr(WordSampler, "carry_out", buggy)
    along = Along(temperature=ThereAndBack(lambda x: 2.0))
    assert caught(ggmc.GGMC(0.5, 0.8, 6, word, along=along))


def test_wrong_weight_of_the_data_in_the_potential(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = SumOverData._chunk_of_row
    scaled = torch.tensor([3.0, 1.0], dtype=F64)
    monkeypatch.setattr(SumOverData, "_chunk_of_row", lambda self, r, c: chunk(self, r, c) * scaled)
    assert caught(kernel())


def test_a_potential_that_leaves_out_the_last_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SumOverData, "rows_at_once", lambda self, examples: 5)
    assert not caught(kernel())
    chunks = SumOverData._chunks
    monkeypatch.setattr(SumOverData, "_chunks", lambda self, *a, **k: list(chunks(self, *a, **k))[:-1])
    assert caught(kernel())


def test_a_potential_of_one_minibatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled up to all data, as in training."""
    from ggmc.guides.batches import Batches

    def estimated(self: Any, position: Tensor, limit: Any = None) -> Tensor:
        batches = Batches(self.data, 4)
        numbers = torch.randint(batches.count, (len(position),))
        terms = self.log_likelihoods(position)
        some = terms.gather(1, batches.indices[numbers])
        return true_potential(self, position) + terms.sum(1) - (batches.weights[numbers] * some).sum(1)

    torch.manual_seed(0)
    case = noisy_quartic()
    true_potential = DataDensity.potential
    monkeypatch.setattr(DataDensity, "potential", estimated)
    assert caught(kernel(), case)


@pytest.mark.parametrize("curvature", ["none", "dense"])
def test_an_anchor_updated_while_sampling(monkeypatch: pytest.MonkeyPatch, curvature: str) -> None:
    """Each trajectory anchored where it starts, which its way back would not be."""
    run = WordSampler.carry_out

    def start_anchored(self: Any, state: State, setup: Setup) -> Any:
        def corrected(self: Any, position: Tensor, entry: Tensor) -> tuple[Tensor, None]:
            there = state.position
            exact = self._target.potential_and_gradient(there)[1]
            here, before = (batch_gradient(self._target, self._batches, at, entry) for at in (position, there))
            return here - before + exact, None

        monkeypatch.setattr(ControlVariateField, "__call__", corrected)
        return run(self, state, setup)

    anchor = torch.full((1,), -0.5, dtype=F64)
    guide = ggmc.ControlVariate(4, curvature=curvature, anchor=anchor)
    monkeypatch.setattr(WordSampler, "carry_out", start_anchored)
    assert caught(ggmc.GGMC(0.45, 0.5, 6, "O(ABA)O", guide))


def _amagold(monkeypatch: pytest.MonkeyPatch, friction: Any = None, work: Any = None) -> bool:
    run = WordSampler.carry_out

    def buggy(self: Any, state: State, setup: Setup) -> Any:
        numbers = setup.parameters
        changed = numbers if friction is None else numbers.change(temperature=friction(numbers))
        end, done = run(self, state, setup._replace(parameters=changed))
        return end, done if work is None else work(done)

    monkeypatch.setattr(WordSampler, "carry_out", buggy)
    return caught(ggmc.AMAGOLD(0.35, 1.5, 5, ggmc.Minibatch(4)), noisy_funnel())


def test_amagold_with_half_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """√(2cT) in place of √(4cT)."""
    assert _amagold(monkeypatch, friction=lambda parameters: parameters.temperature / 2)


def test_amagold_with_twice_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """t in place of t/2."""
    assert _amagold(monkeypatch, work=lambda done: 2 * done)


def test_early_stop_that_changes_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    with_stop, without = decisions(stop=True), decisions(stop=False)
    assert torch.equal(with_stop, without)
    stream = SumOverData._stream
    monkeypatch.setattr(  # one who forgets what the remaining terms may still bring
        SumOverData,
        "_stream",
        lambda self, share, p, limit: stream(self, share, p, None if limit is None else limit - 3.0),
    )
    assert not torch.equal(decisions(stop=True), without)


def test_infinite_limits_stop_nothing() -> None:
    case = noisy_quartic()
    target: Any = case.target
    position = case.exact(5, torch.Generator().manual_seed(0))
    never = torch.full((5,), math.inf, dtype=F64)
    assert torch.equal(target.potential(position, never), target.potential(position))
