"""The commands, their options and their help."""

from __future__ import annotations

import importlib.util
import runpy
import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ggmc.cli import checking, information, messages, output, places, reporting, reproducing, running
from ggmc.cli.study.read import read
from ggmc.errors import GGMCError, require_count

CODES = "Exit codes: 0 done; 2 wrong input; 3 something failed; 130 stopped by Ctrl-C."
INT = "<int>"
HELP = """Exact Langevin sampling with stochastic gradients.

A study file (TOML) says what is sampled and how. A first session:

\b
  ggmc check study.toml      is this combination exact?
  ggmc run study.toml        sample it into runs/study
  ggmc report runs/study     one page: may the draws be trusted?

`ggmc COMMAND --help` explains a command. The keys of study files are in docs/cli.md.
"""
app = typer.Typer(
    name="ggmc", help=HELP, invoke_without_command=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)  # fmt: skip


class Size(StrEnum):
    """Of an experiment."""

    tiny = "tiny"
    small = "small"
    full = "full"


def whole(given: str) -> int:
    """A whole number, with a message that says what was given."""
    try:
        return int(given)
    except ValueError:
        raise typer.BadParameter(f"must be a whole number, got {given!r}") from None


StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file, in TOML.", show_default=False)]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout, and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Trust = Annotated[bool, typer.Option("--trust", help="Allow the Python code that the run's study names: it is yours.")]
Draws = Annotated[
    int | None, typer.Option("--draws", "-n", help="Draws of each chain, in all.", parser=whole, metavar=INT)
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ggmc {information.version('ggmc')}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version, and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    messages.debug["wanted"] = debug
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(
    short_help="Sample what a study file describes.",
    epilog=f"{CODES} After Ctrl-C `ggmc resume` goes on.",
    help="""Sample what a study file describes, into a folder.

    Draws and checkpoints are written as the run goes on: what is killed can be resumed.

    \b
    Examples:
      ggmc run study.toml
      ggmc run study.toml --out runs/second --seed 1 --draws 500
    """,
)
@messages.told
def run(
    study: StudyFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run's folder. Default: [run] out, else runs/<study>.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option("--draws", "-n", help="Instead of [run] draws.", parser=whole, metavar=INT)
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Instead of [run] seed.", parser=whole, metavar=INT)
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """See above."""
    _require_draws(draws)
    asked = read(study).with_run(out=None if out is None else str(out), draws=draws, seed=seed)
    _tell(running.begin(asked, not (quiet or json)), json)


@app.command(
    short_help="Go on with a run, bit for bit.",
    epilog=CODES,
    help="""Go on with a run that was killed, stopped or is finished, bit for bit as it would have gone on.

    The study is stored with the run: its file is not needed. Data are read again from where they were.

    \b
    Examples:
      ggmc resume runs/study
      ggmc resume runs/study --draws 2000
    """,
)
@messages.told
def resume(
    folder: RunArgument, draws: Draws = None, json: Json = False, quiet: Quiet = False, trust: Trust = False
) -> None:
    """See above."""
    _require_draws(draws)
    _tell(running.go_on(folder, draws, not (quiet or json), trust), json)


def _require_draws(draws: int | None) -> None:
    if draws is not None:
        require_count("--draws", draws)


def _tell(outcome: running.Outcome, json: bool) -> None:
    typer.echo(output.as_json(outcome.to_dict()) if json else str(outcome))
    if not outcome.complete:
        raise typer.Exit(130)


@app.command(
    short_help="Write one page about one run or several.",
    epilog=CODES,
    help="""Write a report about one run, or several side by side: one HTML file.

    \b
    Examples:
      ggmc report runs/study
      ggmc report runs/first runs/second --out both.html --title "Two seeds"
    """,
)
@messages.told
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option("--title", help="The heading of the page.")] = None,
    trust: Trust = False,
) -> None:
    """See above."""
    typer.echo(f"Wrote {reporting.write(runs, out, title, trust)}")


@app.command(
    short_help="Is a study exact? If not, what to change?",
    epilog="Exit codes: 0 exact; 1 not exact; 2 wrong input; 3 something failed.",
    help="""Say whether a study samples its target exactly and, if not, which condition breaks and what to change.

    Nothing is sampled and, unless the target is your own Python function, no data are read.

    \b
    Examples:
      ggmc check study.toml
      ggmc check study.toml --json
    """,
)
@messages.told
def check(study: StudyFile, json: Json = False) -> None:
    """See above."""
    verdict = checking.judge(read(study))
    typer.echo(output.as_json(verdict.to_dict()) if json else str(verdict))
    raise typer.Exit(0 if verdict.exact else 1)


def _experiments(incomplete: str) -> list[str]:
    try:
        return [name for name in reproducing.names() if name.startswith(incomplete)]
    except GGMCError:
        return []


@app.command(
    short_help="Run an experiment of the paper again.",
    epilog=f"{CODES} Run the same command again to go on.",
    help="""Run a study of the paper, or of this library, again: its runs, numbers and figures.

    Work that is done is not done again, so a command that was stopped can simply be repeated.

    \b
    Examples:
      ggmc reproduce integrators --size tiny --workers 2
      ggmc reproduce integrators --size full --data ~/cifar-10-python.tar.gz --out out/full
    """,
)
@messages.told
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The experiment, such as integrators.", autocompletion=_experiments, show_default=False
        ),
    ],
    size: Annotated[Size, typer.Option("--size", help="tiny: minutes; small: hours; full: as published.")] = Size.tiny,
    data: Annotated[str | None, typer.Option("--data", help="Where CIFAR-10 is: archive, folder or .npz.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="For results. Default: out/NAME/SIZE.")] = None,
    workers: Annotated[
        int, typer.Option("--workers", "-w", help="Processes that share the work.", parser=whole, metavar=INT)
    ] = 1,
) -> None:
    """See above."""
    require_count("--workers", workers)
    place = reproducing.reproduce(name, size.value, out, data, workers)
    typer.echo(f"Done: {place}")
    for file in reproducing.results(place):
        typer.echo(f"  {file}")


@app.command(
    short_help="A Bayesian network in three minutes.",
    epilog=CODES,
    help="""Sample a small Bayesian convolutional net, exactly and from minibatches, beside SGHMC and SGD.

    Prints tables and saves out/demo.png. Takes under three minutes on two cores.

    \b
    Example:
      ggmc demo
    """,
)
@messages.told
def demo() -> None:
    """See above."""
    for module in information.EXTRAS["demo"]:
        if importlib.util.find_spec(module) is None:
            typer.echo(f"error: the demo needs {module}: pip install 'ggmc[demo]'", err=True)
            raise typer.Exit(2)
    runpy.run_path(str(places.root("examples") / "examples" / "demo.py"), run_name="__main__")


@app.command(
    short_help="Versions, devices, extras, data.",
    epilog="Exit codes: 0.",
    help="""Show versions, devices, installed extras, and where data are looked for.

    \b
    Examples:
      ggmc info
      ggmc info --json
    """,
)
@messages.told
def info(json: Json = False) -> None:
    """See above."""
    facts = information.gather()
    typer.echo(output.as_json(facts) if json else information.described(facts))


def run_app() -> None:
    """The command line as a program."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")  # on its next version
    app(prog_name="ggmc" if Path(sys.argv[0]).name == "__main__.py" else None)
