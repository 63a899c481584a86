"""One file from the network: to a temporary file, with its checksum, and then to its place; or nothing at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO

from ggmc.errors import BadInput
from ggmc.progress import bar

CHUNK = 256 * 1024


def fetch(url: str, file: Path, *, sha256: str, largest: int, timeout: float = 30.0) -> None:
    """Download a file, and keep it only if it is the one that is meant.

    Args:
        url: Where it is.
        file: Where to put it. The folder is made if need be, and removed again if nothing comes of it.
        sha256: The SHA-256 of the content, in hexadecimal digits.
        largest: The most bytes to read.
        timeout: Seconds to wait for the server to answer or to go on.
    """
    made = [folder for folder in file.parents if not folder.exists()]
    temporary: Path | None = None
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:
            file.parent.mkdir(parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".partial", dir=file.parent)
            temporary = Path(name)
            with os.fdopen(number, "wb") as target:
                found = _copy(response, target, largest, url)
        if found != sha256:
            raise BadInput(
                f"what came from {url} has the SHA-256 {found}, not {sha256}: it was changed on the way or at its "
                f"source, and was not kept. {_by_hand(url, file)}"
            )
        temporary.chmod(0o644)
        temporary.replace(file)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError | HTTPException):  # no network, an answer such as 404, a timeout, a full disk
            raise BadInput(
                f"could not download {url} ({error or type(error).__name__}). {_by_hand(url, file)}"
            ) from error
        raise


def _copy(response: HTTPResponse, target: BinaryIO, largest: int, url: str) -> str:
    """Write what a server sends, and give its SHA-256."""
    total = response.length  # None where the server does not say
    if total is not None and total > largest:
        raise BadInput(f"{url} has {total} bytes, and at most {largest} are expected: it is another file")
    digest, count = hashlib.sha256(), 0
    with bar(total=total, unit="B", unit_scale=True, desc="Downloading") as shown:
        while chunk := response.read(CHUNK):
            count += len(chunk)
            if count > largest:
                raise BadInput(f"{url} has more than the {largest} bytes that are expected: it is another file")
            target.write(chunk)
            digest.update(chunk)
            shown.update(len(chunk))
    if total is not None and count < total:
        raise ConnectionError(f"the connection ended after {count} of {total} bytes")
    target.flush()
    os.fsync(target.fileno())
    return digest.hexdigest()


def _by_hand(url: str, file: Path) -> str:
    return f"Try again, or download it in another way and put it at {file}"
