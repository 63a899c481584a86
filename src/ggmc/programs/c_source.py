"""A program in C: one function that carries it out n times, each time from where it ended before.

Every buffer that the program makes lies in one workspace `w`, whose places are used again once nothing reads them.
Inputs and constants come as pointers `p`. What C does not compute is called back by its number. A program of many
loops is cut into functions, since compilers take long for long ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ggmc.programs.c_loops import Loops
from ggmc.programs.loops import (
    Buffer,
    Extern,
    Group,
    Place,
    Pointwise,
    Product,
    Reduction,
    fuse,
    written,
)
from ggmc.programs.lowering import Lowered

ALIGNED = 64  # bytes
LOOPS_AT_ONCE = 40  # in one function

PROLOGUE = """\
#if defined(__linux__)
#include <features.h>
#endif
#include <stddef.h>
#include <string.h>
#define INFINITY __builtin_inf()
#define NAN __builtin_nan("")
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
#define VECTOR __attribute__((simd("notinbranch")))
#endif
#endif
#ifndef VECTOR
#define VECTOR
#endif
#define ONE(name) extern double name(double) __attribute__((const)); extern float name##f(float) __attribute__((const));
#define MANY(name) extern VECTOR double name(double) __attribute__((const)); \\
    extern VECTOR float name##f(float) __attribute__((const));
#define TWO(name) extern double name(double, double) __attribute__((const)); \\
    extern float name##f(float, float) __attribute__((const));
MANY(exp) MANY(expm1) MANY(log) MANY(log1p) MANY(log2) MANY(log10) MANY(sin) MANY(cos) MANY(tan) MANY(tanh) MANY(sinh)
MANY(cosh) MANY(erf) MANY(erfc) MANY(asin) MANY(acos) MANY(atan) MANY(asinh) MANY(acosh) MANY(atanh)
ONE(sqrt) ONE(fabs) ONE(lgamma) TWO(atan2)
extern VECTOR double pow(double, double) __attribute__((const));
extern VECTOR float powf(float, float) __attribute__((const));
typedef int (*callback)(int);
"""


@dataclass(frozen=True)
class Source:
    """A program in C.

    Args:
        text: The source. Its function `run(n, w, given, step, out, out_step, call)` returns 1 if a call back failed,
            else 0.
        workspace: Bytes of w.
        places: Where in w each buffer lies that is not given, by number.
        pointers: The buffers that are given, in the order of `given`: inputs first, then constants.
        externs: What is called back, by number.
    """

    text: str
    workspace: int
    places: dict[int, int]
    pointers: list[int]
    externs: list[Extern]


def source_of(program: Lowered, inputs: int, carried: Mapping[int, int]) -> Source:
    """A program as C.

    Args:
        program: Its statements.
        inputs: How many inputs there are.
        carried: For each input that the program itself carries on, the number of the result that it becomes.
    """
    return _Writer(program, inputs, carried).source()


class _Writer:
    def __init__(self, program: Lowered, inputs: int, carried: Mapping[int, int]):
        self._program, self._carried, self._inputs = program, carried, inputs
        self._groups = fuse(program.statements, program.results)
        self._argument = {b.argument: i for i, b in enumerate(program.buffers) if b.argument is not None}
        self._externs: list[Extern] = []
        self._read_by_externs = {
            place.buffer
            for group in self._groups
            for statement in group.statements
            if isinstance(statement, Extern)
            for place in (*statement.reads, *(place for place, _ in statement.results))
        }
        constants = [i for i, b in enumerate(program.buffers) if b.constant is not None]
        self._pointers = [self._argument[i] for i in range(inputs)] + constants
        self._slot = {number: slot for slot, number in enumerate(self._pointers)}
        self._places, self._size = self._laid_out()
        self._loops = Loops(program.buffers, self._where)

    def source(self) -> Source:
        parts: list[str] = []
        for first in range(0, len(self._groups), LOOPS_AT_ONCE):
            loops = "".join(map(self._group, self._groups[first : first + LOOPS_AT_ONCE]))
            head = f"static int part{len(parts)}(unsigned char *restrict w, void *const *restrict p, callback call)"
            parts.append(f"{head} {{\n{loops}    return 0;\n}}\n")
        text = PROLOGUE + "".join(parts) + self._run(len(parts))
        return Source(text, self._size, self._places, self._pointers, self._externs)

    def _laid_out(self) -> tuple[dict[int, int], int]:
        """Where each buffer lies in the workspace, and its size. Memory is used again after its last reader."""
        buffers = self._program.buffers
        last: dict[int, int] = {}
        for number, group in enumerate(self._groups):
            for place in _in_memory(group):
                last[place.buffer] = number
        forever = {place.buffer for place in self._program.results} | self._read_by_externs
        places: dict[int, int] = {}
        size = 0

        def room_for(number: int) -> int:
            nonlocal size
            bytes_ = _bytes(buffers[number])
            if free.get(bytes_):
                return free[bytes_].pop()
            size += bytes_
            return size - bytes_

        free: dict[int, list[int]] = {}
        copies = [self._argument[i] for i in range(self._inputs) if self._is_copied(i)]
        for number in [*copies, *sorted(forever)]:
            if number not in places and (buffers[number].temporary or number in copies):
                places[number] = room_for(number)
        ending: dict[int, list[int]] = {}
        for number, group in enumerate(self._groups):
            for place in _in_memory(group):
                if place.buffer in places or not buffers[place.buffer].temporary:
                    continue
                places[place.buffer] = room_for(place.buffer)
                ending.setdefault(last[place.buffer], []).append(place.buffer)
            for done in ending.get(number, []):
                free.setdefault(_bytes(buffers[done]), []).append(places[done])
        return places, max(size, ALIGNED)

    def _is_copied(self, argument: int) -> bool:
        """Whether an input has a place in the workspace: what is carried on, or what a call back reads."""
        return argument in self._carried or self._argument[argument] in self._read_by_externs

    def _where(self, buffer: int) -> str:
        return f"w + {self._places[buffer]}" if buffer in self._places else f"p[{self._slot[buffer]}]"

    def _group(self, group: Group) -> str:
        first = group.statements[0]
        if isinstance(first, Pointwise):
            return self._loops.pointwise(group)
        if isinstance(first, Reduction):
            return self._loops.reduction(first)
        if isinstance(first, Product):
            return self._loops.product(first)
        self._externs.append(first)
        return f"    if (call({len(self._externs) - 1})) return 1;\n"

    def _run(self, parts: int) -> str:
        buffers = self._program.buffers
        number = len(self._pointers)
        lines = [f"void *p[{max(1, number)}];", f"memcpy(p, given, {number} * sizeof(void *));"]
        for argument in sorted(self._carried):
            where = self._places[self._argument[argument]]
            lines.append(f"memcpy(w + {where}, given[{argument}], {_exact(buffers[self._argument[argument]])});")
            lines.append(f"p[{argument}] = w + {where};")
        lines.append("for (long k = 0; k < n; ++k) {")
        for argument in range(self._inputs):
            if argument in self._carried:
                continue
            lines.append(f"p[{argument}] = (char *)given[{argument}] + k * step[{argument}];")
            if self._is_copied(argument):
                own = self._argument[argument]
                lines.append(f"memcpy(w + {self._places[own]}, p[{argument}], {_exact(buffers[own])});")
        lines += [f"if (part{part}(w, p, call)) return 1;" for part in range(parts)]
        for result, place in enumerate(self._program.results):
            size = _exact(buffers[place.buffer])
            lines.append(f"if (out_step[{result}] || k == n - 1)")
            lines.append(
                f"    memcpy((char *)out[{result}] + k * out_step[{result}], w + {self._places[place.buffer]}, {size});"
            )
        for argument, result in sorted(self._carried.items()):
            where, made = self._places[self._argument[argument]], self._places[self._program.results[result].buffer]
            lines.append(f"memcpy(w + {where}, w + {made}, {_exact(buffers[self._argument[argument]])});")
        lines.append("}")
        head = (
            "int run(long n, unsigned char *w, void *const *given, const long *step, void *const *out, "
            "const long *out_step, callback call)"
        )
        return f"{head} {{\n" + "".join(f"    {line}\n" for line in lines) + "    return 0;\n}\n"


def _in_memory(group: Group) -> list[Place]:
    """The places of a group that need memory: not those that only its own loop reads."""
    if group.shape is None:
        return [*group.statements[0].reads, *written(group.statements[0])]
    made = {statement.result for statement in group.statements if isinstance(statement, Pointwise)}
    read = [place for statement in group.statements for place in statement.reads if place not in made]
    return [*read, *(place for place in made if place in group.stored)]


def _exact(buffer: Buffer) -> int:
    return buffer.numbers * buffer.dtype.itemsize


def _bytes(buffer: Buffer) -> int:
    return ALIGNED * math.ceil(max(1, _exact(buffer)) / ALIGNED)
