"""Statements as loops in C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from ggmc.programs.loops import TYPES, Buffer, Group, Place, Pointwise, Product, Reduction


class Loops:
    """Writes statements as loops.

    Args:
        buffers: The buffers of the program.
        where: What points to a buffer, by its number, in C.
    """

    def __init__(self, buffers: Sequence[Buffer], where: Callable[[int], str]):
        self._buffers, self._where = buffers, where

    def pointwise(self, group: Group) -> str:
        """Statements over the same indices, in one loop."""
        statements = [statement for statement in group.statements if isinstance(statement, Pointwise)]
        names: dict[Place, str] = {}
        fresh = (f"x{number}" for number in count())
        loads: list[Place] = []
        body: list[str] = []
        for statement in statements:
            for place in statement.operands:
                if place not in names:
                    names[place] = next(fresh)
                    loads.append(place)
                    body.append(f"const {TYPES[place.dtype]} {names[place]} = {{{len(loads) - 1}}};")
            result = statement.result
            value = statement.expression.format(*(names[place] for place in statement.operands))
            name = next(fresh)
            body.append(f"const {TYPES[result.dtype]} {name} = {value};")
            names[result] = name
        stores = [place for place in names if place in group.stored]
        for place in stores:
            body.append(f"{{{len(loads) + stores.index(place)}}} = {names[place]};")
        if not stores:
            return ""
        places = [*loads, *stores]
        loops = _loops(statements[0].result.shape, [place.strides for place in places], stores[0].strides)
        at = [self._at(place, [strides[k] for _, strides in loops]) for k, place in enumerate(places)]
        lines = [line.format(*at) if "{" in line else line for line in body]
        return self._nest([size for size, _ in loops], lines, places, simd=True)

    def reduction(self, one: Reduction) -> str:
        """A loop over what is kept, around one over what is added up."""
        source, result = one.operand, one.result
        kept = [number for number in range(len(source.shape)) if number not in one.dims]
        outer = _loops(
            [source.shape[n] for n in kept], [result.strides, [source.strides[n] for n in kept]], result.strides
        )
        inner_strides = [source.strides[n] for n in one.dims]
        inner = _loops([source.shape[n] for n in one.dims], [inner_strides], inner_strides)
        strides = [s[1] for _, s in outer] + [s[0] for _, s in inner]
        read = self._at(source, strides)
        write = self._at(result, [s[0] for _, s in outer])
        start = {"sum": "0", "max": "-INFINITY", "min": "INFINITY"}[one.kind]
        if one.kind == "sum":
            step, clause = f"total += {read};", " reduction(+ : total)"
        else:
            sign = ">" if one.kind == "max" else "<"
            step, clause = f"{{ const double x = {read}; if (x {sign} total || x != x) total = x; }}", None
        lines = [f"double total = {start};"]
        lines += _nested([size for size, _ in inner], [step], clause, first=len(outer))
        factor = "" if one.factor == 1.0 else f" * {one.factor!r}"
        lines.append(f"{write} = total{factor};")
        return self._nest([size for size, _ in outer], lines, [source, result], simd=False)

    def product(self, one: Product) -> str:
        """Three loops, the innermost along the memory of b."""
        a, b, result = one.a, one.b, one.result
        batch = list(range(len(result.shape) - 2))
        (m, n), k = result.shape[-2:], a.shape[-1]
        kind = TYPES[result.dtype]
        at = len(batch)
        i, j, inner = at, at + 1, at + 2

        def index(place: Place, row: int, column: int) -> str:
            own = [(number, place.strides[number]) for number in batch]
            return self._indexed(place, [*own, (row, place.strides[-2]), (column, place.strides[-1])])

        if b.strides[-1] == 1 or (n > 1 and b.strides[-2] != 1):  # along the rows of b
            lines = [f"for (long i{i} = 0; i{i} < {m}; ++i{i}) {{"]
            lines += _nested([n], [f"{index(result, i, i + 1)} = 0;"], "", first=i + 1)
            lines.append(
                f"for (long i{inner} = 0; i{inner} < {k}; ++i{inner}) {{ const {kind} x = {index(a, i, inner)};"
            )
            lines += _nested([n], [f"{index(result, i, j)} += x * {index(b, inner, j)};"], "", first=j)
            lines += ["}", "}"]
        else:
            lines = [
                f"for (long i{i} = 0; i{i} < {m}; ++i{i}) for (long i{j} = 0; i{j} < {n}; ++i{j}) {{ {kind} total = 0;"
            ]
            lines += _nested(
                [k], [f"total += {index(a, i, inner)} * {index(b, inner, j)};"], " reduction(+ : total)", first=inner
            )
            lines += [f"{index(result, i, j)} = total;", "}"]
        return self._nest([result.shape[number] for number in batch], lines, [a, b, result], simd=False)

    def _nest(self, sizes: Sequence[int], lines: Sequence[str], places: Sequence[Place], *, simd: bool) -> str:
        if 0 in sizes:
            return ""
        made = _nested(sizes, lines, "" if simd else None)
        return "    {\n" + "".join(f"        {line}\n" for line in [*self._declared(places), *made]) + "    }\n"

    def _declared(self, places: Sequence[Place]) -> list[str]:
        """The pointers that a block needs."""
        lines: list[str] = []
        for number in dict.fromkeys(place.buffer for place in places):
            kind = TYPES[self._buffers[number].dtype]
            lines.append(f"{kind} *const b{number} = ({kind} *)({self._where(number)});")
        return lines

    def _at(self, place: Place, strides: Sequence[int]) -> str:
        return self._indexed(place, list(enumerate(strides)))

    def _indexed(self, place: Place, strides: Sequence[tuple[int, int]]) -> str:
        terms = [str(place.offset)] if place.offset else []
        terms += [f"i{n}" if stride == 1 else f"{stride} * i{n}" for n, stride in strides if stride]
        return f"b{place.buffer}[{' + '.join(terms) or '0'}]"


def _nested(sizes: Sequence[int], lines: Sequence[str], clause: str | None, first: int = 0) -> list[str]:
    """Lines within loops; the innermost one is vectorised where there is a clause for it."""
    made: list[str] = []
    for number, size in enumerate(sizes):
        if clause is not None and number == len(sizes) - 1 and size > 1:
            made.append(f"#pragma omp simd{clause}")
        made.append(f"for (long i{first + number} = 0; i{first + number} < {size}; ++i{first + number}) {{")
    return [*made, *lines, *("}" for _ in sizes)]


def _loops(shape: Sequence[int], strides: Sequence[Sequence[int]], order: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Sizes and strides of the loops over a shape: outermost first, as few as possible."""
    dims = sorted((n for n in range(len(shape)) if shape[n] != 1), key=lambda n: -order[n])
    merged: list[tuple[int, list[int]]] = []
    for n in dims:
        size, own = shape[n], [s[n] for s in strides]
        if merged and all(outer == inner * size for outer, inner in zip(merged[-1][1], own, strict=True)):
            merged[-1] = (merged[-1][0] * size, own)
        else:
            merged.append((size, own))
    return merged
