"""Study files: read, and checked in full before anything is computed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ggmc.cli.study.fields import PYTHON, Problem, shown
from ggmc.cli.study.lines import Keys, line_numbers, line_of
from ggmc.cli.study.together import problems_of, python_functions
from ggmc.errors import BadInput, NotExact
from ggmc.plain import PlainDict, PlainMapping

LARGEST = 2**20  # bytes of a study file


@dataclass(frozen=True)
class Study:
    """What is sampled, how, and for how long.

    Args:
        tables: The tables of the file, without problems.
        folder: Where its relative paths begin.
        name: What messages call it.
        lines: Where its keys stand; empty where it does not come from a file.
    """

    tables: PlainMapping
    folder: Path
    name: str
    lines: dict[Keys, int] = field(default_factory=dict, repr=False)

    def table(self, name: str) -> PlainDict:
        """A table; empty where the file has none."""
        return dict(self.tables.get(name, {}))

    def with_run(self, **settings: Any) -> Study:
        """The same study with other settings of [run]; None leaves one as it is."""
        given = {name: value for name, value in settings.items() if value is not None}
        return Study({**self.tables, "run": self.table("run") | given}, self.folder, self.name, self.lines)

    def python_functions(self) -> list[str]:
        """The functions of the user's own that it names, each with the whole path of its file."""
        named = (PYTHON.fullmatch(value) for _, value in python_functions(self.tables))
        return [f"{self.path_of(match[1])}:{match[2]}" for match in named if match]

    def path_of(self, given: str) -> Path:
        """A file that the study names: `~` is the home folder, and relative paths begin at the study file."""
        return (self.folder / Path(given).expanduser()).resolve()

    def where(self, *keys: str) -> str:
        """A place in the file, for messages."""
        return place(self.name, self.lines, keys)

    def to_dict(self) -> PlainDict:
        """As plain values, to be stored with a run."""
        return {"tables": dict(self.tables), "folder": str(self.folder), "name": self.name}

    @contextmanager
    def about(self, *keys: str) -> Iterator[None]:
        """Within this block, errors of the library say which part of the file they are about."""
        try:
            yield
        except NotExact:
            raise
        except BadInput as error:
            raise BadInput(f"{self.where(*keys)}: {error}") from error


def read(file: Path) -> Study:
    """The study in a file.

    Args:
        file: In TOML.

    Raises:
        BadInput: With all problems of the file at once, each with its line.
    """
    if file.is_dir():
        raise BadInput(f"{file} is a folder: give a study file, such as study.toml")
    if not file.is_file():
        raise BadInput(f"there is no file {file}{_others(file)}")
    if file.stat().st_size > LARGEST:
        raise BadInput(f"{file} has {file.stat().st_size} bytes, too many for a study file: give one in TOML")
    try:
        text = file.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not text in UTF-8 (byte {error.start}): give a study file in TOML") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        last = f"line {len(text.splitlines())}, the end of the document"
        raise BadInput(f"{file} is not valid TOML: {str(error).replace('end of document', last)}") from error
    lines = line_numbers(text)
    found = problems_of(tables)
    if found:
        raise BadInput(described(str(file), lines, tables, found))
    return Study(tables, file.resolve().parent, str(file), lines)


def stored(plain: Any, run: Path) -> Study:
    """The study that a run keeps, checked like a file: the run's folder may come from anywhere.

    Args:
        plain: From `Study.to_dict`, by way of JSON.
        run: The run's folder, for messages.
    """
    name = f"the study stored in {run}"
    try:
        tables, folder = dict(plain["tables"]), Path(plain["folder"])
    except (KeyError, TypeError) as error:
        raise BadInput(f"{name} is damaged: {error!r}") from error
    found = problems_of(tables)
    if found:
        raise BadInput(described(name, {}, tables, found))
    tables["data"] = {
        key: value for key, value in tables["data"].items() if key != "download"
    }  # nor is anything written
    return Study(tables, folder, name)


def described(name: str, lines: dict[Keys, int], tables: PlainMapping, problems: list[Problem]) -> str:
    """All problems of a file, one to a line, in the file's own order.

    Args:
        name: Of the file.
        lines: Where keys stand.
        tables: The file's tables.
        problems: What is wrong.
    """
    ordered = sorted(problems, key=lambda problem: line_of(lines, problem.keys) or 0)
    number = "1 problem" if len(ordered) == 1 else f"{len(ordered)} problems"
    rows = [f"  {place('', lines, problem.keys, tables)}: {problem.message}" for problem in ordered]
    return "\n".join([f"{name} has {number}:", *rows])


def place(name: str, lines: dict[Keys, int], keys: Keys, tables: PlainMapping | None = None) -> str:
    """A place in a file: its line, the table and the key.

    Args:
        name: Of the file; empty to leave it out.
        lines: Where keys stand.
        keys: Of the place.
        tables: Where given, a key that is no table itself is told from a table by them.
    """
    value: Any = tables
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    inside = keys if isinstance(value, Mapping) or len(keys) == 1 else keys[:-1]
    heading = "[" + ".".join(key if key.replace("_", "").isalnum() else shown(key) for key in inside) + "]"
    where = f"{heading} {keys[-1]}" if len(keys) > len(inside) else heading
    if len(keys) == 1 and tables is not None and keys[0] in tables and not isinstance(value, Mapping):
        where = keys[0]
    line = line_of(lines, keys)
    parts = [name, "" if line is None else f"line {line}", where]
    return ", ".join(part for part in parts if part)


def _others(file: Path) -> str:
    """What else there is, where a file is not."""
    if not file.parent.is_dir():
        return f": there is no folder {file.parent} either"
    there = sorted(other.name for other in file.parent.glob("*.toml"))[:8]
    return f". {file.parent.resolve()} has {', '.join(there)}" if there else ": give the path of a study file"
