"""Members of a .tar.gz, read into memory one after another. Nothing is unpacked to the disk, whatever it holds."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Self

from ggmc.datasets.files import MIB, check_file, damaged
from ggmc.errors import BadInput

LARGEST_ARCHIVE = 256 * MIB
LARGEST_UNPACKED = 512 * MIB
LARGEST_HEADER = 4096
MOST_MEMBERS = 100
PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
HEADERS = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip


class _Member(tarfile.TarInfo):
    """A member whose header is checked before tarfile interprets it: long extended headers take quadratic time."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type in HEADERS:
            if not 0 <= member.size <= LARGEST_HEADER:
                raise BadInput(f"a header has {member.size} bytes")
        elif member.type not in (*PLAIN, tarfile.DIRTYPE):
            raise BadInput(f"{member.name[:100]!r} is a link, a device or a sparse file")
        elif member.size < 0:
            raise BadInput(f"{member.name[:100]!r} has the size {member.size}")
        return member


class _Limited:
    """A file of which only so many bytes can be read, since a small archive can unpack to any size."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self.file = file
        self.left = LARGEST_UNPACKED

    def read(self, size: int) -> bytes:
        content = self.file.read(size)
        self.left -= len(content)
        if self.left < 0:
            raise BadInput(f"it unpacks to more than {LARGEST_UNPACKED} bytes")
        return content


def read_members(path: Path, folder: str, names: tuple[str, ...], largest: int) -> Iterator[tuple[str, bytes]]:
    """The name and content of each wanted file, in the order of the archive. Other plain files are passed over.

    Args:
        path: The archive, a .tar.gz.
        folder: The folder in the archive.
        names: The wanted files in that folder; each must be there once.
        largest: The most bytes that one of them may have.
    """
    check_file(path, LARGEST_ARCHIVE)
    wanted = {f"{folder}/{name}": name for name in names}
    try:
        with gzip.open(path) as unpacked:
            stream = _Limited(unpacked)
            # As a stream, archives whose members point backwards cannot be followed in circles.
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:  # pyright: ignore
                for count, member in enumerate(archive, start=1):
                    name = wanted.pop(_checked_name(member, count), None)
                    if name is None:
                        continue
                    if not 0 < member.size <= largest or member.type not in PLAIN or member.sparse is not None:
                        raise BadInput(f"{member.name!r} is no file of 1 to {largest} bytes")
                    file = archive.extractfile(member)
                    yield name, file.read() if file else b""
            while stream.read(MIB):  # the checksum stands at the end
                pass
    except BadInput as error:
        raise BadInput(f"{path} is not the archive that is published: {error}. Download it again") from error
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise damaged(path, error) from error
    if wanted:
        raise BadInput(f"{path} lacks {', '.join(sorted(wanted))}: download it again")


def _checked_name(member: tarfile.TarInfo, count: int) -> str:
    """The name of a member of an archive that tries nothing."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or "\\" in member.name:
        raise BadInput(f"the name {member.name[:100]!r} leads out of the folder")
    if count > MOST_MEMBERS:
        raise BadInput(f"it has more than {MOST_MEMBERS} files")
    return str(name)
