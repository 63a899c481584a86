"""Whether the trajectories of a run are compiled.

Small tensor operations cost Python a microsecond or two each, which is more than their numbers take. Compiling takes
a tenth of a second, more where a gradient has thousands of operations. So a run is compiled where its operations are
small and it is long enough: by a rule from the size of the work, not by timing, so that a seed gives the same draws.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ggmc.errors import BadInput
from ggmc.kernels import Sampler, WordSampler
from ggmc.programs.record import Call, Observer, as_written

Choice = Literal["auto"] | bool

# Measured on small posteriors with gcc and one thread, 2 to 64 chains.
SAVED = 1.2e-6  # seconds for each operation of a gradient
ONCE, EACH = 0.3, 1e-3  # seconds to compile a program, and for each of its operations
GRADIENTS = 4  # in a trajectory, about
SMALL = 2**16  # numbers in the result of an operation on average, beyond which torch's own operations are as quick


class _Sizes(Observer):
    """Counts operations and the numbers that they make."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.numbers = 0

    def saw(self, call: Call) -> None:
        self.operations += 1
        self.numbers += sum(leaf.numel() for leaf in tree_leaves(call.result) if isinstance(leaf, Tensor))


def check_choice(choice: object) -> None:
    """Refuse what does not say whether to compile."""
    if not isinstance(choice, bool) and choice not in get_args(get_args(Choice)[0]):
        raise BadInput(f'compile must be "auto", True or False, got {choice!r}')


def is_worth_compiling(sampler: Sampler, position: Tensor, trajectories: int) -> bool:
    """Whether a run takes less time when its trajectories are compiled.

    Args:
        sampler: Of the run.
        position: Rows [chains, d] to observe a gradient at.
        trajectories: Of warm-up and draws together.
    """
    if not isinstance(sampler, WordSampler) or position.device.type != "cpu":
        return False
    sizes, field = _Sizes(), sampler.field
    tape = field.tape(1, len(position), torch.Generator(position.device).manual_seed(0))
    entry = None if tape is None else tape[0]
    try:
        with as_written():
            field(position, entry)  # what is measured at the first call shall not be observed
            with sizes:
                field(position, entry)
    except Exception:  # whatever stops a gradient here will stop the run too, where it can be reported
        return False
    if sizes.numbers > SMALL * max(1, sizes.operations):
        return False
    return trajectories * GRADIENTS * sizes.operations * SAVED > ONCE + EACH * sizes.operations
