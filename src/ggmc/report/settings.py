"""What was run, and how to run it again."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import MISSING, fields, is_dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ggmc.dynamics.mass import Mass
from ggmc.kernels import KernelSettings
from ggmc.kernels.serialise import known_or_settings
from ggmc.plain import PlainDict, PlainMapping
from ggmc.report.findings import Findings
from ggmc.report.parts import Texts
from ggmc.report.source import folder_of
from ggmc.report.words import count, duration, number, shortened
from ggmc.targets.fingerprint import fingerprint

LONGEST = 300  # letters of one setting

Pairs = list[tuple[str, str]]


def seconds_of(found: Findings) -> float | None:
    """What the run took, warm-up included; of merged runs, all of them together.

    Args:
        found: The run.
    """
    given = [run.get("sampling_time") for run in runs_of(found.trace.attributes)]
    known = [float(one) for one in given if isinstance(one, int | float)]
    return sum(known) if len(known) == len(given) else None


def runs_of(attributes: PlainDict) -> list[PlainDict]:
    """The attributes of each run that a trace was merged from; of one run, its own.

    Args:
        attributes: Of the trace.
    """
    runs = attributes.get("runs")
    if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        return [attributes]
    return [one for run in runs for one in runs_of(run)]


def run_pairs(found: Findings) -> Pairs:
    """What was run, by name.

    Args:
        found: The run.
    """
    trace, store = found.trace, folder_of(found.trace)
    facts: PlainDict = {} if store is None else store.settings
    asked: PlainDict = facts.get("settings") or {}
    marks = _fingerprint(found)
    draws = f"{found.draws:,} of each chain"
    if found.unfinished:
        draws += f", of {found.asked:,} asked for"
    if facts.get("thin", 1) > 1:
        draws += f"; one in {facts['thin']} was kept"
    runs = runs_of(trace.attributes)
    seeds = ", ".join(str(run.get("seed", asked.get("seed", "–"))) for run in runs)
    merged = "in memory" if len(runs) == 1 else f"{len(runs)} runs, merged"
    where = merged if store is None else str(store.path)
    kept = "predictions only" if not trace.store.keeps_rows else facts.get("precision") or ""
    pairs = [
        ("Target", _target(found, marks)),
        ("Chains", str(found.chains or asked.get("chains", "–"))),
        ("Draws", draws),
        ("Warm-up", "–" if (warmup := _warmup(found)) is None else f"{warmup:,} trajectories of each chain"),
        ("Seed" if len(runs) == 1 else "Seeds", seeds),
        ("Time", duration(seconds_of(found))),
        ("Begun", str(trace.attributes.get("created_at", "–"))[:19].replace("T", " ")),
        ("Kept", where + (f" ({kept})" if kept else "")),
        (
            "Versions" if facts.get("versions") else "Versions now",
            ", ".join(f"{name} {which}" for name, which in _versions(facts).items()),
        ),
        ("Machine", _machine(facts)),
        ("Git revision", str(facts.get("git") or "not known")),
        ("Fingerprint", "not known" if not marks else _digest(marks)),
    ]
    if not facts.get("machine"):
        pairs = [pair for pair in pairs if pair[0] != "Machine"]
    notes = [
        (name.replace("_", " ").capitalize(), text) for name, text in trace.attributes.items() if _is_note(name, text)
    ]
    return pairs + [(name, str(text)) for name, text in notes]


KNOWN = ("created_at", "seed", "tuning_steps", "dtype", "sampling_time", "runs", "kernels")


def _is_note(name: str, text: object) -> bool:
    """Whether an attribute is a sentence of warm-up's, such as on the batch size it chose."""
    return name not in KNOWN and isinstance(text, str)


def kernel_rows(found: Findings) -> tuple[str, list[list[str]]]:
    """The kernel's name, and its settings: name, as asked for, as used.

    Args:
        found: The run.
    """
    used, asked = found.trace.kernel, asked_kernel(found)
    name = used.name if isinstance(used, KernelSettings) else type(used).__name__
    before = {} if asked is None else _settings_of(asked)
    rows: list[list[str]] = []
    for key, value in _settings_of(used).items():
        now = shown(value)
        first = shown(before[key]) if key in before else now
        rows.append([key, now, "left to warm-up" if first == "None" != now else first if first != now else ""])
    return name, rows


def asked_kernel(found: Findings) -> Any:
    """The kernel as the user gave it; None where that is not known.

    Args:
        found: The run.
    """
    store = folder_of(found.trace)
    if store is None or not store.settings["settings"]:
        return None
    return known_or_settings(store.settings["kernel"], store.tensors)


def how_to_repeat(found: Findings, texts: Texts) -> Texts:
    """Code that makes the run again, each with a sentence on what it does.

    Args:
        found: The run.
        texts: Commands as the user gave them, each with a sentence.
    """
    steps = list(texts)
    store, asked = folder_of(found.trace), asked_kernel(found)
    plan: PlainDict = {} if store is None else store.settings["settings"] or {}
    if store is not None and "draws" in plan:
        plan = plan | {"draws": max(plan["draws"], store.settings["drawn"])}  # a run may have been made longer
        names = ("draws", "warmup", "chains", "seed", "target_accept", "anneal")
        given = ", ".join(f"{name}={plan[name]!r}" for name in names if plan.get(name) is not None)
        if plan.get("part") is not None:
            number, parts = plan["part"]
            which = f"task {number} of {parts}, counted from 0"
            why = f"With the same target and versions, this makes the same draws, bit for bit, in {which}."
            steps.append((why, f"ggmc.jug.chains(make_target, {as_code(asked)}, {given}, out=...)"))
        else:
            # With given starts, the random numbers depend on them too.
            starts = ", start=..." if plan.get("own_seed", plan.get("seed")) != plan.get("seed") else ""
            same = "target, starts and versions" if starts else "target and versions"
            code = f"ggmc.sample(target, {as_code(asked)}, {given}{starts}, out=...)"
            steps.append((f"With the same {same}, this makes the same draws, bit for bit.", code))
        again = ", predict_at=..." if store.settings["predictions_only"] else ""
        steps.append(("This continues the run.", f"ggmc.resume({str(store.path)!r}, target, draws=...{again})"))
    elif store is not None and "training_loop" in plan:
        steps.append(("It was made by a training loop, which goes on if it is started again with this folder.", ""))
    elif not texts:
        code = (
            f"ggmc.sample(target, {as_code(found.trace.kernel)}, draws={found.draws}, "
            f"chains={found.chains}, seed={found.trace.attributes.get('seed', 0)})"
        )
        runs = len(runs_of(found.trace.attributes))
        why = (
            "The run was not sampled into a folder, so only its final settings are known. They sample the same target."
        )
        if runs > 1:
            why = f"These are {runs} runs, merged. The final settings of the first sample the same target."
        steps.append((why, code))
    return steps


def as_code(thing: object) -> str:
    """A kernel or a part of one as Python, with those settings only that are not the default.

    Args:
        thing: A dataclass, or a plain value.

    Example:
        >>> import ggmc
        >>> from ggmc.report.settings import as_code
        >>> as_code(ggmc.GGMC(guide=ggmc.Minibatch(250), steps="20 sweeps"))
        "ggmc.GGMC(steps='20 sweeps', guide=ggmc.Minibatch(size=250))"
    """
    if isinstance(thing, KernelSettings):
        return str(thing)
    if isinstance(thing, Tensor | Mass):
        return "..."
    if not is_dataclass(thing) or isinstance(thing, type):
        return repr(thing)
    given: list[str] = []
    for one in fields(thing):
        value = vars(thing)[one.name]
        default = one.default if one.default is not MISSING else MISSING
        if (
            isinstance(value, Tensor | Mass)
            or default is MISSING
            or type(value) is not type(default)
            or value != default
        ):
            given.append(f"{one.name}={as_code(value)}")
    module = type(thing).__module__
    package = "ggmc.schedule." if module == "ggmc.dynamics.schedule" else "ggmc." if module.startswith("ggmc.") else ""
    return f"{package}{type(thing).__name__}({', '.join(given)})"


def shown(value: object) -> str:
    """A setting as text for a table.

    Args:
        value: Of any kind.
    """
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return number(value, 6)
    if isinstance(value, Tensor):
        size = " × ".join(map(str, value.shape)) or "1"
        return f"tensor of {size}, {number(float(value.min()))} to {number(float(value.max()))}"
    if isinstance(value, dict) and "tensor" in value:
        return f"tensor of {' × '.join(map(str, np.shape(value['tensor'])))}"
    return shortened(str(value), LONGEST)


def _settings_of(kernel: Any) -> PlainMapping:
    if isinstance(kernel, KernelSettings):
        return kernel.settings
    return {one.name: vars(kernel)[one.name] for one in fields(kernel)}


def _target(found: Findings, marks: PlainDict) -> str:
    if found.trace.target is not None:
        return shortened(repr(found.trace.target), LONGEST)
    if not marks:
        return "not given"
    tensors = marks.get("tensors", {})
    size = sum(int(np.prod(shape)) for shape in tensors.values())
    examples = f", {marks['examples']:,} examples" if "examples" in marks else ""
    return f"{marks.get('kind', 'target')}: {count(size, 'number')} in {count(len(tensors), 'tensor')}{examples}"


def _fingerprint(found: Findings) -> PlainDict:
    store, target = folder_of(found.trace), found.trace.target
    if store is not None:
        return store.settings["fingerprint"]
    return {} if target is None else found.attempt("The target's fingerprint", lambda: fingerprint(target)) or {}


def _digest(marks: PlainDict) -> str:
    return hashlib.sha256(json.dumps(marks, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _warmup(found: Findings) -> int | None:
    given = found.trace.attributes.get("tuning_steps")
    return given if isinstance(given, int) else None


def _versions(facts: PlainDict) -> dict[str, str]:
    if facts.get("versions"):
        return facts["versions"]
    return {"ggmc": version("ggmc"), "torch": str(torch.__version__), "python": platform.python_version()}


def _machine(facts: PlainDict) -> str:
    machine = facts.get("machine")
    if not machine:
        return "not known"
    return f"{machine.get('platform')}, {machine.get('device')}, {machine.get('cpus')} processors"
