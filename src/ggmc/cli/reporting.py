"""`ggmc report`: one page about one run or several."""

from __future__ import annotations

from pathlib import Path

from ggmc import report
from ggmc.cli import output
from ggmc.cli.build import Built, build
from ggmc.cli.running import STUDY, require_trust, study_of
from ggmc.errors import GGMCError
from ggmc.plain import PlainDict
from ggmc.trace.run_folder import read_root


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
    target, x_test, y_test = (built.target, built.x_test, built.y_test) if built else (None, None, None)
    words = ["report", *runs, "--out", out] + (["--title", title] if title else [])
    return report.write(
        _named(runs), out, target=target, x_test=x_test, y_test=y_test, title=title, command=output.command(*words)
    )


def _named(runs: list[Path]) -> dict[str, Path]:
    """Runs by the names of their folders or, where two have the same, by their paths."""
    names = [run.resolve().name for run in runs]
    return {str(run) if names.count(name) > 1 else name: run for run, name in zip(runs, names, strict=True)}


def _built(runs: list[Path], settings: list[PlainDict], trusted: bool) -> Built | None:
    """The target and test data, where all runs are of one study that is stored with them."""
    studies = [each["attributes"].get(STUDY) for each in settings]
    parts = [
        None if study is None else {name: study["tables"].get(name) for name in ("data", "model", "prior")}
        for study in studies
    ]
    if parts[0] is None:
        output.tell(f"{runs[0]} was not made by `ggmc run`: the report has no predictions.")
        return None
    if any(part != parts[0] for part in parts):
        output.tell("The runs are of different data or models: the report has no predictions.")
        return None
    try:
        study = study_of(runs[0], settings[0])
        require_trust(study, runs[0], trusted)
        return build(study)
    except GGMCError as error:
        output.tell(f"The report has no predictions: {error}")
        return None
