"""What the state of chains must be to go on from: a whole checkpoint can still be that of another run."""

from __future__ import annotations

import torch
from torch import Tensor

from ggmc.errors import BadInput
from ggmc.plain import PlainDict
from ggmc.targets.base import Target
from ggmc.trace.stored_settings import is_count


def check_stored(stored: PlainDict, given: PlainDict, chains: int, target: Target, generator: torch.Generator) -> None:
    """Refuse the state of a run with other settings, and one that is none.

    Args:
        stored: From `Chains.state_dict`.
        given: Settings of this run by name.
        chains: How many chains this process has.
        target: What is sampled.
        generator: Of the chains, whose state is of the right kind.
    """
    for name, value in given.items():
        if isinstance(stored[name], Tensor) or stored[name] != value:
            raise BadInput(f"the stored run has {name} {stored[name]!r}, but this one has {value!r}")
    state, size = stored["state"], target.layout.size
    there = list(state["position"].shape)
    if there != [chains, size]:
        raise BadInput(f"the stored run has [chains, parameters] {there}, but this one has {[chains, size]}")
    rows = [("position", False), ("momentum", False), ("gradient", True)]
    for name, may_be_none in rows:
        _check_tensor(name, state[name], [chains, size], target.dtype, may_be_none)
    for name in ("potential", "untested_work"):
        _check_tensor(name, state[name], [chains], torch.float64, True)
    for name, tensor in state["extra"].items():
        _check_tensor(name, tensor, [chains, *tensor.shape[1:]], tensor.dtype, False)
    _check_tensor("generator", stored["generator"], list(generator.get_state().shape), torch.uint8, False)
    mass = stored["warmup"]["mass"]
    if isinstance(mass, dict):  # of low rank
        _check_tensor("mass", mass.get("diagonal"), [size], torch.float64, False)
    elif mass is not None:
        _check_tensor("mass", mass, [size] * mass.dim(), mass.dtype, False)
    notes, remarks = stored["warmup"]["notes"], stored["warmup"]["remarks"]
    if not all(isinstance(text, str) for text in (*notes, *notes.values(), *remarks)):
        raise BadInput(f"what it says of warm-up is no text, but {notes!r} and {remarks!r}")
    done, whole = stored["warmup"]["iteration"], given["warmup_iterations"]
    counts = {"drawn": stored["drawn"], "iteration": done, "trajectories": state["trajectories"]}
    for name, value in counts.items():
        if not is_count(value):
            raise BadInput(f"its {name} is {value!r}")
    if done > whole or (stored["drawn"] and done < whole):
        raise BadInput(f"it has {stored['drawn']} draws after {done} trajectories of warm-up, of {whole}")


def _check_tensor(name: str, found: object, shape: list[int], dtype: torch.dtype, may_be_none: bool) -> None:
    if found is None and may_be_none:
        return
    if not isinstance(found, Tensor):
        raise BadInput(f"its {name} is {type(found).__name__}, not a tensor")
    if list(found.shape) != shape or found.dtype != dtype:
        raise BadInput(f"its {name} is {found.dtype} {list(found.shape)}, but this run has {dtype} {shape}")
