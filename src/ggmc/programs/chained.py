"""Several compiled programs that take turns, many times over, in one call: each reads what the others have written."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

import torch

from ggmc.programs.compiled import MOST_RESULTS, Compiled, Turn, built

SOURCE = (
    f"#define MOST_RESULTS {MOST_RESULTS}"
    + """
typedef int (*callback)(int);
typedef struct {
    int (*run)(long, unsigned char *, void *const *, const long *, void *const *, const long *, callback);
    unsigned char *w;
    char **given; const long *step;
    char **out; const long *out_step;
    callback call;
    const long *times;
    long inputs, outputs;
} turn;

int take_turns(long n, long number, turn *turns) {
    static const long none[MOST_RESULTS];
    for (long k = 0; k < n; ++k)
        for (turn *one = turns; one < turns + number; ++one) {
            const long times = one->times ? one->times[k] : 1;
            if (one->run(times, one->w, (void *const *)one->given, one->step, (void *const *)one->out, none, one->call))
                return 1;
            for (long i = 0; i < one->inputs; ++i) one->given[i] += times * one->step[i];
            for (long i = 0; i < one->outputs; ++i) one->out[i] += one->out_step[i];
        }
    return 0;
}
"""
)


@cache
def prepare() -> Callable[..., int]:
    """The function that lets programs take turns, compiled once."""
    return built(SOURCE, "take_turns", [ctypes.c_long, ctypes.c_long, ctypes.POINTER(Turn)])


@torch.no_grad()
def take_turns(number: int, programs: Sequence[Compiled], turns: Sequence[Turn]) -> None:
    """Carry out programs in turn.

    Args:
        number: How many turns each of them has.
        programs: The programs.
        turns: Their arguments, from `Compiled.turn`.

    Example:
        >>> import torch
        >>> from ggmc.programs.chained import take_turns
        >>> from ggmc.programs.compiled import Compiled
        >>> from ggmc.programs.record import record
        >>> x, seen = torch.ones(2), torch.empty(3, 2)
        >>> calls, result = record(lambda: 2 * x)
        >>> double = Compiled(calls, [x], [result], {0: 0})
        >>> calls, result = record(lambda: x + 1)
        >>> increase = Compiled(calls, [x], [result], {})
        >>> times = torch.tensor([1, 2, 1])
        >>> turns = [double.turn(times, [x], (), [x], ()), increase.turn(None, [x], (), [seen], {0})]
        >>> take_turns(3, [double, increase], turns)
        >>> seen[:, 0]
        tensor([ 3.,  9., 17.])
    """
    if prepare()(number, len(turns), (Turn * len(turns))(*turns)):
        for program in programs:
            program.raise_error()
