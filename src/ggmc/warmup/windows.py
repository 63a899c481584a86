"""The windows of a warm-up: each half as long again as the one before."""

from __future__ import annotations

GROWTH = 1.5  # of each window over the one before


def windows(iterations: int) -> list[int]:
    """Where each window ends; what follows the last end is the closing phase.

    Example:
        >>> from ggmc.warmup.windows import windows
        >>> windows(1000)
        [30, 75, 143, 245, 398, 628, 900]
    """
    closing = max(round(0.1 * iterations), min(50, iterations // 2))
    length = max(20, round(0.03 * iterations))
    ends = [min(length, iterations - closing)]
    while ends[-1] + 2 * GROWTH * length <= iterations - closing:
        length = round(GROWTH * length)
        ends.append(ends[-1] + length)
    if iterations - closing - ends[-1] >= 20:
        ends.append(iterations - closing)
    return ends
