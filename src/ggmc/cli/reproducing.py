"""`ggmc reproduce`: the studies in `experiments/`, each a Jug graph in a folder or a module with a `main`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from ggmc.cli import output, places
from ggmc.cli.study.fields import near
from ggmc.cli.workers import carry_out
from ggmc.errors import BadInput

SIZES = ("tiny", "small", "full")


def names(folder: Path | None = None) -> list[str]:
    """The experiments that there are.

    Args:
        folder: Where they are; by default that of this installation.
    """
    folder = places.root("experiments") / "experiments" if folder is None else folder
    graphs = [path.parent.name for path in folder.glob("*/jugfile.py")]
    modules = [path.stem for path in folder.glob("*.py") if "\ndef main(" in path.read_text(encoding="utf-8")]
    return sorted({*graphs, *modules})


def reproduce(
    name: str, size: str, out: Path | None = None, data: str | None = None, workers: int = 1, folder: Path | None = None
) -> Path:
    """Run an experiment.

    Args:
        name: One of `names`.
        size: One of `SIZES`.
        out: Where runs and figures go; by default out/NAME/SIZE.
        data: Where CIFAR-10 is, for a graph.
        workers: Processes that share the work of a graph.
        folder: Of all experiments; by default that of this installation.

    Returns:
        The folder with the results.
    """
    folder = places.root("experiments") / "experiments" if folder is None else folder
    known = names(folder)
    if name not in known:
        raise BadInput(f"there is no experiment {name!r}{near(name, known) or '. Known are ' + ', '.join(known)}")
    graph = folder / name / "jugfile.py"
    if graph.is_file() and data is not None and not Path(data).expanduser().exists():
        raise BadInput(f"there is no file or folder {data}: give --data cifar-10-python.tar.gz, its folder or an .npz")
    place = (Path("out") / name / size if out is None else out).resolve()
    place.mkdir(parents=True, exist_ok=True)
    if not graph.is_file():
        if data is not None or workers > 1:
            output.tell(f"{name} loads no data and runs in one process: --data and --workers are not used.")
        return _module(folder, name).main(size, place)
    if importlib.util.find_spec("jug") is None:
        raise BadInput(f"the experiment {name} needs Jug: pip install 'ggmc[jug]'")
    variables = {"GGMC_SIZE": size, "GGMC_OUT": str(place)}
    if data is not None:
        variables["GGMC_CIFAR10"] = str(Path(data).expanduser().resolve())
    paths = [folder.parent, places.PACKAGE.parent]
    carry_out(graph, place, workers, variables, paths)
    return place


def results(place: Path) -> list[Path]:
    """Figures and numbers among the files of an experiment.

    Args:
        place: Its folder, or a file.
    """
    if place.is_file():
        return [place]
    kinds = (".pdf", ".png", ".json", ".html", ".csv", ".md")
    return sorted(path for path in place.iterdir() if path.is_file() and path.suffix in kinds)


def _module(folder: Path, name: str) -> Any:
    if str(folder.parent) not in sys.path:
        sys.path.insert(0, str(folder.parent))
    output.tell(f"Running {folder / name}.py")
    return importlib.import_module(f"{folder.name}.{name}")
