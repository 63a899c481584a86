"""What the sections of a run say, by value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ggmc
from ggmc.report.findings import Findings, find
from ggmc.report.parts import Section
from ggmc.report.sections import acceptance, energy, mixing
from ggmc.trace.mixing import Measured
from tests.support.traces import Gaussian, Regression, regression_data, trace_of, white_noise

UNTESTED = ggmc.GGMC(0.1, adjust=False)


def captions(section: Section) -> list[str]:
    return [picture.caption for picture in section.pictures]


def each(*values: float, draws: int = 1000) -> np.ndarray:
    """One value for each chain."""
    return np.repeat(np.array(values)[:, None], draws, 1)


# Acceptance


def test_acceptance_of_chains_that_differ() -> None:
    found = find(trace_of(white_noise(2), acceptance_rate=each(0.5, 0.7)))
    said = "Acceptance is 0.60 on average; by chain, 0.50 to 0.70. Lines are running means over 50 trajectories."
    assert captions(acceptance(found, "r0"))[0] == said


def test_acceptance_of_a_short_run_without_the_test() -> None:
    found = find(trace_of(white_noise(2, 100), kernel=UNTESTED))
    section = acceptance(found, "r0")
    said = (
        "Acceptance would have been 0.80 on average, alike in all chains. Lines are running means over 10 trajectories."
    )
    assert captions(section)[0] == said
    assert section.paragraphs[0].startswith("Trajectories were not tested.")
    alone = find(trace_of(white_noise(1, 10)))
    assert captions(acceptance(alone, "r0"))[0] == "Acceptance is 0.80 on average."


def test_each_chain_counts_the_same_however_much_of_it_is_known() -> None:
    rates = each(0.5, 0.7)
    rates[0, 10:] = np.nan
    found = find(trace_of(white_noise(2), acceptance_rate=rates))
    assert found.acceptance is not None
    np.testing.assert_allclose(found.acceptance, [0.5, 0.7])
    assert found.mean_acceptance == pytest.approx(0.6)


def test_quantiles_of_log_alpha_are_of_what_is_finite() -> None:
    values = -np.arange(2000.0).reshape(2, 1000)
    values[1, -500:] = -np.inf
    caption = captions(acceptance(find(trace_of(white_noise(2), log_accept=values)), "r0"))[1]
    assert caption.startswith("log α is −750 at the median, and above −1,424 in 95 % of trajectories.")
    assert caption.endswith("500 of 2,000 had log α = −∞, for example where a trajectory diverged.")


def test_divergences_are_counted_by_chain() -> None:
    diverging = np.zeros((3, 1000), dtype=bool)
    diverging[1, 5] = diverging[2, 7:9] = True
    section = acceptance(find(trace_of(white_noise(3), diverging=diverging)), "r0")
    assert section.paragraphs[-1].startswith("3 of 3,000 trajectories diverged")
    assert section.paragraphs[-1].endswith("By chain: 0, 1, 2.")
    good = acceptance(find(trace_of(white_noise(3))), "r0")
    assert good.paragraphs == ["None of 3,000 trajectories diverged."]


# Energy


def test_the_potential_of_both_halves() -> None:
    lp = np.where(np.arange(1000) < 500, -1.0, -3.0)
    caption = captions(energy(find(trace_of(white_noise(), lp=lp)), "r0"))[0]
    assert caption == (
        "The potential is 1 on average in the first half and 3 in the second, 2 standard deviations apart: the chains "
        "may still be on their way. Strong lines are running means over 50 draws."
    )
    steady = captions(energy(find(trace_of(white_noise(), lp=np.arange(1000) % 2)), "r0"))[0]
    assert "−0.5 on average in the first half and −0.5 in the second, 0 standard deviations apart: no sign" in steady


@pytest.mark.parametrize(("temperature", "words"), [(1.0, "which holds T"), (2.0, "which does not hold T")])
def test_temperatures_are_compared_with_the_kernels(temperature: float, words: str) -> None:
    kinetic = np.random.default_rng(1).chisquare(2, (4, 1000)) / 2
    trace = trace_of(white_noise(size=2), None, ggmc.GGMC(0.1, temperature=temperature), kinetic_temperature=kinetic)
    caption = captions(energy(find(trace), "r0"))[1]
    table = trace.temperatures(draws=20, level=0.95).loc["all"]
    kind = "The kinetic temperature is {kinetic:.3g} (95 % interval {kinetic_low:.3g} to {kinetic_high:.3g}, "
    assert caption.startswith(kind.format(**table) + words)
    assert f"the configurational temperature is {table['configurational']:.3g}" in caption
    assert caption.endswith(f"In equilibrium both are T = {temperature:g}.")


def test_without_a_target_the_kinetic_temperature_remains() -> None:
    kinetic = np.random.default_rng(1).chisquare(2, (4, 1000)) / 2
    trace = trace_of(white_noise(size=2), kinetic_temperature=kinetic)
    known = captions(energy(find(trace), "r0"))[1].split(";")[0]
    trace.target = None
    assert captions(energy(find(trace), "r0"))[1].split(". In")[0] == known


def test_temperatures_of_tensors_have_their_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from ggmc.report import charts

    seen: dict[str, Any] = {}
    monkeypatch.setattr(charts, "intervals", lambda *given, **_: seen.update(given=given) or "<svg/>")
    trace = trace_of(white_noise(2, 100, 3) / 3, Regression(*regression_data()))
    trace.stats = {**trace.stats, "kinetic_temperatures": 1 + white_noise(2, 100, 2) / 10}
    energy(find(trace), "r0")
    _, names, series, level = seen["given"]
    table = trace.temperatures(draws=20)
    assert (names, level) == (["all", "weight", "noise"], 1.0)
    for kind, values in series.items():
        np.testing.assert_allclose(values, table[[kind, f"{kind}_low", f"{kind}_high"]])


# Mixing


def measured(found: Findings, rhat: list[float], bulk: list[float], tail: list[float]) -> Findings:
    """Findings as if these had been measured."""
    names = [f"theta[{i}]" for i in range(len(rhat))]
    columns = [float(i) + white_noise(2)[..., 0] for i in range(len(rhat))]
    return replace(found, measured=Measured(names, columns, *map(np.array, (rhat, bulk, tail))))


def test_the_table_of_the_worst() -> None:
    rhat = [1.001, 1.2, np.nan, 1.2]
    found = measured(find(trace_of(white_noise(2))), rhat, [400, 150, 100, 120], [300, 250, 200, 90])
    section = mixing(found, "r0")
    (table,) = section.tables
    assert table.head == ["", "mean", "sd", "R̂", "ESS bulk", "ESS tail"]
    assert [row[0] for row in table.rows] == ["theta[2]", "theta[3]", "theta[1]", "theta[0]"]
    column = white_noise(2)[..., 0]
    assert table.rows[1] == ["theta[3]", f"{column.mean() + 3:.4g}", f"{column.std():.4g}", "1.200", "120", "90"]
    assert table.rows[0][3:] == ["–", "100", "200"]
    wanted = "R̂ should be at most 1.01, and effective draws at least 200."
    assert table.caption == f"All of them, the largest R̂ first. {wanted}"
    assert "Ranks of the 3 numbers with the largest R̂" in captions(section)[0]
    assert section.pictures[0].label == "Rank histograms of theta[3], theta[1], theta[0]"


def test_of_many_numbers_the_worst_ten_are_shown() -> None:
    rhat = list(1 + np.arange(12) / 1000)  # two of them above 1.01 by less than rounding shows
    rhat[10:] = [1.02, 1.03]
    section = mixing(measured(find(trace_of(white_noise(2))), rhat, [500.0] * 12, [500.0] * 12), "r0")
    assert captions(section)[0] == "R̂ of 12 numbers: median 1.006, worst 1.030. 2 of them are above 1.01."
    assert [row[0] for row in section.tables[0].rows] == [f"theta[{i}]" for i in range(11, 1, -1)]
    assert section.tables[0].caption.startswith("The 10 with the largest R̂.")


def test_one_chain_and_a_long_run_are_said() -> None:
    section = mixing(find(trace_of(white_noise(1, 4500))), "r0")
    assert section.paragraphs[0].endswith("There is one chain, whose first half is compared with its second.")
    assert "Where the two halves of the chain agree" in captions(section)[0]
    assert section.notes[0].startswith("The run is long, so one draw in 3 was looked at.")
    assert "at least 100." in section.tables[0].caption


def test_numbers_of_all_dimensions_are_told_apart() -> None:
    trace = trace_of(white_noise(size=6), Gaussian({"a": (), "b": (2, 2), "c": (1,)}))
    names = {row[0] for row in mixing(find(trace), "r0").tables[0].rows}
    assert names == {"a", "b[0, 0]", "b[0, 1]", "b[1, 0]", "b[1, 1]", "c[0]"}
