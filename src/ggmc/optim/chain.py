"""One chain as vectors, and the letters that move it in place.

The letters are O, B and A of `ggmc.dynamics.letters`, written again for one chain in place, in the units of
`settings.py`, where every group's momentum has mass 1 and its own step size. Each is one vector operation for all
parameters, or one per group where rates differ. Letters that kernels add do not reach this file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ggmc.optim.settings import Ratios, Settings

PART = 65_536


class Chain:
    """Position, momentum and random numbers of one chain.

    Args:
        position: θ, [d]; it is moved in place.
        sizes: How many of the d parameters each group has.
        generator: Of the noise, on the device of the position.

    Example:
        >>> import torch
        >>> from ggmc.optim.chain import Chain
        >>> chain = Chain(torch.zeros(3), [2, 1], torch.Generator())
        >>> chain.kick(torch.ones(3), 0.1, ratios=None)
        >>> chain.drift(1.0, ratios=(1.0, 0.5))               # the second group's step is half as large
        >>> chain.position
        tensor([-0.1000, -0.1000, -0.0500])
    """

    def __init__(self, position: Tensor, sizes: Sequence[int], generator: torch.Generator):
        self.position = position
        self.momentum = torch.zeros_like(position)
        self.momentum_before_friction = torch.zeros_like(position)
        self.generator = generator
        self.owed = math.inf
        """γt of the friction still to be carried out; at first the momentum is yet to be drawn."""
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        self._groups = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        self._force: Tensor | None = None

    def extend(self, position: Tensor, size: int, temperature: float) -> Chain:
        """The same chain with one more group, whose momentum is drawn from its distribution.

        Args:
            position: θ with the new parameters at its end.
            size: How many there are.
            temperature: T.
        """
        sizes = [group.stop - group.start for group in self._groups]
        chain = Chain(position, [*sizes, size], self.generator)
        chain.momentum[: len(self.position)] = self.momentum
        chain.owed = self.owed
        if math.isfinite(self.owed):
            chain.momentum[len(self.position) :].normal_(0.0, math.sqrt(temperature), generator=self.generator)
        return chain

    def drift(self, time: float, ratios: Ratios) -> None:
        """A: θ ← θ + time · ratio · m.

        Args:
            time: In units of the largest step size's group.
            ratios: Each group's share of it.
        """
        if ratios is None:
            self.position.add_(self.momentum, alpha=time)
        else:
            for part, ratio in self._each(ratios):
                self.position[part].add_(self.momentum[part], alpha=time * ratio)

    def kick(self, force: Tensor, time: float, ratios: Ratios, work: Tensor | None = None) -> None:
        """B: m ← m − time · ratio · force.

        Args:
            force: ∇U up to a factor that is put into the time.
            time: For which it acts on the group with the largest step size.
            ratios: Each group's share of it.
            work: To which the change of K is added, in float64: −(time/2) · force · (m_before + m_after), where the
                mean momentum is the one halfway through the kick. Two large kinetic energies are never subtracted.
        """
        if ratios is None:
            if work is None:
                self.momentum.add_(force, alpha=-time)
            else:
                _kick(self.momentum, force, time, work)
        else:
            for part, ratio in self._each(ratios):
                _kick(self.momentum[part], force[part], time * ratio, work)

    def descend(self, force: Tensor, rate: float, ratios: Ratios) -> None:
        """θ ← θ − rate · ratio² · force: a kick from rest and a drift, in one.

        Args:
            force: ∇U/num_data.
            rate: Of the group with the largest step size.
            ratios: Each group's share of the step size.
        """
        if ratios is None:
            self.position.add_(force, alpha=-rate)
        else:
            for part, ratio in self._each(ratios):
                self.position[part].add_(force[part], alpha=-rate * ratio**2)

    def friction(self, keep: float, spread: float) -> None:
        """O: m ← keep · m + spread · ε. What was before stays in `momentum_before_friction`.

        Args:
            keep: Factor of the momentum.
            spread: Standard deviation of the noise.
        """
        before, after = self.momentum, self.momentum_before_friction
        if spread:
            after.normal_(0.0, spread, generator=self.generator)
            if keep:
                after.add_(before, alpha=keep)
        elif keep:
            torch.mul(before, keep, out=after)
        else:
            after.zero_()
        self.momentum, self.momentum_before_friction = after, before

    def undo_friction(self) -> None:
        """Take back the last O, if nothing else has changed the momentum since."""
        self.momentum, self.momentum_before_friction = self.momentum_before_friction, self.momentum

    def pay_friction(self, temperature: float) -> None:
        """Carry out the friction that is owed."""
        if self.owed:
            self.friction(math.exp(-self.owed), math.sqrt(-math.expm1(-2 * self.owed) * temperature))
            self.owed = 0.0

    def force(self, gradient: Tensor, now: Settings) -> Tensor:
        """∇U/num_data at the present position.

        Args:
            gradient: Of the mean loss.
            now: Whose weight decay is added.
        """
        if now.weight_decay == 0:
            return gradient
        if self._force is None:
            self._force = torch.zeros_like(self.position)
        if now.weight_decay is not None:
            return torch.add(gradient, self.position, alpha=now.weight_decay, out=self._force)
        for part, decay in self._each(now.weight_decays):
            torch.add(gradient[part], self.position[part], alpha=decay, out=self._force[part])
        return self._force

    def prior(self, now: Settings) -> Tensor | float:
        """The weight decay's part of U, in float64."""
        if now.weight_decay == 0:
            return 0.0
        groups = self._each(now.weight_decays)
        squares = [decay * self.position[part].double().square().sum() for part, decay in groups]
        return now.num_data / 2 * sum(squares)

    def _each(self, numbers: Sequence[float]) -> Iterator[tuple[slice, float]]:
        return zip(self._groups, numbers, strict=True)


def _kick(momentum: Tensor, force: Tensor, time: float, work: Tensor | None) -> None:
    if work is None:
        momentum.add_(force, alpha=-time)
    else:
        momentum.add_(force, alpha=-time / 2)
        work.add_(product(momentum, force), alpha=-time)
        momentum.add_(force, alpha=-time / 2)


def product(a: Tensor, b: Tensor) -> Tensor:
    """a·b, one number. Long vectors go in parts, whose sum is float64: as exact as their numbers, and nothing written.

    Args:
        a: [d].
        b: [d].

    Example:
        >>> import torch
        >>> from ggmc.optim.chain import product
        >>> ones = torch.ones(2**24 + 2**16)          # one float32 cannot count that far by ones
        >>> product(ones, ones).item() - len(ones)
        0.0
    """
    part = max(PART, len(a) // 64)
    if len(a) <= part:
        return torch.dot(a, b)
    return torch.stack(list(map(torch.dot, a.split(part), b.split(part)))).sum(dtype=torch.float64)


def kinetic_energy(momentum: Tensor) -> Tensor:
    """|m|²/2, summed in float64.

    Args:
        momentum: [d].
    """
    precise = momentum.double()
    return torch.dot(precise, precise) / 2
