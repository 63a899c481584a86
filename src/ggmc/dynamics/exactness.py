"""When a Metropolis test makes a chain exact, and what is refused because it would not.

A trajectory can be retraced if its word, its step sizes and temperatures, and the joint distribution of its tape are
the same backwards. Its test is exact if, besides, the potential and the guide are deterministic, and nothing adapts
while sampling. Every sampler that tests is checked when it is made (`kernels/base.py`), those that are words more
closely (`kernels/words.py`). Kernels refuse settings of their own that cannot be tested; `bayes/module_checks.py` finds
the reasons of networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

import torch
from torch import Tensor

from ggmc.dynamics import length
from ggmc.dynamics.schedule import Along, Over
from ggmc.dynamics.scheme import Move, Scheme
from ggmc.dynamics.state import Parameters, State, normals
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import Condition, NotExact
from ggmc.guides.base import GradientField
from ggmc.guides.order_check import check_reversible, is_built_in
from ggmc.targets.base import Target


def scheme_of(word: str, adjust: bool) -> Scheme:
    """A word as a scheme; one that no test can correct is refused where trajectories are to be tested.

    Args:
        word: As given by the user.
        adjust: Whether trajectories are tested.
    """
    scheme = Scheme(word)
    if adjust and scheme.not_reversible is not None:
        raise NotExact(scheme.not_reversible, Condition.WORD)
    return scheme


def not_retraceable(
    scheme: Scheme, steps: tuple[int, int], along: Along | None, field: GradientField
) -> NotExact | None:
    """Why a trajectory cannot be retraced, so that its acceptance probability is 0, as an error; None if it can.

    Args:
        scheme: Its word.
        steps: The range of its number of steps.
        along: Its schedule.
        field: Its gradient field, whose order draws the tape.
    """
    if scheme.not_reversible is not None:
        return NotExact(scheme.not_reversible, Condition.WORD)
    if along is not None:
        for number in length.some(steps):
            reason = along.lopsided(number)
            if reason is not None:
                return NotExact(reason, Condition.STEPS)
    return _not_reversible(field)


def refuse_if_not_exact(target: Target, field: GradientField, gradients: Iterable[int]) -> None:
    """Refuse a test that would not make the chain exact, whatever the sampler.

    Args:
        target: States itself whether its potential is deterministic.
        field: Its order is checked statistically, and that it gives the same gradient twice.
        gradients: Numbers of gradients that a trajectory may take: entries of the tape that it reads.
    """
    if target.not_exact is not None:
        # A gradient is taken of the same function as the potential, so what is random there is random here.
        message = f"the Metropolis test would not be exact: {target.not_exact}."
        raise NotExact(message, Condition.POTENTIAL, Condition.GRADIENT)
    refusal = _not_reversible(field)
    if refusal is not None:
        raise refusal
    if field.order is not None and not is_built_in(field.order):
        for number in gradients:
            check_reversible(field.order, number, field.epoch)
    if not field.exact:
        _refuse_random_field(target, field)


def refuse_moving_temperature(over: Over | None) -> None:
    """Refuse a schedule over the run that leaves the test without one distribution to test against."""
    if over is not None and not over.keeps_temperature:
        raise NotExact(
            f"a temperature that changes over the run has no one distribution to sample, got {over.temperature!r}: "
            "use adjust=False, or a constant temperature",
            Condition.TEST,
        )


def _not_reversible(field: GradientField) -> NotExact | None:
    if field.order is None or field.order.reversible:
        return None
    return NotExact(
        f"the order {field.order.name!r} has another distribution read backwards, so a trajectory cannot be "
        "retraced: use order='palindrome', 'epoch' or 'iid', or adjust=False",
        Condition.TAPE,
    )


def _refuse_random_field(target: Target, field: GradientField) -> None:
    """The same gradient must come out for the same position and entry of the tape."""
    position = target.start[None]
    tape = field.tape(1, 1, torch.Generator(target.device).manual_seed(0))
    entry = None if tape is None else tape[0]
    first, again = (field(position, entry)[0] for _ in range(2))
    tolerance = torch.finfo(first.dtype).eps ** 0.5  # sums in parallel may round differently
    if first.isfinite().all() and not torch.allclose(first, again, rtol=tolerance, atol=tolerance):
        raise NotExact(
            f"{type(field).__name__} is random: it gave two gradients at the same position and entry of the tape. Draw "
            "its randomness with an order, so that it is part of the tape, or use adjust=False",
            Condition.GRADIENT,
        )


def refuse_letters_without_way_back(
    scheme: Scheme, position: Tensor, variables: Mapping[str, Tensor], parameters: Parameters, field: GradientField
) -> None:
    """Refuse a letter of the user's own that, from its end with the momentum flipped, does not lead back.

    Only a letter that draws no noise can be tried like that; `ggmc.retrace` looks for the noise of the others.

    Args:
        scheme: The word.
        position: A row to try it at, [1, d].
        variables: The kernel's own variables there.
        parameters: The numbers of the motion; the step size need not be known.
        field: The gradient field.
    """
    generator = torch.Generator(position.device).manual_seed(0)
    noise = normals(position, generator)
    begin = State(position, noise(), extra=variables)
    numbers = parameters.change(step_size=0.5)

    def after(letter: str, state: State) -> State:
        path = Trajectory(state, numbers, field, None, noise, scheme.letters)
        path.run([Move(letter, Fraction(1))])
        return path.state.flip()

    for name, letter in scheme.own_letters.items():
        if letter.noisy or letter.kicks:
            continue
        back = after(name, after(name, begin))
        if not (
            torch.allclose(back.position, begin.position, rtol=1e-4, atol=1e-4)
            and torch.allclose(back.momentum, begin.momentum, rtol=1e-4, atol=1e-4)
        ):
            raise NotExact(
                f"the letter {name} ({type(letter).__name__}) has no way back: from where it ended, with the momentum "
                "flipped, it does not lead to where it began. Say why in its `not_reversible`, and use adjust=False",
                Condition.WORD,
            )


class Unchanged:
    """Checks that tensors stay as they were: a mass or an anchor that adapts while sampling would not be exact.

    Args:
        tensors: Returns the tensors that must not change.
    """

    def __init__(self, tensors: Callable[[], Sequence[Tensor]]):
        self._tensors = tensors
        self._kept = list(tensors())  # alive, so that no other tensor can take over an id
        self._known = self._now()

    def check(self) -> None:
        """Refuse to go on if one of them was replaced or written to."""
        if self._now() != self._known:
            raise NotExact(
                "the mass, or the anchor of the control variates, was changed after the kernel was bound: what adapts "
                "while sampling is not exact. Bind the kernel again, and discard the draws up to there",
                Condition.GRADIENT,
            )

    def _now(self) -> list[tuple[int, int]]:
        return [(id(tensor), tensor._version) for tensor in self._tensors()]
