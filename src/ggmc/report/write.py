"""write(): a run, or several side by side, as one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ggmc.errors import BadInput
from ggmc.plain import Tree
from ggmc.report import scores as on_test_data
from ggmc.report import sections as parts_of_a_run
from ggmc.report.findings import Findings, find
from ggmc.report.parts import Section, Table, Texts
from ggmc.report.scores import Scores
from ggmc.report.settings import seconds_of
from ggmc.report.source import Sources, opened
from ggmc.report.verdict import ESS_PER_CHAIN, LARGEST_RHAT, TRUSTWORTHY, Verdict, judge
from ggmc.report.words import count, duration, rhat
from ggmc.targets.base import Target
from ggmc.trace.atomic_files import write_atomically
from ggmc.trace.trace import Trace

Commands = str | Mapping[str, Texts] | None


@dataclass
class RunPage:
    """One run, as the template sees it.

    Args:
        name: As the user gave it.
        key: Unique on the page, for ids.
        found: What was measured.
        scores: On test data, if there are any.
        sections: In order.
        verdict: What follows from it.
    """

    name: str
    key: str
    found: Findings
    scores: Scores | None
    sections: list[Section]
    verdict: Verdict

    @property
    def tiles(self) -> list[tuple[str, str, str]]:
        """The few numbers that matter most: name, value, and what it should be."""
        found, tested = self.found, self.found.trace.kernel.adjust
        hint = (
            "log α = −∞"
            if found.no_way_back
            else ""
            if found.mean_acceptance is None or tested
            else "if it were tested"
        )
        diverged = "–" if found.divergences is None else f"{found.divergences:,}"
        return [
            ("Acceptance", _acceptance(found), hint),
            ("Worst R̂", rhat(found.worst_rhat), f"at most {LARGEST_RHAT}"),
            ("Effective draws", _whole(found.least_ess), f"the least; {ESS_PER_CHAIN * max(1, found.chains):,} wanted"),
            ("Divergences", diverged, f"of {found.chains * found.draws:,} trajectories"),
            ("Draws", f"{found.chains * found.draws:,}", f"{count(found.chains, 'chain')} × {found.draws:,}"),
            ("Time", duration(seconds_of(found)), ""),
        ]


@np.errstate(over="ignore", invalid="ignore")  # a chain without a test may go to infinity
def write(
    traces: Sources,
    path: str | Path,
    target: Target | None = None,
    x_test: Tree = None,
    y_test: Tree = None,
    title: str | None = None,
    command: Commands = None,
) -> Path:
    """Write a report: one HTML file that says whether the draws may be trusted, and shows why.

    A run that still goes on, has no draws, or is damaged has a page too, which says so.

    Args:
        traces: A trace, or a run's folder; or several, by name or in a list, which are shown side by side.
        path: The file to write; one that is there is replaced.
        target: What was sampled, for traces and folders that come without it: then chains of a network are compared by
            their predictions.
        x_test: Test inputs in the form of the training inputs. With `y_test`, predictions are scored.
        y_test: Their outcomes.
        title: The heading of the page.
        command: The command that made the run, to be shown; or, under each run's name, several commands or other
            texts to be shown, each with a sentence that says what it is.

    Returns:
        The path.

    Example:
        >>> import tempfile, torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(2, dtype=torch.float64))
        >>> trace = ggmc.sample(target, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = ggmc.report.write(trace, f"{folder}/report.html").read_text()
        >>> "Trustworthy" in page
        True
    """
    _require_extra()
    path = Path(path)
    if path.is_dir():
        raise BadInput(f"{path} is a folder: give the name of a file, such as {path / 'report.html'}")
    if (x_test is None) != (y_test is None):
        raise BadInput("test data are inputs and their outcomes: give both x_test and y_test")
    named = opened(traces, target)
    test = None if x_test is None else (x_test, y_test)
    runs = [
        _run(name, f"r{number}", trace, test, _texts(command, name))
        for number, (name, trace) in enumerate(named.items())
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _page(runs, title).encode())
    return path


def _require_extra() -> None:
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f"ggmc.report needs {error.name}: pip install ggmc[report]") from error


def _texts(command: Commands, name: str) -> Texts:
    if command is None or isinstance(command, str):
        return [] if command is None else [("It was made by this command.", command)]
    return command.get(name, [])


def _run(name: str, key: str, trace: Trace, test: tuple[Tree, Tree] | None, texts: Texts) -> RunPage:
    found = find(trace)
    makers: list[tuple[str, Callable[[], Section]]] = [
        ("What was run", lambda: parts_of_a_run.what_was_run(found, texts))
    ]
    scores = None
    if found.draws:
        makers += [
            ("Acceptance", lambda: parts_of_a_run.acceptance(found, key)),
            ("Energy", lambda: parts_of_a_run.energy(found, key)),
            ("Mixing", lambda: parts_of_a_run.mixing(found, key)),
        ]
    sections = [section for what, make in makers if (section := found.attempt(f"The section “{what}”", make))]
    if test is not None:
        problems = len(found.problems)
        scores = found.attempt("Scores", lambda: on_test_data.scores(found, *test))
        if len(found.problems) == problems:
            made = found.attempt("The section of scores", lambda: on_test_data.section(found, scores, test[1], key))
            sections += [] if made is None else [made]
    if found.problems:
        notes = Section("problems", "What could not be read or computed", list(dict.fromkeys(found.problems)))
        sections.insert(0, notes)
    return RunPage(name, key, found, scores, sections, judge(found))


def _comparison(runs: list[RunPage]) -> list[Table]:
    """The runs side by side: how they were sampled, and how well they predict."""
    head = ["run", "verdict", "acceptance", "worst R̂", "least ESS", "divergences", "draws", "time"]
    rows: list[list[str]] = []
    for run in runs:
        shown = {name: value for name, value, _ in run.tiles}
        names = ("Acceptance", "Worst R̂", "Effective draws", "Divergences", "Draws", "Time")
        rows.append([run.name, run.verdict.title, *(shown[name] for name in names)])
    tables = [Table("How they were sampled.", head, rows)]
    scores = list(dict.fromkeys(name for run in runs if run.scores for name in run.scores.values))
    if scores:
        known = [[run.name, *(run.scores.shown(name) if run.scores else "–" for name in scores)] for run in runs]
        caption = "How well they predict the test data, ± two Monte Carlo standard errors."
        tables.append(Table(caption, ["run", *scores], known))
    return tables


def _summary(runs: list[RunPage]) -> str:
    good = sum(run.verdict.state == TRUSTWORTHY for run in runs)
    if good in (0, len(runs)):
        return f"{'All' if good else 'None'} of the {len(runs)} runs {'are' if good else 'is'} trustworthy."
    return f"{good} of {len(runs)} runs {'is' if good == 1 else 'are'} trustworthy."


def _page(runs: list[RunPage], title: str | None) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ggmc.report"),
        autoescape=True,  # names, settings, warnings and paths are text, whatever they hold
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    default = f"Run “{runs[0].name}”" if len(runs) == 1 else f"{len(runs)} runs side by side"
    if len(runs) == 1 and runs[0].name == "Run 1":
        default = "Sampling report"
    return environment.get_template("page.html").render(
        title=default if title is None else title,
        runs=runs,
        comparison=_comparison(runs) if len(runs) > 1 else [],
        summary=_summary(runs),
        version=version("ggmc"),
        made=datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC"),
    )


def _acceptance(found: Findings) -> str:
    if found.no_way_back:
        return "0"
    mean = found.mean_acceptance
    return "–" if mean is None else f"{mean:.2f}"


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
