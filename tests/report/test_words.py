"""Numbers and times as a reader sees them, by value."""

from __future__ import annotations

import math

import pytest

from ggmc.report.words import count, duration, number, rhat, shortened


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1234.4, 4, "1,234"),
        (9999.7, 4, "1e+04"),
        (12_345.6, 4, "12,346"),
        (-12_345.6, 4, "−12,346"),
        (-0.0001236, 3, "−0.000124"),
        (0.123456, 2, "0.12"),
        (123.4, 2, "123"),
        (0.0, 4, "0"),
        (math.inf, 4, "∞"),
        (-math.inf, 4, "−∞"),
        (math.nan, 4, "–"),
        (None, 4, "–"),
    ],
)
def test_numbers(value: float | None, digits: int, text: str) -> None:
    assert number(value, digits) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.00449, "1.004"), (9.9994, "9.999"), (12.3, "12"), (999.0, "999"), (1000.0, "over 1,000"), (math.inf, "–"),
     (math.nan, "–"), (None, "–")],
)  # fmt: skip
def test_rhat(value: float | None, text: str) -> None:
    assert rhat(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.123, "0.12 s"), (89, "89 s"), (90, "1.5 min"), (5399, "90 min"), (5400, "1.5 h"), (71 * 3600, "71 h"),
     (72 * 3600, "3.0 days"), (None, "–"), (math.nan, "–")],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_counts() -> None:
    assert [count(n, "draw") for n in (0, 1, 2, 2000)] == ["0 draws", "1 draw", "2 draws", "2,000 draws"]


def test_what_is_shortened_keeps_both_ends() -> None:
    text = "abcdefghij"
    assert [shortened(text, most) for most in (5, 6, 9, 10)] == ["ab…ij", "ab…hij", "abcd…ghij", text]
