"""One kind of stretch, the letters between two drifts with their gradient and work, as one function in C."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils._pytree import TreeSpec

from ggmc.dynamics.letters import Alphabet, Motion
from ggmc.dynamics.mass import Mass
from ggmc.dynamics.state import Parameters, State
from ggmc.errors import Condition, NotExact
from ggmc.guides.base import GradientField
from ggmc.programs.compiled import Compiled
from ggmc.programs.loops import CannotCompile
from ggmc.programs.record import as_written, record
from ggmc.targets.traced import half_the_digits, same

DISTANCES = (0.0, 1e-2, 1.0)  # from where the chains are, at which a new program is compared


class Observed(NamedTuple):
    """What a path was after each of several times, one row for each."""

    positions: Tensor
    """[times, chains, d]."""
    works: Tensor
    """[times, chains]."""
    potentials: Tensor | None
    """[times, chains], where the guide gave them for free."""


class Kind(NamedTuple):
    """What stretches have in common that are carried out by one program."""

    letters: tuple[str, ...]
    nested: TreeSpec
    """How the letters' numbers are nested."""
    others: tuple[tuple[object] | None, ...]
    """Those among them that are no tensors; None for a tensor."""
    shapes: object

    def numbers(self, tensors: Sequence[Tensor]) -> list[object]:
        """What the letters prepared, one after another."""
        remaining = iter(tensors)
        return self.nested.unflatten(next(remaining) if other is None else other[0] for other in self.others)


@dataclass(eq=False)
class Stretch:
    """The same letters several times, with numbers that may differ."""

    kind: Kind
    times: int
    tensors: list[Tensor]
    """The letters' numbers, each [times, ...]."""
    programs: dict[object, StretchProgram] = field(default_factory=dict)
    """Those that carried it out, by whose they are, what was known, and the shape of the positions."""

    @classmethod
    def of(cls, kind: Kind, pieces: Sequence[tuple[Kind, list[Tensor]]]) -> Stretch:
        """Pieces of one kind, put together."""
        return cls(kind, len(pieces), [torch.stack(each) for each in zip(*(own for _, own in pieces), strict=True)])


def shapes_of(tensors: Sequence[Tensor]) -> object:
    """Shapes and precisions."""
    return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


def _carried(path: Motion) -> list[Tensor]:
    return [path.position, path.momentum, path.work, *path.extra.values()]


def _fixed(parameters: Parameters) -> list[Tensor]:
    return [parameters.step_size, parameters.friction, parameters.temperature, *_tensors(parameters.mass).values()]


def _tensors(mass: Mass) -> dict[str, Tensor]:
    return {name: value for name, value in vars(mass).items() if isinstance(value, Tensor)}


def form_of_path(path: Motion) -> tuple[object, ...]:
    """What else a program depends on: shapes, and the kind of mass."""
    return *path.extra, type(path.parameters.mass), shapes_of([*_carried(path), *_fixed(path.parameters)])


def _with_tensors(mass: Mass, tensors: Sequence[Tensor]) -> Mass:
    """A mass of the same kind, made of other tensors."""
    made = copy.copy(mass)
    vars(made).update(zip(_tensors(mass), tensors, strict=True))
    return made


class StretchProgram:
    """One kind of stretch, compiled. Its inputs are, in this order:

    what is carried on     position, momentum, work, the kernel's own variables
    what is known          gradient and potential at its beginning, if they are
    what stays             step size, friction, temperature, the tensors of the mass
    what each time has     an entry of the tape, noise, the numbers of the letters
    """

    def __init__(
        self, gradient_field: GradientField, letters: Alphabet, path: Motion, stretch: Stretch, known: tuple[bool, bool]
    ):
        self._field, self._letters, self._kind, self.known = gradient_field, letters, stretch.kind, known
        self._extra, self._mass = list(path.extra), path.parameters.mass
        self._reads, self.noises = self._counted(path, stretch)
        once = self.once(path)
        self.first = len(once)
        each = self._each(path.tape_ahead(self._reads), [path.momentum[None]] * self.noises, stretch)
        inputs = [x.clone(memory_format=torch.contiguous_format) for x in [*once, *(x[0] for x in each)]]
        calls, motion = record(lambda: self._by_letters(inputs))
        self.gives = motion.gradient is not None, motion.potential is not None
        results, own = _results(motion), 3 + len(self._extra)
        carried = {number: number for number in range(own)}
        if self.known[0] and self.gives[0]:
            carried[own] = own
        if self.known[1] and self.gives[1]:
            carried[own + self.known[0]] = own + self.gives[0]
        self.repeats = len(carried) == own + sum(self.known)
        """Whether all that is known at the beginning is known at the end, so that it can go on from there."""
        numbered = frozenset(range(self.first, len(inputs)))
        self.compiled = Compiled(calls, inputs, results, carried, numbered)
        self._calls = 0
        for number, distance in enumerate(DISTANCES):
            if not self._agrees(self._moved(inputs, distance, number)):
                raise CannotCompile("the compiled operations give other numbers, so they depend on values")

    def carry_out(self, path: Motion, stretch: Stretch, observed: bool = False) -> Observed | None:
        """All of a stretch, in one call; None if it cannot be repeated as often, and nothing has happened.

        Args:
            path: The trajectory under way.
            stretch: Of this kind.
            observed: Whether what the path was after each time is wanted; else it is told of the last alone.
        """
        if stretch.times > 1 and not self.repeats:
            return None
        noises = [torch.stack([path.noise() for _ in range(stretch.times)]) for _ in range(self.noises)]
        each = self._each(path.next_of_tape(stretch.times * self._reads), noises, stretch)
        once = self.once(path)
        self.check([*once, *(x[0] for x in each)])
        try:
            results = self.compiled(stretch.times, [*once, *each], set(range(len(self._extra) + 5)) if observed else ())
        except LinAlgError:  # of one chain, which must not stop the others; with the same noise, so without bias
            results = self._one_by_one(once, each, stretch.times, observed)
        seen = Observed(results[0], results[2], results[-1] if self.gives[1] else None)
        last = iter([result[-1] for result in results] if observed else results)
        path.position, path.momentum, path.work = next(last), next(last), next(last)
        path.extra = {name: next(last) for name in self._extra}
        path.gradient, path.potential = (next(last) if given else None for given in self.gives)
        return seen

    def check(self, inputs: Sequence[Tensor]) -> None:
        """Called at every call: now and then it compares the program with the letters again.

        Args:
            inputs: Of one time.
        """
        self._calls += 1
        if self._calls & (self._calls - 1):  # not at a power of two
            return
        try:
            agrees = self._agrees(inputs)
        except LinAlgError:  # nothing to compare
            return
        if not agrees:
            raise NotExact(
                "the density or guide no longer gives what it gave before for the same arguments: it reads something "
                "that has changed since, or takes another path in a way that torch cannot see. It must be a function "
                "of its arguments alone: after a change, make a new target",
                Condition.POTENTIAL,
            )

    def _one_by_one(self, once: Sequence[Tensor], each: Sequence[Tensor], times: int, observed: bool) -> list[Tensor]:
        """As the program, by the letters themselves."""
        carried, own = list(once), 3 + len(self._extra)
        results: list[list[Tensor]] = []
        for number in range(times):
            motion = self._by_letters([*carried, *(x[number] for x in each)])
            results.append(_results(motion))
            known = [x for x, wanted in zip((motion.gradient, motion.potential), self.known, strict=True) if wanted]
            carried = [*results[-1][:own], *(x for x in known if x is not None), *once[own + sum(self.known) :]]
        return [torch.stack(each) for each in zip(*results, strict=True)] if observed else results[-1]

    def once(self, path: Motion) -> list[Tensor]:
        """The inputs that all times share."""
        known = [given for given, wanted in zip((path.gradient, path.potential), self.known, strict=True) if wanted]
        return [*_carried(path), *(given for given in known if given is not None), *_fixed(path.parameters)]

    def fixed(self, parameters: Parameters) -> list[Tensor]:
        """The last of the inputs that all times share: those that the parameters give."""
        return _fixed(parameters)

    def _each(self, entries: Tensor | None, noises: Sequence[Tensor], stretch: Stretch) -> list[Tensor]:
        return [*([] if entries is None else [entries]), *noises, *stretch.tensors]

    def _counted(self, path: Motion, stretch: Stretch) -> tuple[int, int]:
        """Entries of the tape and noises that the letters take. What is chosen at a first call is chosen here."""
        drawn = 0

        def noise() -> Tensor:
            nonlocal drawn
            drawn += 1
            return torch.ones_like(path.momentum)

        trial = copy.copy(path)
        trial.noise, trial.extra = noise, dict(path.extra)
        self._apply(trial, [tensor[0] for tensor in stretch.tensors])
        if trial.reads - path.reads > 1:
            raise CannotCompile("a stretch of the word reads several entries of the tape")
        return 0 if self._field.deterministic else trial.reads - path.reads, drawn

    def _apply(self, motion: Motion, numbers: Sequence[Tensor]) -> None:
        for letter, own in zip(self._kind.letters, self._kind.numbers(numbers), strict=True):
            self._letters[letter].apply(motion, own)

    def _by_letters(self, inputs: Sequence[Tensor]) -> Motion:
        """The letters applied to given inputs, once."""
        remaining = iter(inputs)
        position, momentum, work = next(remaining), next(remaining), next(remaining)
        extra = {name: next(remaining) for name in self._extra}
        gradient, potential = (next(remaining) if known else None for known in self.known)
        step_size, friction, temperature = next(remaining), next(remaining), next(remaining)
        mass = _with_tensors(self._mass, [next(remaining) for _ in _tensors(self._mass)])
        tape = next(remaining)[None] if self._reads else None
        noises = iter([next(remaining) for _ in range(self.noises)])
        state = State(position, momentum, potential, gradient, extra=extra)
        motion = Motion(
            state, Parameters(step_size, friction, temperature, mass), self._field, tape, lambda: next(noises)
        )
        motion.work = work
        self._apply(motion, list(remaining))
        return motion

    def _agrees(self, inputs: Sequence[Tensor]) -> bool:
        """Whether the program gives what the letters give, in the chains where that is finite."""
        with as_written():
            motion = self._by_letters(inputs)
        expected = _results(motion)
        found = self.compiled(1, [x if i < self.first else x[None] for i, x in enumerate(inputs)])
        finite = torch.stack([x.isfinite().reshape(len(x), -1).all(1) for x in expected]).all(0)
        if not finite.any():
            return True
        tolerance = half_the_digits(motion.position)
        # Work is a sum of what may cancel: it is judged by the energy that the kicks move about.
        energy = (motion.momentum * motion.parameters.mass.velocity(motion.momentum)).sum(-1)[finite].abs().max()
        work = (found.pop(2) - expected.pop(2))[finite].abs().max()
        if work > tolerance * (energy + motion.work[finite].abs().max()):
            return False
        return all(same(a[finite], b[finite], tolerance) for a, b in zip(found, expected, strict=True))

    def _moved(self, inputs: Sequence[Tensor], distance: float, seed: int) -> list[Tensor]:
        """The inputs with other positions and momenta."""
        generator = torch.Generator("cpu").manual_seed(seed)
        noise = torch.randn((2, *inputs[0].shape), generator=generator, device="cpu").to(inputs[0])
        return [inputs[0] + distance * noise[0], inputs[1] + distance * noise[1], *inputs[2:]]


def _results(motion: Motion) -> list[Tensor]:
    last = (motion.gradient, motion.potential)
    return [*_carried(motion), *(tensor for tensor in last if tensor is not None)]
