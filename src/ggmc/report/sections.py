"""The sections of a run: what was run, acceptance, energy, mixing."""

from __future__ import annotations

import numpy as np

from ggmc.progress import wanted as bars_wanted
from ggmc.report import charts
from ggmc.report.findings import Findings
from ggmc.report.parts import Picture, Section, Table, Texts
from ggmc.report.settings import how_to_repeat, kernel_rows, run_pairs
from ggmc.report.verdict import ESS_PER_CHAIN, LARGEST_RHAT
from ggmc.report.words import number, rhat
from ggmc.trace.temperatures import Interval, kinetic_interval, temperatures

GRADIENTS = 20  # draws of each chain at which the exact gradient is computed, for the configurational temperature
TENSORS = 8  # whose temperatures are shown
ROWS = 10  # of the table of the worst
LEVEL = 0.95


def what_was_run(found: Findings, texts: Texts) -> Section:
    """Target, settings, versions, and how to run it again.

    Args:
        found: The run.
        texts: Commands as the user gave them, each with a sentence.
    """
    name, rows = kernel_rows(found)
    head, caption = ["setting", "used", "asked for"], f"Settings of the kernel, {name}."
    if not any(row[2] for row in rows):
        head, rows = head[:2], [row[:2] for row in rows]
    table = Table(caption, head, rows, numbers=False)
    return Section("run", "What was run", pairs=run_pairs(found), tables=[table], code=how_to_repeat(found, texts))


def acceptance(found: Findings, prefix: str) -> Section:
    """Acceptance and log α over time, and divergences.

    Args:
        found: The run.
        prefix: Of ids.
    """
    section = Section("acceptance", "Acceptance")
    rates, log_accept = found.statistic("acceptance_rate"), found.statistic("log_accept")
    tested = found.trace.kernel.adjust
    if found.no_way_back:
        section.paragraphs.append(
            "log α is −∞ at every trajectory: with these settings the sampler never retraces its steps, so a "
            "Metropolis test would reject everything, however small the step. This is no fault of the run. It says "
            "that there is no test for this sampler, and that log α does not tell how large its bias is. The "
            "temperatures below give a sign of it."
        )
    elif not tested:
        section.paragraphs.append(
            "Trajectories were not tested. log α says what the test would have done, and is read as an alarm: near 0 "
            "the bias is small; far below 0 the draws are of another distribution."
        )
    if rates is not None and found.acceptance is not None and not found.no_way_back:
        mean, least, most = found.mean_acceptance, np.nanmin(found.acceptance), np.nanmax(found.acceptance)
        window = max(1, min(50, found.draws // 10))
        verb = "is" if tested else "would have been"
        caption = f"Acceptance {verb} {mean:.2f} on average"
        if found.chains > 1:
            alike = f"{least:.2f}" == f"{most:.2f}"
            caption += ", alike in all chains" if alike else f"; by chain, {least:.2f} to {most:.2f}"
        caption += "."
        if window > 1:
            caption += f" Lines are running means over {window} trajectories."
        svg = charts.lines(f"{prefix}-accept", rates, "acceptance", window=window, ends="unit")
        section.pictures.append(Picture(svg, "Acceptance over the draws, one line for each chain", caption))
    if log_accept is not None and np.isfinite(log_accept).any():
        section.pictures.append(_log_accept(log_accept, prefix))
    section.paragraphs.append(_divergences(found))
    if not section.pictures and not found.no_way_back:
        section.paragraphs.append("No acceptance was recorded, so there is nothing to draw here.")
    return section


def _log_accept(values: np.ndarray, prefix: str) -> Picture:
    finite = values[np.isfinite(values)]
    low, middle = np.quantile(finite, [0.05, 0.5])
    lost = int(np.isneginf(values).sum())
    caption = f"log α is {number(middle, 2)} at the median, and above {number(low, 2)} in 95 % of trajectories. "
    caption += "The band holds 90 % of them."
    if lost:
        caption += f" {lost:,} of {values.size:,} had log α = −∞, for example where a trajectory diverged."
    svg = charts.band(f"{prefix}-logaccept", values, "log α", 0.0)
    return Picture(svg, "log α over the draws: its median, and the band that holds 90 %; the dashed line is 0", caption)


def _divergences(found: Findings) -> str:
    total = found.chains * found.draws
    if found.divergences is None:
        return "Whether trajectories diverged was not recorded."
    if not found.divergences:
        return f"None of {total:,} trajectories diverged."
    diverging = found.statistic("diverging")
    by_chain = "" if diverging is None else f" By chain: {', '.join(f'{n:,}' for n in diverging.sum(1)[:24])}."
    return (
        f"{found.divergences:,} of {total:,} trajectories diverged: the region where they did may be missing.{by_chain}"
    )


def energy(found: Findings, prefix: str) -> Section:
    """The potential over the draws, and temperatures beside T.

    Args:
        found: The run.
        prefix: Of ids.
    """
    section = Section("energy", "Energy")
    lp = found.statistic("lp")
    if lp is not None and np.isfinite(lp).any():
        potential = -np.where(np.isfinite(lp), lp, np.nan)
        half = max(1, found.draws // 2)
        first, second = _mean(potential[:, :half]), _mean(potential[:, half:])
        spread = float(np.nanstd(potential))
        caption = f"The potential is {number(first)} on average in the first half and {number(second)} in the second"
        if np.isfinite(first) and np.isfinite(second) and spread > 0:
            apart = abs(second - first) / spread
            caption += f", {number(apart, 2)} standard deviations apart"
            caption += ": the chains may still be on their way." if apart > 0.5 else ": no sign of a drift."
        else:
            caption += "."
        unknown = int((~np.isfinite(lp)).sum())
        caption += f" It is not known for {unknown:,} of {lp.size:,} draws." if unknown else ""
        window = max(1, found.draws // 20)
        caption += f" Strong lines are running means over {window} draws." if window > 1 else ""
        svg = charts.lines(f"{prefix}-potential", potential, "potential U", window=window, light=True)
        section.pictures.append(Picture(svg, "Potential over the draws, one line for each chain", caption))
    else:
        section.paragraphs.append("The potential was not recorded.")
    heat = found.attempt("Temperatures", lambda: _temperatures(found))
    if heat is not None:
        section.pictures.append(_heat_picture(found, heat, prefix))
    return section


Heat = tuple[list[str], dict[str, np.ndarray]]


def _temperatures(found: Findings) -> Heat | None:
    """Names of rows, and mean and interval of each kind of temperature: of all numbers, and of some tensors."""
    few, seen = found.few, found.statistic("kinetic_temperature")
    if few is None or seen is None or not np.isfinite(seen).all():
        return None
    target = few.target
    if target is None or not few.store.keeps_rows or target.not_exact is not None:
        size = few.positions.shape[-1] if few.store.keeps_rows else 1
        one: Interval = kinetic_interval(seen, size, LEVEL)
        return ["all"], {"kinetic": np.array([one])}
    with bars_wanted(False):
        table = temperatures(few, max(2, min(GRADIENTS, few.num_draws)), LEVEL)
    if len(table) == 2:  # one tensor is all there is
        table = table.iloc[:1]
    table = table.iloc[: TENSORS + 1]
    kinds = ("kinetic", "configurational")
    return list(table.index), {kind: table[[kind, f"{kind}_low", f"{kind}_high"]].to_numpy() for kind in kinds}


def _heat_picture(found: Findings, heat: Heat, prefix: str) -> Picture:
    names, series = heat
    temperature = found.trace.kernel.temperature
    parts: list[str] = []
    for kind, values in series.items():
        mean, low, high = values[0]
        known = np.isfinite(low) and np.isfinite(high)
        where = "" if not known else ", which holds T" if low <= temperature <= high else ", which does not hold T"
        interval = f" ({100 * LEVEL:.0f} % interval {number(low, 3)} to {number(high, 3)}{where})" if known else ""
        parts.append(f"the {kind} temperature is {number(mean, 3)}{interval}")
    said = "; ".join(parts)
    caption = f"{said[0].upper()}{said[1:]}. In equilibrium both are T = {number(temperature)}."
    svg = charts.intervals(f"{prefix}-heat", names, series, temperature)
    return Picture(svg, "Temperatures with their intervals; the dashed line is the kernel's temperature", caption)


def mixing(found: Findings, prefix: str) -> Section:
    """R̂ and effective draws: their worst, their histogram, and rank plots.

    Args:
        found: The run.
        prefix: Of ids.
    """
    section = Section("mixing", "Mixing", [_what_is_compared(found)])
    measured = found.measured
    if measured is None:
        return section
    order = np.lexsort((measured.ess, -np.nan_to_num(measured.rhat, nan=np.inf)))
    finite = [i for i in order if np.isfinite(measured.columns[i]).all() and np.isfinite(measured.rhat[i])]
    known = measured.rhat[np.isfinite(measured.rhat)]
    if known.size > 8:
        above = int((known > LARGEST_RHAT).sum())
        caption = f"R̂ of {known.size} numbers: median {np.median(known):.3f}, worst {rhat(float(known.max()))}. "
        caption += f"{above} of them are above {LARGEST_RHAT}." if above else f"None is above {LARGEST_RHAT}."
        svg = charts.histogram(f"{prefix}-rhat", known, "R̂", level=LARGEST_RHAT)
        section.pictures.append(Picture(svg, f"Histogram of R̂; the dashed line is {LARGEST_RHAT}", caption))
    if finite:
        worst = finite[:4]
        names = [measured.names[i] for i in worst]
        who = "chains" if found.chains > 1 else "the two halves of the chain"
        caption = f"Ranks of the {len(worst)} numbers with the largest R̂, one line for each chain. Where {who} agree, "
        caption += "all lines stay near the dashed one."
        svg = charts.ranks(f"{prefix}-ranks", names, [measured.columns[i] for i in worst])
        section.pictures.append(Picture(svg, f"Rank histograms of {', '.join(names)}", caption))
    rows = [
        [
            measured.names[i], number(float(np.mean(measured.columns[i]))), number(float(np.std(measured.columns[i]))),
            rhat(float(measured.rhat[i])),
            _whole(measured.bulk[i]), _whole(measured.tail[i]),
        ]
        for i in order[:ROWS]
    ]  # fmt: skip
    caption = f"The {len(rows)} with the largest R̂." if len(rows) < len(order) else "All of them, the largest R̂ first."
    wanted = ESS_PER_CHAIN * found.chains
    caption += f" R̂ should be at most {LARGEST_RHAT}, and effective draws at least {wanted:,}."
    section.tables.append(Table(caption, ["", "mean", "sd", "R̂", "ESS bulk", "ESS tail"], rows))
    if found.every > 1:
        section.notes.append(
            f"The run is long, so one draw in {found.every} was looked at. All together have more effective draws."
        )
    return section


def _what_is_compared(found: Findings) -> str:
    if found.measured is None:
        return "R̂ and effective draws could not be computed, so nothing says that the chains have converged."
    how_many = len(found.measured.names)
    what = {
        "predictions": f"Chains are compared by {how_many} predictions for training inputs, and by the noise where it "
        "is unknown. Weights may be permuted and yet mean the same.",
        "stored predictions": f"Chains are compared by {how_many} of the predictions that the run kept.",
        "weights": f"Chains are compared by {how_many} single weights, since the target was not given. Weights may be "
        "permuted and yet mean the same: with target=... the predictions are compared.",
        "parameters": f"Chains are compared by {how_many} parameters.",
    }[found.judged_by]
    alone = " There is one chain, whose first half is compared with its second." if found.chains == 1 else ""
    return what + alone


def _mean(values: np.ndarray) -> float:
    """Of those that are finite; NaN where none is."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else float("nan")


def _whole(value: float | np.ndarray) -> str:
    return f"{float(value):,.0f}" if np.isfinite(value) else "–"
