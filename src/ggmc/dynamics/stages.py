"""Stages by name: parts of words with several kicks per step, of unequal times, that travel further per gradient.

A step of s stages has s gradients, and its times are chosen so that the energy error is small at steps about s times
as long as leapfrog's. All read the same backwards and are of second order. They pay where many directions share the
error, in smooth targets of high dimension; where a few stiff directions limit the step, leapfrog is the most stable.

    BCSS2, BCSS3, BCSS4   Blanes, Casas and Sanz-Serna, "Numerical integrators for the hybrid Monte Carlo method", 2014:
                          the smallest mean energy error for Gaussians over all steps up to s
    ME2                   McLachlan, "On the numerical integration of ordinary differential equations by symmetric
                          composition methods", 1995: the smallest error as h goes to 0

They begin and end with a kick; with a d after the name, such as `BCSS3d`, with a drift: kicks and drifts exchanged.
These have s gradients per trajectory step exactly, as minibatches want.

Example:
    >>> from ggmc.dynamics.scheme import Scheme
    >>> print(Scheme("O(BCSS2)O").plan(1))
    outside the test O h; tested B 0.2113h, A h/2, B 0.5774h, A h/2, B 0.2113h
    >>> print(Scheme("O(BCSS2d)O").plan(1))
    outside the test O h; tested A 0.2113h, B h/2, A 0.5774h, B h/2, A 0.2113h
"""

from __future__ import annotations

_KICKS_FIRST = {
    "ME2": "B0.1931833275037836ABAB0.1931833275037836",
    "BCSS2": "B0.2113248654051871ABAB0.2113248654051871",
    "BCSS3": "B0.11888010966548A0.29619504261126BABA0.29619504261126B0.11888010966548",
    "BCSS4": (
        "B0.0713539134502797259A0.1916678B0.26854879116123010582ABAB0.26854879116123010582A0.1916678"
        "B0.0713539134502797259"
    ),
}

STAGES: dict[str, str] = _KICKS_FIRST | {
    f"{name}d": letters.translate(str.maketrans("AB", "BA")) for name, letters in _KICKS_FIRST.items()
}
"""The letters that each name stands for, with their shares of the step."""
