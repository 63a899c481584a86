"""Bugs in augmentation: codes that are not the tape's, and a potential of changed examples. Each must be caught."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.state import State
from ggmc.errors import NotExact
from ggmc.guides.augmentation import Augmented, AugmentedBatches
from ggmc.kernels.words import Setup, WordSampler
from ggmc.targets.data_density import DataDensity
from tests.support.augmentations import Shifted
from tests.support.invariance import noisy_quartic, violations

F64 = torch.float64
ORDERS = ["iid", "epoch", "palindrome"]
every_order = pytest.mark.parametrize("order", ORDERS)
every_cut = pytest.mark.parametrize("recut", [False, True], ids=["fixed", "recut"])


def kernel(order: str = "palindrome", recut: bool = False) -> ggmc.GGMC:
    return ggmc.GGMC(0.35, 0.5, 6, "O(ABA)O", ggmc.Minibatch(4, order, recut=recut, augment=Shifted()))


def caught(kernel: ggmc.GGMC, trajectories: int = 12) -> bool:
    return violations(noisy_quartic(), kernel, trajectories, chains=40_000) != {}


@every_order
@every_cut
def test_without_a_bug_nothing_is_caught(order: str, recut: bool) -> None:
    assert not caught(kernel(order, recut))


def first_code(recut: bool) -> int:
    """Where the codes begin in an entry of a batch of four."""
    return 4 if recut else 1


def _codes(monkeypatch: pytest.MonkeyPatch, recut: bool, change: Any) -> None:
    """Each entry's codes, [entries, chains, size], by another function of them and the tape's entries."""
    draw = Augmented.draw

    def buggy(self: Any, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        tape = draw(self, entries, batches, chains, generator).clone()
        begin = first_code(recut)
        tape[..., begin:] = change(tape[..., begin:], generator)
        return tape

    monkeypatch.setattr(Augmented, "draw", buggy)


@every_order
@every_cut
def test_codes_that_depend_on_the_place_in_the_tape(monkeypatch: pytest.MonkeyPatch, order: str, recut: bool) -> None:
    """Stronger and stronger changes along the trajectory: a curriculum."""

    def later(codes: Tensor, generator: torch.Generator) -> Tensor:
        return torch.where(torch.arange(len(codes))[:, None, None] < len(codes) / 2, 0, codes)

    _codes(monkeypatch, recut, later)
    assert caught(kernel(order, recut))


def test_codes_in_a_direction_with_equal_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry's code is uniform, but each entry has the successor of the last one's."""

    def in_turn(codes: Tensor, generator: torch.Generator) -> Tensor:
        return ((codes[:1, :, :1] + torch.arange(len(codes))[:, None, None]) % 3).expand_as(codes)

    _codes(monkeypatch, False, in_turn)
    assert caught(kernel("iid"))


@pytest.mark.parametrize("mirrored", [False, True])
def test_independent_codes_for_each_entry_are_no_bug(monkeypatch: pytest.MonkeyPatch, mirrored: bool) -> None:
    """Another reversible tape: what is exact must not be called a bug."""

    def fresh(codes: Tensor, generator: torch.Generator) -> Tensor:
        new = torch.randint(3, codes.shape, generator=generator)
        return (
            torch.where(torch.arange(len(codes))[:, None, None] < len(codes) / 2, new, new.flip(0)) if mirrored else new
        )

    _codes(monkeypatch, False, fresh)
    assert not caught(kernel())


def _evaluated(monkeypatch: pytest.MonkeyPatch, codes_at: Any) -> None:
    """Codes that do not come from the tape; batches of one chain, as in the check of the field, are left alone."""
    right = AugmentedBatches.__getitem__

    def buggy(self: Any, entry: Tensor) -> Any:
        if len(entry) == 1:
            return right(self, entry)
        codes = codes_at(entry[:, 1:])
        return right(self, torch.cat([entry[:, :1], codes], 1))

    monkeypatch.setattr(AugmentedBatches, "__getitem__", buggy)


def test_codes_drawn_afresh_at_each_evaluation_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a function of position and entry: the check before the first trajectory sees it."""
    generator = torch.Generator().manual_seed(0)
    right = AugmentedBatches.__getitem__

    def buggy(self: Any, entry: Tensor) -> Any:
        fresh = torch.randint(3, entry[:, 1:].shape, generator=generator)
        return right(self, torch.cat([entry[:, :1], fresh], 1))

    monkeypatch.setattr(AugmentedBatches, "__getitem__", buggy)
    for order in ORDERS:
        with pytest.raises(NotExact, match="MinibatchField is random"):
            kernel(order).bind(noisy_quartic().target)


def test_codes_that_remember_the_last_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each evaluation goes on from the code of the one before it: the way back would see others."""
    generator = torch.Generator().manual_seed(0)
    last: list[Tensor] = []

    def going_on(codes: Tensor) -> Tensor:
        previous = last[-1] if last else codes[:, :1]
        moved = torch.rand(previous.shape, generator=generator) < 0.8
        last[:] = [torch.where(moved, (previous + 1) % 3, previous)]
        return last[-1].expand_as(codes)

    _evaluated(monkeypatch, going_on)
    assert caught(kernel("palindrome"))


def test_codes_that_look_at_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change that suits the place where the trajectory begins."""
    run = WordSampler.carry_out

    def at_start(self: Any, state: State, setup: Setup) -> Any:
        beyond = state.position[:, :1] > -0.5

        with pytest.MonkeyPatch.context() as patched:
            _evaluated(patched, lambda codes: torch.where(beyond, 2, 0).expand_as(codes))
            return run(self, state, setup)

    monkeypatch.setattr(WordSampler, "carry_out", at_start)
    assert caught(kernel())


def test_the_same_codes_again_after_a_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tape that knows what became of the last one."""
    from ggmc.dynamics import metropolis

    decide = metropolis.decide
    last: dict[str, Tensor] = {}

    def remembering(*args: Any) -> Any:
        after, info = decide(*args)
        last["accepted"] = info.accepted
        return after, info

    def kept(codes: Tensor, generator: torch.Generator) -> Tensor:
        if codes.shape[1] == 1:
            return codes
        # One code for all examples of a trajectory, so that the codes matter more than the batches.
        codes = codes[:1, :, :1].expand_as(codes)
        if "codes" in last:
            codes = torch.where(last["accepted"][:, None], codes, last["codes"])
        last["codes"] = codes
        return codes

    monkeypatch.setattr(metropolis, "decide", remembering)
    _codes(monkeypatch, False, kept)
    assert caught(kernel(), trajectories=30)


def test_a_potential_of_the_changed_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """U of the views that the last trajectory saw, scaled up to all data, as the loss of training would be."""
    case = noisy_quartic()
    clean, right = DataDensity.potential, AugmentedBatches.__getitem__
    last: dict[str, Any] = {}

    def remembering(self: Any, entry: Tensor) -> Any:
        last["batch"] = right(self, entry)
        return last["batch"]

    def of_last_batch(self: Any, position: Tensor, limit: Any = None) -> Tensor:
        if "batch" not in last or len(last["batch"][1]) != len(position):
            return clean(self, position, limit)
        batch, weights = last["batch"]
        terms = torch.func.vmap(self.log_likelihood)(position, batch)
        return position[:, 0] - (weights * terms).sum(1)

    monkeypatch.setattr(AugmentedBatches, "__getitem__", remembering)
    monkeypatch.setattr(DataDensity, "potential", of_last_batch)
    assert violations(case, kernel(), 12, chains=40_000) != {}
