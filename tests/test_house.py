"""The house itself: imports go down only, files are short, interfaces are asked and not probed, names documented."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import ggmc
from ggmc import guides, kernels, targets, trace

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ggmc"
FILES = sorted(SOURCE.rglob("*.py"))

ORDER = [
    "errors", "plain", "progress", "datasets", "programs", "targets", "guides", "bayes", "dynamics", "kernels",
    "warmup", "trace", "sampling", "optim", "report", "cli",
]  # fmt: skip
"""From the bottom up. Bayes extends targets; optim uses dynamics; cli uses all."""


def room(module: str) -> str:
    return module.split(".")[1] if module.count(".") else module


def imports(path: Path) -> Iterator[str]:
    """What a file imports of this library, also inside functions and for type checkers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "ggmc")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ggmc":
            if node.module == "ggmc":
                yield from (f"ggmc.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_every_room_has_its_place() -> None:
    rooms = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES} - {"__init__"}
    assert rooms == set(ORDER)


@pytest.mark.parametrize("path", [p for p in FILES if p.parent != SOURCE], ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    own = ORDER.index(path.relative_to(SOURCE).parts[0])
    for module in imports(path):
        assert module != "ggmc", "import the room, not the whole house"
        assert ORDER.index(room(module)) <= own, f"{module} lies above"


def test_no_circle_inside_a_room() -> None:
    """Modules of one room can be sorted so that each imports only those before it."""
    graph: dict[str, set[str]] = {}
    for path in FILES:
        name = ".".join(("ggmc", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        top_level = (n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ImportFrom))
        graph[name] = {n.module for n in top_level if n.module and n.module.startswith("ggmc.")} - {name}
    packages = {name for name in graph if any(other.startswith(name + ".") for other in graph)}
    done: set[str] = set(packages)  # a package is the list of its modules' names
    while len(done) < len(graph):
        ready = {name for name, needed in graph.items() if name not in done and needed <= done | {name}}
        assert ready, f"a circle among {sorted(set(graph) - done)}"
        done |= ready


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


def calls(name: str) -> list[str]:
    found: list[str] = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno} {ast.unparse(node)}")
    return found


USERS_OWN = ("layer", "transform", "data", "given", "draw_one", "log_likelihood")
"""Names under which the user's own objects are asked what they are."""


def test_interfaces_are_asked_not_probed() -> None:
    probes = [call for name in ("getattr", "hasattr") for call in calls(name)]
    of_the_library = [call for call in probes if not any(f"({own}," in call for own in USERS_OWN)]
    assert of_the_library == []


def test_frozen_means_frozen() -> None:
    assert not [path for path in FILES if "object.__setattr__" in path.read_text()]


def test_tests_do_not_import_tests() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests."):
                assert node.module.startswith("tests.support"), f"{path}: {node.module}"


def public() -> Iterator[tuple[str, object]]:
    """Everything a user meets: the names of `ggmc`, of its public modules, and of the rooms that can be extended."""
    named = [ggmc.datasets, ggmc.likelihoods, ggmc.priors, ggmc.nets, ggmc.metrics, ggmc.optim, ggmc.report]
    rooms = [ggmc, *named, guides, kernels, targets, trace]
    for module in rooms:
        for name in module.__all__:
            thing = vars(module)[name]
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", thing
    for name, thing in vars(ggmc.schedule).items():
        if dataclasses.is_dataclass(thing) and inspect.isclass(thing):
            yield f"ggmc.schedule.{name}", thing


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name: str) -> None:
    thing = PUBLIC[name]
    documentation = inspect.getdoc(thing) or ""
    assert documentation
    arguments = [
        parameter
        for parameter in inspect.signature(thing).parameters.values()  # pyright: ignore[reportArgumentType]
        if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]
    fields = inspect.isclass(thing) and issubclass(thing, tuple)  # a result, whose fields say what they are
    if arguments and not fields and not inspect.isabstract(thing):
        assert "Args:" in documentation
        for parameter in arguments:
            assert f"{parameter.name}:" in documentation, parameter.name
    if not fields and not inspect.isabstract(thing) and thing.__module__.startswith("ggmc"):  # pyright: ignore
        assert ">>>" in documentation
