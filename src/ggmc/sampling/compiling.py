"""Whether the trajectories of a run are compiled.

Small tensor operations cost Python a microsecond or two each, which is more than their numbers take. Compiling takes
a tenth of a second, more where a gradient has thousands of operations. So a run is compiled where its operations are
small and it is long enough: by a rule from the size of the work, not by timing, so that a seed gives the same draws.
"""

from __future__ import annotations

import logging
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ggmc.errors import BadInput
from ggmc.kernels import Sampler, WordSampler
from ggmc.programs.compiled import compiler
from ggmc.programs.loops import CannotCompile
from ggmc.programs.record import Sizes, as_written

log = logging.getLogger("ggmc")

Choice = Literal["auto"] | bool

# Measured on small posteriors with gcc and one thread, 2 to 64 chains.
SAVED = 1.2e-6  # seconds for each operation
GRADIENTS = 4  # in a trajectory, about
PER_STEP, PER_TRAJECTORY = 15, 150  # operations beside those of gradients
ONCE, EACH = 0.4, 1e-3  # seconds to compile the programs of a run, and for each operation of its gradient
PER_DRAW, PER_GRADIENT, PER_NUMBER = 2e-5, 5e-7, 2.5e-10  # seconds, of compiled draws
SMALL = 2**16  # numbers in the result of an operation on average, beyond which torch's own operations are as quick


def check_choice(choice: object) -> None:
    """Refuse what does not say whether to compile."""
    if not isinstance(choice, bool) and choice not in get_args(get_args(Choice)[0]):
        raise BadInput(f'compile must be "auto", True or False, got {choice!r}')


class Work(NamedTuple):
    """The work of one gradient of all chains."""

    operations: int
    numbers: int
    """In the results of all of them."""

    @property
    def per_draw(self) -> float:
        """What a draw costs beside its gradients when all is compiled, as so many of them."""
        return PER_DRAW / (PER_GRADIENT + PER_NUMBER * self.numbers)

    def is_worth_compiling(self, trajectories: int) -> bool:
        """Whether a run takes less time when its trajectories are compiled.

        Args:
            trajectories: Of warm-up and draws together.
        """
        if self.numbers > SMALL * self.operations:
            return False
        spared = GRADIENTS * (self.operations + PER_STEP) + PER_TRAJECTORY
        return trajectories * spared * SAVED > ONCE + EACH * self.operations


def work_of(sampler: Sampler, position: Tensor) -> Work | None:
    """What a gradient takes; None where its trajectories cannot be compiled.

    Args:
        sampler: Of the run.
        position: Rows [chains, d] to observe a gradient at.
    """
    if not isinstance(sampler, WordSampler) or position.device.type != "cpu":
        return None
    sizes, field = Sizes(), sampler.field
    tape = field.tape(1, len(position), torch.Generator(position.device).manual_seed(0))
    entry = None if tape is None else tape[0]
    try:
        with as_written():
            field(position, entry)  # what is measured at the first call shall not be observed
            with sizes:
                field(position, entry)
    except Exception:  # whatever stops a gradient here will stop the run too, where it can be reported
        return None
    return Work(sizes.operations, sizes.numbers)


def is_there_a_compiler() -> bool:
    """Whether the machine has a C compiler; where it has none, a notice says so."""
    try:
        compiler()
    except CannotCompile as reason:
        log.warning("trajectories are not compiled, which is slower: %s", reason)
        return False
    return True
