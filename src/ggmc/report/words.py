"""Numbers and times as a reader wants them."""

from __future__ import annotations

import math


def count(number: int, what: str) -> str:
    """How many of something: "1 chain", "2,000 draws"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def number(value: float | None, digits: int = 4) -> str:
    """A number with so many digits; "–" where it is not known, signs of infinity as such."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:,.{digits}g}".replace("-", "−") if abs(value) < 10**digits else f"{value:,.0f}".replace("-", "−")


def rhat(value: float | None) -> str:
    """R̂ with the digits that matter; of chains that never met, it has no size to speak of."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.3f}" if value < 10 else f"{value:.0f}" if value < 1000 else "over 1,000"


def duration(seconds: float | None) -> str:
    """A time in its own unit.

    Example:
        >>> from ggmc.report.words import duration
        >>> duration(4.21), duration(200), duration(7500)
        ('4.2 s', '3.3 min', '2.1 h')
    """
    if seconds is None or not math.isfinite(seconds):
        return "–"
    for unit, length, longest in (("s", 1, 90), ("min", 60, 90 * 60), ("h", 3600, 72 * 3600)):
        if seconds < longest:
            return f"{seconds / length:.2g} {unit}" if seconds / length < 10 else f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.1f} days"


def shortened(text: str, most: int) -> str:
    """A text of at most so many letters, with its middle left out."""
    if len(text) <= most:
        return text
    front = (most - 1) // 2
    return f"{text[:front]}…{text[len(text) - (most - 1 - front) :]}"
