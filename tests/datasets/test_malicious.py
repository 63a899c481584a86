"""Files made to do harm: refused with BadInput; nothing is executed, and nothing is written."""

from __future__ import annotations

import gzip
import os
import pickle
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggmc import datasets
from ggmc.datasets import archive as archives
from ggmc.datasets import files
from ggmc.datasets.cifar import ARCHIVE, FOLDER
from ggmc.datasets.pickles import read_batch
from ggmc.errors import BadInput
from tests.support.cifar_files import batch, batches, images, members, packed, plain

Contents = list[tuple[tarfile.TarInfo, bytes]]
VICTIM = f"{FOLDER}/data_batch_1"


def tree(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def refused(folder: Path, content: bytes, words: str) -> None:
    """An archive with this content raises BadInput and leaves the disk as it was."""
    inner = folder / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / ARCHIVE).write_bytes(content)
    before = tree(folder)
    with pytest.raises(BadInput, match=words):
        datasets.cifar10(inner)
    assert tree(folder) == before


def without_victim() -> Contents:
    return [each for each in members(batches()) if each[0].name != VICTIM]


ADDED: dict[str, tuple[Contents, str]] = {
    "a path out of the folder": ([plain("../../evil", b"x")], "leads out of the folder"),
    "such a path inside": ([plain(f"{FOLDER}/../../evil", b"x")], "leads out of the folder"),
    "a path for windows": ([plain("..\\evil", b"x")], "leads out of the folder"),
    "an absolute path": ([plain("/tmp/ggmc-evil", b"x")], "leads out of the folder"),
    "a symbolic link": ([plain("a", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "is a link"),
    "a hard link": ([plain("a", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd")], "is a link"),
    "a device": ([plain("a", b"", type=tarfile.CHRTYPE)], "is a link, a device"),
    "a pipe": ([plain("a", b"", type=tarfile.FIFOTYPE)], "is a link, a device"),
    "an unknown kind": ([plain("a", b"", type=b"Z")], "is a link, a device"),
    "a sparse file": ([plain("a", b"", type=tarfile.GNUTYPE_SPARSE)], "sparse"),
    "a header without end": ([plain("a", b"1" * 5000, type=tarfile.XHDTYPE)], "a header has 5000 bytes"),
    "a name without end": ([plain("a", b"1" * 5000, type=tarfile.GNUTYPE_LONGNAME)], "a header has 5000 bytes"),
    "a header of negative size": ([plain("a", b"", type=tarfile.XHDTYPE, size=-512)], "a header has -512 bytes"),
    "a file of negative size": ([plain("a", b"", size=-1024)], "has the size -1024"),
    "many files": ([plain(f"{number}", b"") for number in range(200)], "more than 100 files"),
    "a batch of absurd size": ([plain(VICTIM, b"", size=8 * 2**30)], "no file of 1 to"),
    "an empty batch": ([plain(VICTIM, b"")], "no file of 1 to"),
    "a batch that is a folder": ([plain(VICTIM, b"", type=tarfile.DIRTYPE)], "no file of 1 to"),
    "a batch that is a link": ([plain(VICTIM, b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "is a link"),
    "no such batch": ([], "lacks cifar-10-batches-py/data_batch_1: download it again"),
}


@pytest.mark.parametrize("name", ADDED)
def test_archives(tmp_path: Path, name: str) -> None:
    added, words = ADDED[name]
    refused(tmp_path, packed([*added, *without_victim()]), words)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("size", str(8 * 2**30), "no file of 1 to"),
        ("size", "-1024", "archive that is published|damaged"),
        ("path", "../../evil", "leads out of the folder"),
        ("path", "/tmp/ggmc-evil", "leads out of the folder"),
        ("GNU.sparse.size", "99999999999", "no file of 1 to"),
    ],
)
def test_extended_headers(tmp_path: Path, field: str, value: str, words: str) -> None:
    member, content = plain(VICTIM, batches()["data_batch_1"])
    member.pax_headers = {field: value, **({"GNU.sparse.map": "0,1"} if "sparse" in field else {})}
    refused(tmp_path, packed([(member, content), *without_victim()], pax=True), words)


def test_other_plain_files_are_passed_over(tmp_path: Path) -> None:
    others = [
        plain(f"{FOLDER}/readme.html", b"<p>"),
        plain("._a", b"x"),
        plain(f"{FOLDER}/batches.meta", b"cos\nsystem\n."),
    ]
    (tmp_path / ARCHIVE).write_bytes(packed([*others, *members(batches())]))
    before = tree(tmp_path)
    assert len(datasets.cifar10(tmp_path).x) == 50
    assert tree(tmp_path) == before


def test_a_batch_that_occurs_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes(packed([*members(batches()), plain(VICTIM, b"cos\nsystem\n.")]))
    assert len(datasets.cifar10(tmp_path).x) == 50


def test_a_gzip_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_UNPACKED", 4 * 2**20)
    refused(tmp_path, packed([plain("zeros", bytes(64 * 2**20)), *without_victim()]), "unpacks to more than 4194304")


def test_a_gzip_bomb_after_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_UNPACKED", 4 * 2**20)
    refused(tmp_path, packed(members(batches())) + gzip.compress(bytes(64 * 2**20), 1), "unpacks to more than 4194304")


def test_an_archive_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_ARCHIVE", 1000)
    refused(tmp_path, packed(members(batches())), "at most 1000 are expected")


def test_damaged_archives(tmp_path: Path) -> None:
    whole = packed(members(batches()))
    wrong_sum = whole[:-8] + bytes(4) + whole[-4:]
    cut = [whole[: len(whole) * part // 8] for part in range(8)]
    for number, content in enumerate(
        [*cut, whole[:-1], whole[:-8], wrong_sum, b"no archive", gzip.compress(b"no tar")]
    ):
        refused(tmp_path / str(number), content, "damaged|lacks")


# Pickles. Each would touch a file if it were executed.

ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n"
COMMAND = b"S'touch executed'\n"


def doubled(levels: int, between: bytes = b"") -> bytes:
    """A dict whose key is a tuple of a tuple of a tuple, each twice the one before."""
    steps = (b"q%ch%ch%c\x86" % (level, level, level) + between for level in range(levels))
    return b"\x80\x02}(K\x01\x85" + between + b"".join(steps) + b"K\x01u."


HARMFUL: dict[str, tuple[bytes, str]] = {
    "os.system": (b"cos\nsystem\n(" + COMMAND + b"tR.", "asks for 'os', 'system'"),
    "posix.system": (b"cposix\nsystem\n(" + COMMAND + b"tR.", "asks for 'posix'"),
    "eval": (b"cbuiltins\neval\n(S'open(\"executed\", \"w\")'\ntR.", "asks for 'builtins', 'eval'"),
    "eval of python 2": (b"c__builtin__\neval\n(S'open(\"executed\", \"w\")'\ntR.", "asks for '__builtin__', 'eval'"),
    "getattr": (b"cbuiltins\ngetattr\n(cnumpy\nndarray\nS'dump'\ntR.", "asks for 'builtins', 'getattr'"),
    "a name in an array's type": (ARRAY + b"(cos\nsystem\n(" + COMMAND + b"tRK\x00\x85U\x01btR.", "asks for 'os'"),
    "a name in an array's state": (ARRAY + b"(tR(cos\nsystem\n(" + COMMAND + b"tRtb.", "asks for 'os'"),
    "numpy's own": (b"cnumpy.testing\nrunstring\n(S'open(\"executed\", \"w\")'\n}tR.", "asks for 'numpy.testing'"),
    "numpy.load": (b"cnumpy\nload\n(S'executed'\ntR.", "asks for 'numpy', 'load'"),
    "a name with dots": (b"\x80\x04\x8c\x05numpy\x8c\x0ef2py.os.system\x93(" + COMMAND + b"tR.", "'f2py.os.system'"),
    "numpy.ndarray called": (b"cnumpy\nndarray\n(I99999999999\ntR.", "calls numpy.ndarray"),
    "an array of objects": (ARRAY + b"(tR(K\x01K\x01\x85cnumpy\ndtype\n(S'O8'\nK\x00K\x01tR\x89]tb.", "not one of b"),
    "encoding that runs code": (b"c_codecs\nencode\n(Va\nVzlib\ntR.", "encodes text in an unusual way"),
    "a function that is changed": (ARRAY + b"}S'called'\ncnumpy\ndtype\nsb.", "changes a function"),
    "INST": (b"(" + COMMAND + b"ios\nsystem\n.", "instruction INST"),
    "OBJ": (b"(cos\nsystem\n" + COMMAND + b"o.", "instruction OBJ"),
    "NEWOBJ": (b"\x80\x02cos\nsystem\n(" + COMMAND + b"t\x81.", "instruction NEWOBJ"),
    "EXT1": (b"\x80\x02\x82\x01.", "instruction EXT1"),
    "an object elsewhere": (b"Pexecuted\n.", "instruction PERSID"),
    "memory for objects": (b"\x80\x02}r\xff\xff\xff\x7f.", "numbers an object 2147483647"),
    "memory for bytes": (b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".", "damaged"),
    "bytes that are not there": (b"\x80\x03B\xff\xff\xff\xff.", "damaged"),
    "a key that doubles": (doubled(60), "refers to one list, dict or tuple twice"),
    "a key that doubles in disguise": (doubled(60, b"Nb"), "refers to one list, dict or tuple twice"),
    "a key under another number": (b"\x80\x04}(U\x01aq\x01q\x01K\x01\x85\x94h\x01.", "dict or tuple twice"),
    "a key that is deep": (b"\x80\x02}()" + b"\x85" * 400_000 + b"K\x01u.", "more than 100 tuples"),
    "no end": (b"\x80\x02" + b"N" * 600_000 + b".", "more than 500000 instructions"),
    "a number without end": (b"L" + b"9" * 100_000 + b"L\n.", "damaged"),
    "calls of numbers": (b"K\x01)R.", "damaged"),
    "nothing on the stack": (b"\x80\x02.", "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", HARMFUL)
def test_pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    content, words = HARMFUL[name]
    monkeypatch.chdir(tmp_path)
    refused(tmp_path, packed([plain(VICTIM, content), *without_victim()]), words)
    assert not Path("executed").exists()


@pytest.mark.parametrize("name", ["os.system", "eval", "a name in an array's type"])
def test_these_pickles_do_harm_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda command: Path("executed").touch())
    monkeypatch.setattr("builtins.open", lambda *_: Path("executed").touch())
    try:
        pickle.loads(HARMFUL[name][0], encoding="bytes")
    except TypeError:
        assert name == "a name in an array's type"
    assert Path("executed").exists()


def test_pickles_in_an_unpacked_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in {**batches(), "data_batch_4": HARMFUL["os.system"][0]}.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=r"data_batch_4.*asks for 'os'"):
        datasets.cifar10(tmp_path)
    assert not Path("executed").exists()


def test_functions_are_not_changed_for_the_next_file() -> None:
    good = batch(images(1), [3])
    for content in (HARMFUL["a function that is changed"][0], ARRAY + b"(N}S'called'\nNstb."):
        with pytest.raises(BadInput):
            read_batch(content, "a batch")
        assert read_batch(good, "a batch")[1].tolist() == [3]


def test_truncated_pickles() -> None:
    whole = batch(images(2), [3, 4])
    for length in [*range(300), *range(len(whole) - 120, len(whole))]:
        with pytest.raises(BadInput, match="damaged"):
            read_batch(whole[:length], "a batch")


def test_pickles_with_random_damage() -> None:
    """Whatever byte is changed, the batch is read or refused."""
    chance = random.Random(0)
    whole = batch(images(1), [3])
    for _ in range(2000):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            place = chance.choice([chance.randrange(210), chance.randrange(len(content) - 60, len(content))])
            content[place] = chance.randrange(256)
        try:
            x, y = read_batch(bytes(content), "a batch")
        except BadInput:
            continue
        assert x.shape == (len(y), 3, 32, 32)


# Files of numpy


def npy(header: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + content


NPY: dict[str, tuple[bytes, str]] = {
    "a pickle": (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", HARMFUL["os.system"][0]), "of numbers"),
    "named fields": (npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", bytes(4)), "of numbers"),
    "absurd size": (npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({2**50},)}}", bytes(9)), "9 bytes for"),
    "negative size": (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (-2, -2)}", bytes(4)), "4 bytes for"),
    "too few bytes": (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (10,)}", bytes(9)), "9 bytes for"),
    "code in the header": (npy("__import__('os').system('touch executed')"), "damaged"),
    "a header that is deep": (npy("(" * 5000), "damaged"),
    "another version": (npy("{}", version=b"\x03\x00"), "version"),
    "text": (b"no array", "damaged"),
    "nothing": (b"", "damaged"),
}


@pytest.mark.parametrize("name", NPY)
@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")
def test_arrays_in_npz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    content, words = NPY[name]
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("a.npz", "w") as archive:
        for each in ("x_train", "y_train", "x_test", "y_test"):
            archive.writestr(f"{each}.npy", content)
    with pytest.raises(BadInput, match=words):
        datasets.cifar10("a.npz")
    assert tree(tmp_path) == [str(tmp_path / "a.npz")]


def savez(path: Path, save: Callable[..., None] = np.savez_compressed) -> Path:
    x, y = np.zeros((40, 3, 32, 32), np.uint8), np.arange(40) % 10
    save(path, x_train=x, y_train=y, x_test=x, y_test=y)
    return path


def test_a_zip_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_ARRAY", 100_000)
    with pytest.raises(BadInput, match=r"x_train in .* has 123008 bytes, and at most 100000"):
        datasets.cifar10(savez(tmp_path / "a.npz"))


def test_damaged_npz(tmp_path: Path) -> None:
    whole = savez(tmp_path / "a.npz", np.savez).read_bytes()
    flipped = bytearray(whole)
    flipped[5000] ^= 1
    for content in (*(whole[: len(whole) * part // 5] for part in range(5)), whole[:-1], bytes(flipped)):
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(BadInput, match="damaged"):
            datasets.cifar10(tmp_path / "a.npz")


def test_encrypted_and_unusual_npz(tmp_path: Path) -> None:
    content = bytearray(savez(tmp_path / "a.npz", np.savez).read_bytes())
    entry = content.index(b"PK\x01\x02")
    content[entry + 8] |= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(BadInput, match="encrypted"):
        datasets.cifar10(tmp_path / "a.npz")


@pytest.mark.parametrize("read", [datasets.cifar10, datasets.mnist, lambda path: datasets.uci("pipe", path)])
def test_a_pipe_is_not_waited_for(tmp_path: Path, read: Callable[[Any], Any]) -> None:
    for name in ("pipe.npz", "data_batch_1", ARCHIVE, "train-images-idx3-ubyte"):
        os.mkfifo(tmp_path / name)
    for path in (tmp_path, tmp_path / "pipe.npz"):
        with pytest.raises(BadInput):
            read(path)
