"""Augmentation in the guide: what the tape says, what the gradient is then, and what is refused."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from dataclasses import field as setting
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

import ggmc
from ggmc.errors import BadInput, NotExact
from ggmc.guides import Augmentation
from ggmc.guides.augmentation import Augmented, AugmentedBatches, augmented, order_of_batches
from ggmc.guides.batches import PADDING, Batches, Recut, RecutBatches
from ggmc.guides.order_check import check_reversible, is_built_in
from ggmc.guides.orders import ORDERS, Order, as_order
from ggmc.kernels import from_dict, to_dict
from ggmc.targets.data import OnDemand
from ggmc.targets.share import OwnPart, Share, sharing
from tests.support.augmentations import Mirrored, Shifted
from tests.support.invariance import noisy_quartic
from tests.support.logistic import examples, log_likelihood, log_prior, logistic, rows
from tests.support.orders import Vectorised

F64 = torch.float64
CUTS = pytest.mark.parametrize("recut", [False, True], ids=["fixed", "recut"])


def parts(guide: Any, number: int = 103) -> tuple[Any, Any]:
    """Batches and order of a guide with an augmentation."""
    data = logistic(number).data
    size, order = guide.size, as_order(guide.order)
    if guide.recut:
        return augmented(guide.augment, data, RecutBatches(data, size), Recut(order, len(data)))
    return augmented(guide.augment, data, Batches(data, size), order)


def listed(guide: Any, tape: Tensor, number: int = 103) -> tuple[Tensor, Tensor, Tensor]:
    """Of each place of a tape: the example, whether it counts, and its code. [entries, chains, size(, ...)]."""
    size = -(-number // -(-number // guide.size))
    if guide.recut:
        held, codes = tape[..., :size], tape[..., size:]
        return held.clamp_min(0), held != PADDING, codes.unflatten(2, (size, -1))
    batches = Batches(logistic(number).data, guide.size)
    return batches.indices[tape[..., 0]], batches.weights[tape[..., 0]] > 0, tape[..., 1:].unflatten(2, (size, -1))


# The tape


@CUTS
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("augment", [Shifted(), Mirrored()], ids=str)
def test_an_example_has_one_code_in_a_tape_and_each_chain_its_own(augment: Any, order: str, recut: bool) -> None:
    guide = ggmc.Minibatch(10, order, recut=recut, augment=augment)
    tape = guide.bind(logistic()).tape(40, 3, torch.Generator().manual_seed(0))
    assert tape is not None
    held, counts, codes = listed(guide, tape)
    seen: list[dict[int, list[int]]] = [{} for _ in range(3)]
    for entry in range(40):
        for chain in range(3):
            for place in counts[entry, chain].nonzero().flatten().tolist():
                code = codes[entry, chain, place].tolist()
                assert seen[chain].setdefault(int(held[entry, chain, place]), code) == code
    for chain in seen:
        assert len({tuple(code) for code in chain.values()}) > 1  # not one code for all
    shared = seen[0].keys() & seen[1].keys()
    assert {example: seen[0][example] for example in shared} != {example: seen[1][example] for example in shared}


@CUTS
@pytest.mark.parametrize("order", ORDERS)
def test_the_batches_are_those_of_the_order(order: str, recut: bool) -> None:
    guide = ggmc.Minibatch(10, order, recut=recut, augment=Shifted())
    plain, other = (replace(guide, augment=augment).bind(logistic()) for augment in (None, Shifted()))
    for name in ("epoch", "sweep", "whole_sweeps", "default_steps", "deterministic", "exact"):
        assert getattr(plain, name) == getattr(other, name)
    ours, with_codes = (f.tape(9, 4, torch.Generator().manual_seed(0)) for f in (plain, other))
    assert ours is not None
    assert with_codes is not None
    width = 10 if recut else 1
    assert torch.equal(with_codes[..., :width].reshape(ours.shape), ours)
    assert with_codes.shape == (9, 4, width + 10)


@CUTS
@pytest.mark.parametrize("entries", [1, 2, 21, 22, 23, 44])
def test_a_palindrome_reads_the_same_backwards_codes_and_all(entries: int, recut: bool) -> None:
    field = ggmc.Minibatch(10, recut=recut, augment=Mirrored()).bind(logistic())
    tape = field.tape(entries, 4, torch.Generator().manual_seed(0))
    assert tape is not None
    assert torch.equal(tape, tape.flip(0))


def test_each_tape_has_fresh_codes_from_the_generator_alone() -> None:
    field = ggmc.Minibatch(103, augment=Shifted()).bind(logistic())
    generator = torch.Generator().manual_seed(0)
    one, other = (field.tape(1, 1, generator) for _ in range(2))
    again = field.tape(1, 1, torch.Generator().manual_seed(0))
    assert one is not None
    assert again is not None
    assert other is not None
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_large_data_get_their_codes_quickly() -> None:
    """Relative to the cut of the same data, which each trajectory has anyway."""
    target = logistic(200_000)
    times: dict[bool, list[float]] = {False: [], True: []}
    fields = {with_codes: ggmc.Minibatch(10_000, recut=True, augment=Shifted() if with_codes else None).bind(target)
              for with_codes in times}  # fmt: skip
    for _ in range(3):
        for with_codes, field in fields.items():
            begun = time.process_time()
            field.tape(40, 4, torch.Generator().manual_seed(0))
            times[with_codes].append(time.process_time() - begun)
    assert min(times[True]) < 6 * min(times[False]) + 0.2


# The gradient


def gradient_of(position: Tensor, batches: list[tuple[Tensor, Tensor]], weight: float) -> Tensor:
    """Of the weighted potential of each chain's examples, by its definition."""
    position = position.clone().requires_grad_()
    each = [-(log_prior(w) + weight * log_likelihood(w, b).sum()) for w, b in zip(position, batches, strict=True)]
    return torch.autograd.grad(torch.stack(each).sum(), position)[0]


@CUTS
@pytest.mark.parametrize("augment", [Shifted(), Mirrored()], ids=str)
def test_the_gradient_is_that_of_the_examples_changed_as_the_tape_says(augment: Any, recut: bool) -> None:
    guide = ggmc.Minibatch(10, recut=recut, augment=augment)
    field = guide.bind(logistic())
    tape = field.tape(5, 4, torch.Generator().manual_seed(1))
    assert tape is not None
    held, counts, codes = listed(guide, tape)
    x, s = examples()
    for k, entry in enumerate(tape):
        batches = []
        for chain in range(4):
            real = counts[k, chain]
            which, code = held[k, chain][real], codes[k, chain][real]
            changed = x[which] + 0.8 * code if isinstance(augment, Shifted) else x[which] * (1 - 2 * code[:, 1:])
            batches.append((changed, s[which]))
        torch.testing.assert_close(field(rows(), entry)[0], gradient_of(rows(), batches, 11.0))


@CUTS
def test_with_codes_that_change_nothing_it_is_the_plain_gradient(recut: bool) -> None:
    guide = ggmc.Minibatch(10, recut=recut, augment=Shifted())
    plain, other = (replace(guide, augment=augment).bind(logistic()) for augment in (None, Shifted()))
    numbers, tape = (f.tape(22, 4, torch.Generator().manual_seed(0)) for f in (plain, other))
    assert numbers is not None
    assert tape is not None
    tape[..., 10 if recut else 1 :] = 0
    for one, entry in zip(numbers, tape, strict=True):
        assert torch.equal(plain(rows(), one)[0], other(rows(), entry)[0])


@CUTS
def test_the_mean_over_tapes_is_the_gradient_of_the_potential_averaged_over_codes(recut: bool) -> None:
    target = logistic()
    field = ggmc.Minibatch(52, "epoch", recut=recut, augment=Shifted()).bind(target)
    chains, x, s = 4000, *examples()
    position = rows(1).expand(chains, -1)
    tape = field.tape(2, chains, torch.Generator().manual_seed(0))
    assert tape is not None
    each = torch.stack([field(position, entry)[0] for entry in tape]).mean(0)  # over a pass: only codes are random
    averaged = torch.stack([gradient_of(rows(1), [(x + 0.8 * code, s)], 1.0)[0] for code in range(3)]).mean(0)
    error = each.std(0) / chains**0.5
    assert ((each.mean(0) - averaged).abs() < 6 * error).all()
    exact = target.potential_and_gradient(rows(1))[1][0]
    assert ((averaged - exact).abs() > 30 * error).any()  # which is another


def error_of(order: str, recut: bool, h: float) -> tuple[float, float]:
    """Median energy errors of 22 small steps over 11 batches: by U of the changed examples, and by U itself."""
    target = logistic()
    guide = ggmc.Minibatch(10, order, recut=recut, augment=Mirrored())
    field = guide.bind(target)
    generator = torch.Generator().manual_seed(0)
    tape = field.tape(22, 100, generator)
    assert tape is not None
    held, counts, codes = listed(guide, tape[:11])
    signs = torch.ones(100, 103, dtype=F64)  # of each chain's examples
    for chain in range(100):
        real = counts[:, chain]
        signs[chain, held[:, chain][real]] = 1 - 2 * codes[:, chain][real][:, 1].to(F64)
    x, s = examples()

    def of_views(position: Tensor) -> Tensor:
        terms = torch.nn.functional.logsigmoid(s * signs * (position @ x.mT))
        return (position**2).sum(1) / 2 - terms.sum(1)

    start = position = rows(100)
    momentum = torch.randn(100, 3, generator=generator, dtype=F64)
    work = torch.zeros(100, dtype=F64)
    for entry in tape:
        position = position + h / 2 * momentum
        gradient, before = field(position, entry)[0], momentum
        momentum = momentum - h * gradient
        work = work - h / 2 * (gradient * (before + momentum)).sum(1)
        position = position + h / 2 * momentum
    by_views = of_views(position) - of_views(start) + work
    by_images = target.potential(position) - target.potential(start) + work
    return by_views.abs().median().item(), by_images.abs().median().item()


@CUTS
def test_the_noise_of_batches_cancels_in_palindromes_and_what_views_change_does_not(recut: bool) -> None:
    """A trajectory follows the energy of its views; U of the images differs from it at the two ends.

    With a fourth of the step, an error of the third order falls by 64, of the second by 16, of the first by 4. Limits
    lie half-way between orders.
    """
    fall: dict[str, tuple[float, float]] = {}
    for order in ORDERS:
        (views, images), (smaller, as_they_are) = (error_of(order, recut, h) for h in (0.005, 0.00125))
        fall[order] = views / smaller, images / as_they_are
        assert images > views
    assert fall["palindrome"][0] > 32 > fall["epoch"][0] > 8 > fall["iid"][0]
    assert all(by_images < 8 for _, by_images in fall.values())


# Several ranks, examples read on demand


@CUTS
@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_each_rank_changes_its_own_part(ranks: int, recut: bool) -> None:
    guide = ggmc.Minibatch(5, recut=recut, augment=Mirrored())
    batches, order = parts(guide, number=23)
    entry = order.draw(1, 5, 4, torch.Generator().manual_seed(0))[0]
    (x, s), weights = batches[entry]
    found: list[Any] = []
    for rank in range(ranks):
        with sharing(Share(rank, ranks)):
            own, part = batches[entry]
            assert isinstance(own, OwnPart)
            if part.any():
                found.append((*own.examples, part))
    for whole, pieces in zip((x, s, weights), zip(*found, strict=True), strict=True):
        assert torch.equal(torch.cat(pieces, 1), whole)


@pytest.mark.parametrize("recut", [False, True])
def test_examples_read_on_demand_are_changed_too(recut: bool) -> None:
    x, s = examples()

    class Pairs(Dataset[Any]):
        def __getitem__(self, i: int) -> Any:
            return x[i], s[i]

        def __len__(self) -> int:
            return len(x)

    def collate(pairs: Any) -> Any:
        return tuple(torch.stack(leaves) for leaves in zip(*pairs, strict=True))

    data = OnDemand(Pairs(), collate, torch.device("cpu"), None)
    apart = ggmc.DataDensity(log_prior, log_likelihood, data, torch.zeros(3, dtype=F64))
    guide = ggmc.Minibatch(10, recut=recut, augment=Shifted())
    kept, read = guide.bind(logistic()), guide.bind(apart)
    tape = kept.tape(4, 4, torch.Generator().manual_seed(0))
    assert tape is not None
    for entry in tape:
        assert torch.equal(kept(rows(), entry)[0], read(rows(), entry)[0])


# The check of the order


def in_turn(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    return (torch.arange(entries) + torch.randint(batches, (), generator=generator)) % batches


@CUTS
def test_an_order_with_codes_is_known_by_its_order_of_batches(recut: bool) -> None:
    for name in ORDERS:
        _, order = parts(ggmc.Minibatch(5, name, recut=recut, augment=Shifted()), 20)
        assert order_of_batches(order) is ORDERS[name]
        assert is_built_in(order)
        assert (order.name, order.reversible, order.sweep(7)) == (name, True, ORDERS[name].sweep(7))
        assert "Shifted" in repr(order)
    own = ggmc.CustomOrder(in_turn, reversible=True)
    guide = ggmc.Minibatch(3, own, recut=recut, augment=Shifted())
    assert not is_built_in(parts(guide, 20)[1])
    with pytest.raises(NotExact, match="the order 'in_turn' is said to be reversible"):
        ggmc.GGMC(0.1, guide=guide, steps=7, scheme="O(ABA)O").bind(noisy_quartic().target)
    guide = replace(guide, order=ggmc.CustomOrder(in_turn, reversible=False))
    with pytest.raises(NotExact, match="read backwards"):
        ggmc.GGMC(0.1, guide=guide, steps=7, scheme="O(ABA)O").bind(noisy_quartic().target)


def test_a_subclass_is_not_taken_for_the_librarys_own() -> None:
    class Later(Augmented):
        """Its codes grow along the tape."""

        def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
            tape = super().draw(entries, batches, chains, generator)
            tape[..., 1:] += torch.arange(entries)[:, None, None]
            return tape

    data = logistic(20).data
    order = Later(as_order("iid"), Batches(data, 5), Shifted(), 20)
    assert not is_built_in(order)
    with pytest.raises(NotExact, match="said to be reversible"):
        check_reversible(order, 6, 4)


@CUTS
@pytest.mark.parametrize("name", ORDERS)
def test_a_whole_tape_with_its_codes_passes_the_check(name: str, recut: bool) -> None:
    """As if it came from an order that is not known to be the library's own."""
    _, order = parts(ggmc.Minibatch(2, name, recut=recut, augment=Shifted()), 6)
    check_reversible(Vectorised(order.draw, name), 5, 3)


def test_the_word_that_suits_a_palindrome_is_chosen_with_codes_too() -> None:
    for recut in (False, True):
        field = ggmc.Minibatch(10, recut=recut, augment=Shifted()).bind(logistic())
        assert ggmc.GGMC(0.1).program(field).word == "O(ABA)O"
        field = ggmc.Minibatch(10, "iid", recut=recut, augment=Shifted()).bind(logistic())
        assert ggmc.GGMC(0.1).program(field).word == "OBABO"


# In runs


def test_warm_up_finds_the_batch_size() -> None:
    guide = ggmc.Minibatch("auto", augment=Shifted(0.1))
    trace = ggmc.sample(logistic(100), ggmc.GGMC(guide=guide), draws=5, warmup=60, progress=False)
    assert trace.stats["is_accepted"].any()
    assert trace.kernel.guide.augment == Shifted(0.1)


def test_the_error_is_explained() -> None:
    """What the views do is the guide's noise, not the step's."""
    kernel = ggmc.GGMC(0.02, steps=4, guide=ggmc.Minibatch(103, augment=Shifted()), explain=1.0)
    trace = ggmc.sample(logistic(), kernel, draws=20, warmup=0, progress=False)
    noise, whole = trace.stats["noise_error"], trace.stats["energy_error"]
    assert np.abs(noise).mean() > 10 * np.abs(whole - noise).mean()


@pytest.mark.parametrize("kind", [ggmc.SGLD, ggmc.SGHMC, ggmc.SGNHT, ggmc.AMAGOLD])
def test_other_kernels_take_it(kind: Any) -> None:
    trace = ggmc.sample(
        logistic(), kind(0.01, guide=ggmc.Minibatch(10, augment=Shifted())), draws=3, warmup=0, progress=False
    )
    assert np.isfinite(trace.positions).all()


def test_it_is_stored_by_plain_values() -> None:
    kernel = ggmc.GGMC(0.1, guide=ggmc.Minibatch(10, augment=ggmc.nets.GuideViews(pad=2, flip=False)))
    assert to_dict(kernel)["guide"]["augment"] == {"type": "GuideViews", "pad": 2, "flip": False}
    again: Any = from_dict(to_dict(kernel))
    assert again == kernel
    assert again.guide.augment == ggmc.nets.GuideViews(pad=2, flip=False)
    own = to_dict(ggmc.GGMC(0.1, guide=ggmc.Minibatch(10, augment=Shifted())))
    assert own["guide"]["augment"] == {"type": "tests.support.augmentations.Shifted"}
    with pytest.raises(
        BadInput, match=r"unknown guide, augmentation or schedule 'tests\.support\.augmentations\.Shifted'"
    ):
        from_dict(own)


def test_another_size_keeps_it() -> None:
    guide = ggmc.Minibatch("auto", "epoch", augment=Shifted())
    assert guide.with_size(25) == ggmc.Minibatch(25, "epoch", augment=Shifted())


# What is refused


@dataclass(frozen=True)
class Broken(Augmentation):
    """One that draws, or applies, something else."""

    codes: Any = None
    changed: Any = None
    calls: list[int] = setting(default_factory=list, compare=False)

    def draw(self, number: int, generator: torch.Generator) -> Any:
        return Shifted().draw(number, generator) if self.codes is None else self.codes(number)

    def apply(self, batch: Any, codes: Tensor) -> Any:
        self.calls.append(1)
        return Shifted().apply(batch, codes) if self.changed is None else self.changed(batch, len(self.calls))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (Broken(codes=lambda n: torch.zeros(n)), "Broken.draw must give a tensor of whole numbers, got torch.float32"),
        (Broken(codes=lambda n: torch.zeros(n, dtype=torch.bool)), "got torch.bool"),
        (Broken(codes=lambda n: [0] * n), "got list"),
        (Broken(codes=lambda n: torch.zeros(n + 1).long()), r"one code for each of 4 examples, got shape \[5\]"),
        (Broken(codes=lambda n: torch.tensor(3)), r"one code for each of 4 examples, got shape \[\]"),
        (Broken(codes=lambda n: torch.zeros(n, device="meta").long()), "on its generator's device, cpu, got meta"),
        (Broken(codes=lambda n: torch.randint(1000, (n,))), "Broken.draw gives other codes for the same seed"),
        (Broken(changed=lambda b, _: (b[0][:, :2], b[1])), r"must keep the shapes of a batch, \[\(4, 3\), \(4,\)\]"),
        (Broken(changed=lambda b, _: b[0]), r"must keep the shapes"),
        (Broken(changed=lambda b, _: (b[0] - b[0].mean(0), b[1])), "another value when it was alone"),
        (Broken(changed=lambda b, calls: (b[0] + calls, b[1])), "What is random belongs in `draw`"),
        (ggmc.nets.GuideViews(), r"images must be \[n, C, H, W\]"),
    ],
)
def test_augmentations_that_are_refused(broken: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        ggmc.Minibatch(10, augment=broken).bind(logistic())


@pytest.mark.parametrize("augment", [ggmc.nets.FrozenViews(), ggmc.nets.FreeViews(), Shifted, "flip", True])
def test_what_is_no_augmentation_is_refused(augment: Any) -> None:
    with pytest.raises(BadInput, match=r"augment must be an Augmentation, such as ggmc.nets.GuideViews"):
        ggmc.Minibatch(10, augment=augment)


def test_control_variates_see_the_examples_as_they_are() -> None:
    with pytest.raises(TypeError, match="augment"):
        ggmc.ControlVariate(10, augment=Shifted())  # pyright: ignore[reportCallIssue]
    assert "no `augment`" in (ggmc.ControlVariate.__doc__ or "")


def test_an_augmentation_states_both_of_its_parts() -> None:
    class Half(Augmentation):
        def draw(self, number: int, generator: torch.Generator) -> Tensor:
            return torch.zeros(number, dtype=torch.long)

    with pytest.raises(TypeError, match="abstract method"):
        Half()  # pyright: ignore[reportAbstractUsage]


def test_both_parts_are_the_orders_and_the_batches() -> None:
    batches, order = parts(ggmc.Minibatch(5, augment=Shifted()), 20)
    assert isinstance(batches, AugmentedBatches)
    assert isinstance(order, Order)
    assert (batches.count, batches.sizes) == (4, [5, 5, 5, 5])
