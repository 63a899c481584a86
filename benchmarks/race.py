"""Effective draws per second, beside every peer: one run, everything counted, and the drawing phase alone.

Run with `make bench`, or `.venv-bench/bin/python -m benchmarks.race` (`--chains 64`, `--repeats 3`; names choose among
the posteriors, `--slow` are those whose gradients are long loops or linear algebra). All sides sample the same log
densities with their own defaults: 1000 of warm-up, 1000 draws. The figure is the worst parameter's bulk effective draws
(of its mean) over the seconds; of several repeats, each with a seed of its own, the median. A sampler whose R̂ is above
1.05 has not arrived, and does not count. Saves JSON, a Markdown table and a figure in out/; `--docs` puts table and
figure into docs/measurements.md too.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import statistics
from pathlib import Path
from typing import Any

import arviz
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.peers import installed
from benchmarks.posteriors import Posterior, german_credit, hidden_markov_model, ill_conditioned_gaussian, posteriordb
from benchmarks.race_peers import FEWEST, MOST, PEERS, Sampler, ours

OUT = Path("out")
DOCS = Path(__file__).resolve().parents[1] / "docs"
ARRIVED = 1.05
QUICK = [
    "german_credit",
    "gaussian",
    "mesquite-logmesquite",
    "eight_schools-eight_schools_noncentered",
    "earnings-logearn_interaction",
    "kidiq-kidscore_interaction",
    "kilpisjarvi_mod-kilpisjarvi",
    "nes2000-nes",
    "sblrc-blr",
    "low_dim_gauss_mix-low_dim_gauss_mix",
]
SLOW = ["hudson_lynx_hare-lotka_volterra", "gp_pois_regr-gp_regr", "garch-garch11", "arma-arma11", "hmm"]
OWN = {"german_credit": german_credit, "gaussian": ill_conditioned_gaussian, "hmm": hidden_markov_model}

Found = dict[str, float]
"""Of one sampler on one posterior, medians over repeats: ess, rhat, whole and drawing seconds, and both rates."""


def measured(sampler: Sampler, posterior: Posterior, chains: int, repeats: int) -> Found:
    """A sampler on a posterior."""
    each: list[Found] = []
    for seed in range(repeats):
        drawn = sampler(posterior, chains, seed)
        ess = min(float(arviz.ess(column)) for column in drawn.columns)
        rhat = max(float(arviz.rhat(column)) for column in drawn.columns)
        rates = {"whole_rate": ess / drawn.whole, "drawing_rate": ess / drawn.drawing}
        each.append({"ess": ess, "rhat": rhat, "whole": drawn.whole, "drawing": drawn.drawing} | rates)
    return {name: statistics.median(one[name] for one in each) for name in each[0]}


def raced(names: list[str], chains: int, repeats: int, everyone: bool) -> dict[str, dict[str, Found]]:
    """All samplers on all posteriors, in turn."""
    sides: dict[str, Sampler] = {"ggmc": ours}
    for name, (library, sampler) in PEERS.items():
        fits = FEWEST.get(name, 0) <= chains <= MOST.get(name, chains)
        if fits and (everyone or name.startswith("NumPyro")) and installed(library):
            sides[name] = sampler
    results: dict[str, dict[str, Found]] = {}
    for name in names:
        posterior = OWN[name]() if name in OWN else posteriordb(name)
        results[name] = {}
        for side, sampler in sides.items():
            try:
                found = measured(sampler, posterior, chains, repeats)
            except Exception as error:  # one sampler that fails must not end the race
                print(f"{name[:24]:25}{side:24} failed: {str(error).splitlines()[0][:80]}", flush=True)
                continue
            results[name][side] = found
            print(
                f"{name[:24]:25}{side:24} ESS {found['ess']:8.0f}  R̂ {found['rhat']:.3f}  {found['whole']:7.2f} s, of "
                f"draws {found['drawing']:7.3f}  per second {found['whole_rate']:8.0f} {found['drawing_rate']:9.0f}",
                flush=True,
            )
    return results


def ratio(found: dict[str, Found], rate: str) -> float:
    """Ours over the best peer that arrived."""
    peers = [one[rate] for side, one in found.items() if side != "ggmc" and one["rhat"] < ARRIVED]
    return found["ggmc"][rate] / max(peers) if peers else math.nan


def table(results: dict[str, dict[str, Found]], rate: str) -> str:
    """Effective draws per second, as Markdown."""
    sides = list(dict.fromkeys(side for found in results.values() for side in found))
    lines = ["| | " + " | ".join(sides) + " | ggmc ÷ the best peer |", "|---" * (len(sides) + 2) + "|"]
    for name, found in results.items():
        cells = [
            "failed" if side not in found else f"{found[side][rate]:,.0f}" if found[side]["rhat"] < ARRIVED else "R̂"
            for side in sides
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {ratio(found, rate):.2f} |")
    lines.append(f"| geometric mean | {'| ' * len(sides)}| {mean_ratio(results, rate):.2f} |")
    return "\n".join(lines)


def mean_ratio(results: dict[str, dict[str, Found]], rate: str) -> float:
    """The geometric mean of the ratios."""
    ratios = [ratio(found, rate) for found in results.values()]
    return float(np.exp(np.mean(np.log([one for one in ratios if one == one]))))


def drawn(results: dict[str, dict[str, Found]], chains: int) -> Any:
    """A figure: ours over each peer, everything counted and draws alone."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 0.45 * len(results) + 1.8), sharey=True, layout="constrained")
    names = list(results)
    sides = [side for side in dict.fromkeys(s for found in results.values() for s in found) if side != "ggmc"]
    titles = {"whole_rate": "everything counted", "drawing_rate": "draws alone"}
    for axis, (rate, title) in zip(axes, titles.items(), strict=True):
        for side in sides:
            rows = [i for i, name in enumerate(names) if results[name].get(side, {"rhat": 9.0})["rhat"] < ARRIVED]
            values = [results[names[i]]["ggmc"][rate] / results[names[i]][side][rate] for i in rows]
            axis.plot(values, rows, "o", label=side, alpha=0.8)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set(xscale="log", title=title, xlabel="effective draws per second: ggmc ÷ the other")
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(names)), [name[:20] for name in names])
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(f"{chains} chains")
    return figure


def main() -> None:
    """Race, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--slow", action="store_true", help="the posteriors with long loops, beside NumPyro's NUTS")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/measurements.md")
    parser.add_argument("names", nargs="*", help="posteriors; by default ten small ones")
    options = parser.parse_args()
    logging.getLogger("ggmc").setLevel(logging.ERROR)
    names = options.names or (SLOW if options.slow else QUICK)
    results = raced(names, options.chains, options.repeats, not options.slow)
    text = "\n\n".join(
        f"{title}, {options.chains} chains\n\n{table(results, rate)}"
        for rate, title in (("whole_rate", "Everything counted"), ("drawing_rate", "The drawing phase alone"))
    )
    print("\n" + text)
    OUT.mkdir(exist_ok=True)
    stem = f"race{'_slow' if options.slow else ''}_{options.chains}"
    (OUT / f"{stem}.json").write_text(json.dumps(results, indent=1))
    (OUT / f"{stem}.md").write_text(text + "\n")
    figure = drawn(results, options.chains)
    figure.savefig(OUT / f"{stem}.png", dpi=120, bbox_inches="tight")
    if options.docs:
        figure.savefig(DOCS / "figures" / f"{stem}.png", dpi=100, bbox_inches="tight")
        into_docs(stem, f"{text}\n\n![{options.chains} chains beside peers](figures/{stem}.png)")


def into_docs(stem: str, text: str) -> None:
    """Put a text between the two marks that name it in docs/measurements.md."""
    path = DOCS / "measurements.md"
    before, start, rest = path.read_text().partition(f"<!-- {stem} -->\n")
    _, end, after = rest.partition(f"<!-- end of {stem} -->")
    if not start or not end:
        raise SystemExit(f"{path} has no place for {stem}: <!-- {stem} --> … <!-- end of {stem} -->")
    path.write_text(f"{before}{start}\n{text}\n\n{end}{after}")


if __name__ == "__main__":
    main()
