"""`ggmc report`: one page about one run or several."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from ggmc import report
from ggmc.cli import output
from ggmc.cli.build import Built, build
from ggmc.cli.running import STUDY, require_trust, study_of
from ggmc.cli.study.fields import as_toml
from ggmc.errors import GGMCError
from ggmc.plain import PlainDict
from ggmc.trace.run_folder import read_root
from ggmc.trace.save_load import load


def write(runs: list[Path], out: Path, title: str | None, trusted: bool) -> Path:
    """The report.

    Args:
        runs: Folders.
        out: The file.
        title: Its heading.
        trusted: Whether Python code that a study names may be executed.

    Returns:
        The file.
    """
    settings = [read_root(run).settings for run in runs]
    built = _built(runs, settings, trusted)
    x_test, y_test = _test_data(settings, built)
    traces = {
        name: load(run, None if made is None else made.target)
        for (name, run), made in zip(_named(runs).items(), built, strict=True)
    }
    commands = {name: _commands(run, each) for (name, run), each in zip(_named(runs).items(), settings, strict=True)}
    return report.write(traces, out, x_test=x_test, y_test=y_test, title=title, command=commands)


def _named(runs: list[Path]) -> dict[str, Path]:
    """Runs by the names of their folders or, where two have the same, by their paths."""
    names = [run.resolve().name for run in runs]
    return {str(run) if names.count(name) > 1 else name: run for run, name in zip(runs, names, strict=True)}


def _built(runs: list[Path], settings: list[PlainDict], trusted: bool) -> list[Built | None]:
    """The target and test data of each run whose study is stored with it. Equal ones are made once."""
    made: dict[str, Built | None] = {}
    found: list[Built | None] = []
    for run, each in zip(runs, settings, strict=True):
        if each["attributes"].get(STUDY) is None:
            output.tell(f"{run} was not made by `ggmc run`: the report has no predictions of it.")
            found.append(None)
            continue
        try:
            study = study_of(run, each)
            require_trust(study, run, trusted)
            same = output.as_json([study.table(name) for name in ("data", "model", "prior")] + [str(study.folder)])
            if same not in made:
                made[same] = build(study)
            found.append(made[same])
        except GGMCError as error:
            output.tell(f"The report has no predictions of {run}: {error}")
            found.append(None)
    return found


def _test_data(settings: list[PlainDict], built: list[Built | None]) -> tuple[Tensor | None, Tensor | None]:
    """What was held out, where it is the same for all runs."""
    first = built[0]
    if first is None or None in built:
        return None, None
    data = [each["attributes"][STUDY]["tables"]["data"] for each in settings]
    if any(other != data[0] for other in data):
        output.tell("The runs are of different data: the report has no scores on test data.")
        return None, None
    return first.x_test, first.y_test


def _commands(run: Path, settings: PlainDict) -> list[tuple[str, str]]:
    """What makes a run again, each with a sentence on what it is."""
    study, plan = settings["attributes"].get(STUDY), settings["settings"]
    if study is None or not plan:
        return []
    draws = max(plan["draws"], settings["drawn"])  # a run may have been made longer
    again = output.command("run", study["name"], "--out", run, "--draws", draws, "--seed", plan["seed"])
    return [("It was made by this command.", again), ("This is its study.", as_toml(study["tables"]))]
