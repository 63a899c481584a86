"""What every guide keeps: the library's own, and two written here as a user would write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.errors import BadInput
from ggmc.guides import BatchGuide, GradientField, Guide
from ggmc.guides.order_check import check_reversible
from ggmc.guides.orders import Order
from ggmc.targets.base import Advice, DataTarget, Target
from tests.support.augmentations import Mirrored, Shifted
from tests.support.fields import over_a_pass
from tests.support.logistic import logistic, rows

CHAINS = 4


# A deterministic guide of the user's own


@dataclass(frozen=True)
class Shrunk(Guide):
    """The exact gradient times a factor."""

    factor: float

    def bind(self, target: Target) -> GradientField:
        return ShrunkField(target, self.factor)


class ShrunkField(GradientField):
    def __init__(self, target: Target, factor: float):
        super().__init__(order=None)
        self._target, self._factor = target, factor

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        return self._factor * self._target.potential_and_gradient(position)[1], None


# A stochastic guide with its own order, whose entries are not batch numbers but ranges of examples


class Windows(Order):
    """The data in consecutive windows, out in a random order and back: first and last example of each."""

    def __init__(self, examples: int):
        super().__init__(name="windows", reversible=True)
        self._examples = examples

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        shuffled = torch.rand(batches, chains, generator=generator, device=generator.device).argsort(0)
        numbers = torch.cat([shuffled, shuffled.flip(0)]).repeat(-(-entries // (2 * batches)), 1)[
            : entries - entries // 2
        ]
        numbers = torch.cat([numbers, numbers.flip(0)[entries % 2 :]])
        edges = torch.tensor([self._examples * i // batches for i in range(batches + 1)], device=generator.device)
        return torch.stack([edges[numbers], edges[numbers + 1]], -1)

    def sweep(self, batches: int) -> int:
        return 2 * batches


@dataclass(frozen=True)
class InWindows(BatchGuide):
    """Gradients of consecutive examples."""

    size: int | str

    def bind(self, target: Target) -> GradientField:
        assert isinstance(target, DataTarget)
        return InWindowsField(target, int(self.size))

    def with_size(self, size: int, field: GradientField | None = None) -> BatchGuide:
        return InWindows(size)


class InWindowsField(GradientField):
    def __init__(self, target: DataTarget, size: int):
        self._target, self._scale = target, torch.ones(1, device=target.device)
        epoch = -(-target.num_data // size)
        super().__init__(
            order=Windows(target.num_data),
            epoch=epoch,
            sweep=2 * epoch,
            whole_sweeps=True,
            frozen=lambda: [self._scale],
        )

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        assert entry is not None
        each: list[Tensor] = []
        for row, (begin, end) in zip(position, entry.tolist(), strict=True):
            examples = torch.arange(begin, end, device=position.device)[None]
            weights = torch.full(examples.shape, float(self.epoch), device=position.device) * self._scale
            each.append(self._target.batch_gradient(row[None], self._target.data.take(examples), weights))
        return torch.cat(each), None


def second_half_first(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    out = torch.randint(batches, (entries - entries // 2,), generator=generator, device=generator.device)
    return torch.cat([out, out.flip(0)[entries % 2 :]])


ANCHOR = [0.3, -0.2, 0.1]


def anchored(dtype: torch.dtype, **settings: Any) -> Guide:
    return ggmc.ControlVariate(10, anchor=torch.tensor(ANCHOR, dtype=dtype, device="cpu"), **settings)


GUIDES: dict[str, Callable[[torch.dtype], Guide]] = {
    "exact": lambda dtype: ggmc.Exact(),
    "surrogate": lambda dtype: ggmc.Surrogate(lambda w: -2 * (w**2).sum()),
    "minibatch, palindrome": lambda dtype: ggmc.Minibatch(10),
    "minibatch, epoch": lambda dtype: ggmc.Minibatch(10, "epoch"),
    "minibatch, iid": lambda dtype: ggmc.Minibatch(10, "iid"),
    "minibatch, custom order": lambda dtype: ggmc.Minibatch(10, ggmc.CustomOrder(second_half_first, reversible=True)),
    "minibatch, recut": lambda dtype: ggmc.Minibatch(10, recut=True),
    "minibatch, recut epoch": lambda dtype: ggmc.Minibatch(10, "epoch", recut=True),
    "minibatch, augmented": lambda dtype: ggmc.Minibatch(10, augment=Mirrored()),
    "minibatch, augmented epoch": lambda dtype: ggmc.Minibatch(10, "epoch", augment=Shifted()),
    "minibatch, augmented recut": lambda dtype: ggmc.Minibatch(10, "iid", recut=True, augment=Shifted()),
    "control variate": anchored,
    "control variate, epoch": lambda dtype: anchored(dtype, order="epoch"),
    "control variate, diagonal": lambda dtype: anchored(dtype, curvature="diagonal"),
    "control variate, dense": lambda dtype: anchored(dtype, curvature="dense"),
    "control variate, anchor found": lambda dtype: ggmc.ControlVariate(10),
    "third party, deterministic": lambda dtype: Shrunk(0.5),
    "third party, stochastic": lambda dtype: InWindows(10),
}
UNBIASED_PASSES = [
    name
    for name in GUIDES
    if any(kind in name for kind in ("minibatch", "control", "stochastic"))
    and "iid" not in name
    and "custom" not in name
    and "augmented" not in name
]

every_guide = pytest.mark.parametrize("name", GUIDES)


def bound(name: str, dtype: torch.dtype = torch.float64) -> tuple[ggmc.DataDensity, GradientField]:
    target = logistic(dtype=dtype)
    return target, GUIDES[name](dtype).bind(target)


def tape_of(field: GradientField, entries: int = 5, chains: int = CHAINS, seed: int = 0) -> Any:
    return field.tape(entries, chains, torch.Generator("cpu").manual_seed(seed))


def first_entry(field: GradientField, chains: int = CHAINS) -> Tensor | None:
    tape = tape_of(field, chains=chains)
    return None if tape is None else tape[0]


@every_guide
def test_a_guide_is_a_frozen_printable_setting(name: str) -> None:
    guide = GUIDES[name](torch.float64)
    assert isinstance(guide, Guide)
    assert type(guide).__name__ in repr(guide)
    with pytest.raises(AttributeError):
        guide.anything = 1  # pyright: ignore[reportAttributeAccessIssue]


@every_guide
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("chains", [1, CHAINS])
def test_the_gradient_has_the_shape_precision_and_device_of_the_position(
    name: str, dtype: torch.dtype, chains: int
) -> None:
    _, field = bound(name, dtype)
    position = rows(chains, dtype)
    gradient, potential = field(position, first_entry(field, chains))
    assert gradient.shape == position.shape
    assert (gradient.dtype, gradient.device) == (dtype, position.device)
    assert not gradient.requires_grad
    assert gradient.isfinite().all()
    assert torch.equal(position, rows(chains, dtype))  # the position is left as it was
    if potential is not None:
        assert potential.shape == (chains,)
        assert potential.dtype == torch.float64


@every_guide
def test_the_gradient_is_a_function_of_position_and_entry(name: str) -> None:
    _, field = bound(name)
    entry = first_entry(field)
    gradient, _ = field(rows(), entry)
    field(rows() + 1, first_entry(field))
    assert torch.equal(field(rows(), entry)[0], gradient)
    assert torch.equal(field(rows(), None if entry is None else entry.clone())[0], gradient)


@every_guide
def test_each_chain_has_its_own_gradient(name: str) -> None:
    _, field = bound(name)
    entry = first_entry(field)
    gradient, _ = field(rows(), entry)
    for chain in range(CHAINS):
        here = slice(chain, chain + 1)
        alone, _ = field(rows()[here], None if entry is None else entry[here])
        torch.testing.assert_close(alone, gradient[here])


@every_guide
def test_a_potential_that_comes_for_free_is_the_targets(name: str) -> None:
    target, field = bound(name)
    gradient, potential = field(rows(), first_entry(field))
    if potential is not None:
        torch.testing.assert_close(potential, target.potential(rows()))
    if field.exact:
        torch.testing.assert_close(gradient, target.potential_and_gradient(rows())[1])


@pytest.mark.parametrize("name", UNBIASED_PASSES)
def test_the_mean_over_a_pass_is_the_exact_gradient(name: str) -> None:
    target, field = bound(name)
    torch.testing.assert_close(over_a_pass(field, rows()).mean(0), target.potential_and_gradient(rows())[1])


@every_guide
@pytest.mark.parametrize("entries", [1, 2, 7, 30])
def test_a_tape_has_an_entry_for_each_gradient_and_chain(name: str, entries: int) -> None:
    _, field = bound(name)
    tape = tape_of(field, entries)
    assert field.deterministic == (tape is None) == (field.order is None)
    if tape is None:
        return
    assert tape.shape[:2] == (entries, CHAINS)
    assert tape.device == torch.device("cpu")
    assert torch.equal(tape, tape_of(field, entries))  # from the generator alone
    different = tape_of(field, 30)
    assert not torch.equal(different, tape_of(field, 30, seed=1))
    assert not torch.equal(different[:, 0], different[:, 1])  # every chain its own


@every_guide
def test_a_tape_is_fresh_each_time(name: str) -> None:
    _, field = bound(name)
    if field.deterministic:
        return
    generator = torch.Generator().manual_seed(0)
    assert not torch.equal(*(field.tape(30, CHAINS, generator) for _ in range(2)))  # pyright: ignore


@every_guide
def test_an_order_is_reversible_as_stated(name: str) -> None:
    _, field = bound(name)
    if field.order is None:
        return
    assert field.order.reversible
    check_reversible(field.order, 9, field.epoch)


@every_guide
def test_lengths_are_whole_numbers(name: str) -> None:
    _, field = bound(name)
    for length in (field.epoch, field.sweep, field.default_steps):
        assert isinstance(length, int)
        assert length >= 1
    if field.deterministic:
        assert field.epoch == field.sweep == 1
    else:
        assert field.epoch == 11
        assert field.sweep % field.epoch == 0


@every_guide
def test_frozen_tensors_stay_as_they_are(name: str) -> None:
    _, field = bound(name)
    before = [(tensor, tensor._version, tensor.clone()) for tensor in field.frozen()]
    for entry in tape_of(field) if not field.deterministic else [None]:
        field(rows(), entry)
    assert len(field.frozen()) == len(before)
    for tensor, (same, version, value) in zip(field.frozen(), before, strict=True):
        assert tensor is same
        assert tensor._version == version
        assert torch.equal(tensor, value)


@every_guide
def test_advice_has_the_right_form(name: str) -> None:
    target, field = bound(name)
    d = target.layout.size
    assert isinstance(field.advice, Advice)
    mass = None if field.advice.mass is None else field.advice.mass()
    if mass is not None:
        assert mass.shape in ((d,), (d, d))
        assert mass.device == target.device
        assert (torch.linalg.eigvalsh(mass if mass.dim() == 2 else mass.diag()) > 0).all()
    assert (mass is not None) == ("diagonal" in name or "dense" in name)
    if field.advice.starts is not None:
        starts = field.advice.starts(7, 0.5, torch.Generator().manual_seed(0))
        assert starts.shape == (7, d)
        assert (starts.dtype, starts.device) == (target.dtype, target.device)
        assert target.potential(starts).isfinite().all()
    assert field.advice.acceptance is None or 0 < field.advice.acceptance < 1


@every_guide
def test_another_size_is_another_guide_of_the_same_kind(name: str) -> None:
    target, field = bound(name)
    guide = GUIDES[name](torch.float64)
    if not isinstance(guide, BatchGuide):
        return
    other = guide.with_size(20, field)
    assert type(other) is type(guide)
    assert other.size == 20
    assert guide.size == 10
    assert other.bind(target).epoch == 6


# The interface fails closed


def test_a_field_states_its_order_and_has_a_gradient() -> None:
    class Unstated(GradientField):
        def __init__(self) -> None:
            super().__init__()  # pyright: ignore[reportCallIssue]

        def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
            return position, None

    class NoGradient(GradientField):
        def __init__(self) -> None:
            super().__init__(order=None)

    class NoBind(Guide):
        pass

    with pytest.raises(TypeError, match="'order'"):
        Unstated()
    for incomplete in (NoGradient, NoBind):
        with pytest.raises(TypeError, match="abstract method"):
            incomplete()  # pyright: ignore[reportAbstractUsage]


def test_a_tape_of_the_wrong_shape_is_refused() -> None:
    class OneColumn(Order):
        def __init__(self) -> None:
            super().__init__(name="one column", reversible=True)

        def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
            return torch.zeros(entries, dtype=torch.long)

        def sweep(self, batches: int) -> int:
            return batches

    field = ggmc.Minibatch(10, OneColumn()).bind(logistic())
    with pytest.raises(BadInput, match=r"the order 'one column' must draw a tape of shape \[5, 4, ...\]"):
        tape_of(field)


# Devices


@every_guide
def test_no_tensor_depends_on_the_default_device(name: str) -> None:
    """Under another default device, what is not placed on the target's device would land elsewhere and fail."""
    target = logistic()
    generator = torch.Generator("cpu")
    position = rows()
    with torch.device("meta"):
        field = GUIDES[name](torch.float64).bind(target)
        tape = field.tape(field.sweep + 1, CHAINS, generator.manual_seed(0))
        gradients = [field(position, entry) for entry in (tape if tape is not None else [None])]
        mass = None if field.advice.mass is None else field.advice.mass()
        starts = None if field.advice.starts is None else field.advice.starts(3, 1.0, generator)
        if field.order is not None:
            check_reversible(field.order, 5, field.epoch)
    assert tape is None or tape.device == target.device
    for gradient, potential in gradients:
        assert gradient.device == target.device
        assert potential is None or potential.device == target.device
    for tensor in (mass, starts, *field.frozen()):
        assert tensor is None or tensor.device == target.device
    again = GUIDES[name](torch.float64).bind(target)
    torch.testing.assert_close(gradients[0][0], again(position, None if tape is None else tape[0])[0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_guide
def test_on_a_gpu(name: str) -> None:
    x, s = logistic().data.slice(0, 103)
    cpu = logistic()
    start = torch.zeros(3, dtype=torch.float64, device="cuda")
    target = ggmc.DataDensity(cpu.log_prior, cpu.log_likelihood, (x, s), start)
    field = GUIDES[name](torch.float64).bind(target)
    tape = field.tape(field.sweep, CHAINS, torch.Generator("cuda").manual_seed(0))
    gradient, _ = field(rows().cuda(), None if tape is None else tape[0])
    assert gradient.device.type == "cuda"
