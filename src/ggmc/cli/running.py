"""`ggmc run` and `ggmc resume`: a study sampled into a folder, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ggmc.cli import output
from ggmc.cli.build import build
from ggmc.cli.study.read import Study, stored
from ggmc.errors import BadInput
from ggmc.plain import PlainDict
from ggmc.sampling.resume import resume
from ggmc.sampling.sample import sample
from ggmc.trace.run_folder import RunFolder, holds_a_run, read_root
from ggmc.trace.trace import Trace

STUDY = "study"
"""The attribute of a run that keeps its study."""
DRAWS, WARMUP = 1000, 1000


@dataclass(frozen=True)
class Outcome:
    """What a run has come to.

    Args:
        folder: Where it is.
        trace: Its draws.
        wanted: Draws of each chain that were asked for.
        thin: Every `thin`-th of them is kept.
    """

    folder: Path
    trace: Trace
    wanted: int
    thin: int

    @property
    def complete(self) -> bool:
        """Whether all draws were made."""
        return self.trace.num_draws >= self.wanted // self.thin

    def next_commands(self) -> list[str]:
        """What one may want to do now."""
        words = ["--draws", 2 * max(self.wanted, self.thin * self.trace.num_draws)] if self.complete else []
        return [output.command("report", self.folder), output.command("resume", self.folder, *words)]

    def to_dict(self) -> PlainDict:
        """As plain values."""
        trace = self.trace
        rates = np.asarray(trace.stats["acceptance_rate"])
        return {
            "run": str(self.folder),
            "complete": self.complete,
            "chains": trace.num_chains,
            "draws": trace.num_draws,
            "wanted_draws": self.wanted,
            "thin": self.thin,
            "tested": bool(trace.kernel.adjust),
            "kernel": type(trace.kernel).__name__,
            "step_size": None if trace.kernel.step_size is None else float(trace.kernel.step_size),
            "acceptance_rate": float(rates[np.isfinite(rates)].mean()) if np.isfinite(rates).any() else None,
            "divergences": int(np.asarray(trace.stats["diverging"]).sum()),
            "seconds": float(trace.attributes.get("sampling_time", 0.0)),
            "warnings": list(trace.warnings),
            "next": self.next_commands(),
        }

    def __str__(self) -> str:
        facts = self.to_dict()
        rate = facts["acceptance_rate"]
        how = "exact: every trajectory was tested" if facts["tested"] else "biased: nothing was rejected"
        made = f"{facts['chains']} chains of {facts['draws']} draws in {output.duration(facts['seconds'])}"
        if self.thin > 1:
            made += f", every {self.thin}th kept"
        lines = [
            f"{'Done' if self.complete else 'Stopped early'}: {self.folder}",
            f"  draws        {made}" + ("" if self.complete else f"; {self.wanted // self.thin} were asked for"),
            f"  sampler      {facts['kernel']}, {how}",
            f"  acceptance   {'not known' if rate is None else f'{rate:.2f}'}",
            f"  divergences  {facts['divergences']}",
            f"  warnings     {len(facts['warnings']) or 'none'}",
        ]
        lines += [output.paragraph(warning, "    ", "  - ") for warning in facts["warnings"]]
        return "\n".join([*lines, "Next:", *(f"  {command}" for command in facts["next"])])


def begin(study: Study, shown: bool) -> Outcome:
    """A new run.

    Args:
        study: With everything that the command line changed.
        shown: Whether progress is shown.
    """
    run = study.table("run")
    folder = Path(run.get("out", Path("runs") / Path(study.name).stem)).expanduser()
    if holds_a_run(folder):
        raise BadInput(
            f"{folder} holds a run already: go on with it by `{output.command('resume', folder)}`, or give another "
            "folder with --out"
        )
    built = build(study)
    kept = {name: run[name] for name in ("checkpoint_every", "precision", "thin") if name in run}
    settings = {name: run[name] for name in ("chains", "seed", "target_accept", "anneal") if name in run}
    draws, warmup = run.get("draws", DRAWS), run.get("warmup", WARMUP)
    bar, lines = output.progress(warmup + draws, shown)
    with study.about("run"):
        out = RunFolder(folder, **kept, attributes={STUDY: study.to_dict()})
    with output.messages_shown(), _hint(folder):
        trace = sample(built.target, built.kernel, draws, warmup, out=out, progress=bar, callback=lines, **settings)
    return Outcome(folder, trace, draws, out.thin)


def go_on(folder: Path, draws: int | None, shown: bool, trusted: bool) -> Outcome:
    """A run that goes on, by the study that is stored with it.

    Args:
        folder: Of the run.
        draws: In all; None for as many as it was to make.
        shown: Whether progress is shown.
        trusted: Whether Python code that the study names may be executed.
    """
    settings = read_root(folder).settings
    study = study_of(folder, settings)
    require_trust(study, folder, trusted)
    built = build(study)
    plan = settings["settings"]
    wanted = plan["draws"] if draws is None else draws
    bar, lines = output.progress(plan["warmup"] + wanted, shown)
    given = built.kernel if study.python_functions() else None  # else it is stored in full
    with output.messages_shown(), _hint(folder):
        trace = resume(folder, built.target, draws, kernel=given, progress=bar, callback=lines)
    return Outcome(folder, trace, wanted, settings["thin"])


@contextmanager
def _hint(folder: Path) -> Iterator[None]:
    """Where a run is stopped before there is anything to tell of it, such as in its warm-up: say how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if holds_a_run(folder):
            output.tell(f"`{output.command('resume', folder)}` goes on.")
        raise


def study_of(folder: Path, settings: PlainDict) -> Study:
    """The study that is stored with a run.

    Args:
        folder: Of the run.
        settings: Of the run.
    """
    plain = settings["attributes"].get(STUDY)
    if plain is None:
        raise BadInput(
            f"{folder} was not made by `ggmc run`, so it does not say how its target is made: continue it in Python, "
            f"with ggmc.resume({str(folder)!r}, target)"
        )
    return stored(plain, folder)


def require_trust(study: Study, folder: Path, trusted: bool) -> None:
    """Refuse to execute code that a folder names, unless the user says that the folder is theirs.

    Args:
        study: Stored with the run.
        folder: Of the run.
        trusted: Whether the user has said so.
    """
    functions = study.python_functions()
    if functions and not trusted:
        raise BadInput(
            f"the study in {folder} calls Python code, {', '.join(functions)}, and a run's folder may come from "
            "anywhere: add --trust if this run is your own"
        )
