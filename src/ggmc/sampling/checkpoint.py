"""Checkpoints: everything a run needs to go on, in one file, of which the last two are kept.

A file holds the tensors (safetensors) and, as its metadata, the numbers and names around them (JSON) and a checksum.
Nothing in it is executed when it is read. It is written in one step, so a crash leaves the one before.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from ggmc.errors import BadInput
from ggmc.plain import PlainDict
from ggmc.trace.atomic_files import write_atomically
from ggmc.trace.stored_settings import is_count
from ggmc.trace.zarr_store import ZarrStore

KEPT = 2
FOLDER, SUFFIX = "checkpoints", ".safetensors"
FORMAT = "1"
NAME = re.compile(rf"[0-9]{{10,18}}\{SUFFIX}")


class Checkpoint(NamedTuple):
    """One that was read."""

    state: PlainDict
    remarks: list[str]
    """What a reader of the draws should know: that a newer one could not be read."""


class Checkpoints:
    """The checkpoints of a run.

    Args:
        run: The run's folder.
        every: Seconds between two of them; 0 for one after every trajectory.

    Example:
        >>> import tempfile, torch
        >>> from pathlib import Path
        >>> from ggmc.sampling.checkpoint import Checkpoints
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     checkpoints = Checkpoints(Path(folder), every=0)
        ...     for number in range(3):
        ...         checkpoints.write({"number": number, "position": torch.full((2,), float(number))})
        ...     print(len(checkpoints.files()), checkpoints.newest()[0].state)
        2 {'number': 2, 'position': tensor([2., 2.])}
    """

    def __init__(self, run: Path, every: float):
        self._folder, self._every = run / FOLDER, every
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() - self._last >= self._every

    def write(self, state: PlainDict) -> None:
        """Write one, and remove the oldest.

        Args:
            state: Dicts and lists of tensors, numbers, text and None.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        before = self.files()
        number = int(before[-1].stem) + 1 if before else 0
        write_atomically(self._folder / f"{number:010d}{SUFFIX}", to_bytes(state))
        for old in before[: max(0, len(before) + 1 - KEPT)]:
            if not old.is_dir():
                old.unlink(missing_ok=True)
        self._last = time.monotonic()

    def newest(self) -> list[Checkpoint]:
        """Those that can be read, the newest first, each with what has to be said about those that cannot."""
        found: list[Checkpoint] = []
        remarks: list[str] = []
        for file in reversed(self.files()):
            try:
                found.append(Checkpoint(from_file(file), list(remarks)))
            except (BadInput, OSError) as error:
                remarks.append(
                    f"The checkpoint {file.name} could not be read ({error}): the run went on from the one before."
                )
        return found

    def files(self) -> list[Path]:
        """From the oldest to the newest."""
        return sorted(filter(is_checkpoint, self._folder.glob(f"*{SUFFIX}")), key=lambda file: int(file.stem))


def usable(found: list[Checkpoint], stored: ZarrStore) -> Checkpoint:
    """The newest checkpoint whose draws are all there.

    Args:
        found: From `newest`.
        stored: The draws.
    """
    path, thin = stored.path, int(stored.settings["thin"])
    for number, one in enumerate(found):
        if not is_count(one.state.get("drawn")):
            raise BadInput(f"a checkpoint of {path} is not one of such a run: it does not say after how many draws")
        if one.state["drawn"] // thin <= stored.num_draws:
            if number:
                one.remarks.extend(stored.remarks)
            return one
    if found:
        raise BadInput(
            f"{path} has {stored.num_draws} whole draws, and no checkpoint from before them: it cannot be continued. "
            "ggmc.load reads these draws"
        )
    raise BadInput(f"{path} has no checkpoint that can be read, so it cannot be continued: ggmc.load reads its draws")


def is_checkpoint(file: Path) -> bool:
    """Whether a file has the name of one."""
    return NAME.fullmatch(file.name) is not None


def to_bytes(state: PlainDict) -> bytes:
    """A nested state as the content of a file.

    Args:
        state: Dicts and lists of tensors, numbers, text and None.

    Example:
        >>> import torch
        >>> from ggmc.sampling.checkpoint import from_bytes, to_bytes
        >>> from_bytes(to_bytes({"a": [torch.ones(2), None, 0.5]}))
        {'a': [tensor([1., 1.]), None, 0.5]}
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_without_tensors(state, tensors))
    return save(tensors, {"ggmc": FORMAT, "state": text, "sha256": _digest(text, tensors)})


def from_bytes(content: bytes) -> PlainDict:
    """The state that `to_bytes` wrote; refuses what is cut short, changed or of another kind.

    Args:
        content: The bytes of a file.
    """
    with _refusing_what_is_not_whole():
        length = int.from_bytes(content[:8], "little")
        return _checked(json.loads(content[8 : 8 + length])["__metadata__"], load(content))


def from_file(file: Path) -> PlainDict:
    """The same from a file, which is not read into memory before it is known to be whole.

    Args:
        file: The file.
    """
    with _refusing_what_is_not_whole(), safe_open(file, framework="pt") as stored:
        mapped = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (it is no dict)
        return _checked(stored.metadata(), mapped)


@contextmanager
def _refusing_what_is_not_whole() -> Iterator[None]:
    try:
        yield
    except BadInput:
        raise
    except (SafetensorError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, MemoryError) as error:
        raise BadInput(f"it is not a whole checkpoint: {str(error)[:200]}") from error


def _checked(metadata: dict[str, str], tensors: dict[str, Tensor]) -> PlainDict:
    if metadata["ggmc"] != FORMAT or metadata["sha256"] != _digest(metadata["state"], tensors):
        raise BadInput("its checksum does not agree with its content")
    state = _with_tensors(json.loads(metadata["state"]), {name: tensor.clone() for name, tensor in tensors.items()})
    if not isinstance(state, dict):
        raise BadInput("it holds no state")
    return state


def _without_tensors(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, _without_tensors(item, tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_without_tensors(item, tensors) for item in value]
    return value


def _with_tensors(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_with_tensors(item, tensors) for item in value]
    if isinstance(value, dict):
        if "tensor" in value:
            return tensors[value["tensor"]]
        return {key: _with_tensors(item, tensors) for key, item in value["dict"]}
    return value


def _digest(text: str, tensors: dict[str, Tensor]) -> str:
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        found.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return found.hexdigest()
