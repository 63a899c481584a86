"""Small copies of the files of CIFAR-10, as Python 2 wrote them; and the folder of real data."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

from ggmc.datasets.cifar import BATCHES, FOLDER, TEST

REAL = Path(os.environ.get("GGMC_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def real(name: str) -> Path:
    """A file or folder of real data; where it is absent, the test is skipped."""
    if not (REAL / name).exists():
        pytest.skip(f"needs {name} of the real data: see GGMC_DATA")
    return REAL / name


def images(number: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(number, 3, 32, 32), dtype=np.uint8)


def batch(x: np.ndarray, labels: list[int]) -> bytes:
    """The bytes that Python 2 with protocol 2 writes for a batch, instruction by instruction."""
    content = x.tobytes()
    parts = [
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05(",
        *(b"K" + bytes([label]) for label in labels),
        b"eU\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\t(K\x01",
        b"M" + struct.pack("<H", len(x)) + b"M\x00\x0c\x86",
        b"cnumpy\ndtype\nq\nU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89",
        b"T" + struct.pack("<i", len(content)) + content,
        b"tbU\tfilenamesq\x0c]q\r(",
        *(b"U\x07%05d.p" % number + b"r" + struct.pack("<i", 14 + number) for number in range(len(labels))),
        b"eu.",
    ]
    return b"".join(parts)


def batches(each: int = 10) -> dict[str, bytes]:
    """The six files, with a few images each."""
    names = (*BATCHES, TEST)
    return {name: batch(images(each, seed), [i % 10 for i in range(each)]) for seed, name in enumerate(names)}


def plain(name: str, content: bytes, **header: object) -> tuple[tarfile.TarInfo, bytes]:
    """A member of an archive, with anything in its header."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for key, value in header.items():
        setattr(member, key, value)
    return member, content


def members(files: dict[str, bytes]) -> list[tuple[tarfile.TarInfo, bytes]]:
    folder = plain(f"{FOLDER}/", b"", type=tarfile.DIRTYPE)
    return [folder, *(plain(f"{FOLDER}/{name}", content) for name, content in files.items())]


def packed(contents: list[tuple[tarfile.TarInfo, bytes]], pax: bool = False) -> bytes:
    """An archive, whose headers may tell anything."""
    blocks: list[bytes] = []
    for member, content in contents:
        blocks += [member.tobuf(tarfile.PAX_FORMAT if pax else tarfile.GNU_FORMAT), content, bytes(-len(content) % 512)]
    return gzip.compress(b"".join([*blocks, bytes(1024)]), 1)


def archive(path: Path, each: int = 10) -> Path:
    """cifar-10-python.tar.gz, with a page of text in it as in the real one, packed by tarfile itself."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for member, content in [*members(batches(each)), plain(f"{FOLDER}/readme.html", b"<p>")]:
            tar.addfile(member, io.BytesIO(content))
    path.write_bytes(buffer.getvalue())
    return path
