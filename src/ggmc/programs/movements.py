"""Operations of torch that put numbers elsewhere, or fill memory with one, as statements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeGuard

import torch
from torch import Tensor

from ggmc.plain import Tree
from ggmc.programs.loops import Place, Pointwise, Statement
from ggmc.programs.record import Call

PlaceOf = Callable[[Tensor], Place]
Made = list[Statement] | None
"""The statements of an operation; None where it is not compiled."""


def literal(number: Tree, dtype: torch.dtype) -> str:
    """A number as C writes it."""
    if not dtype.is_floating_point:
        return f"{int(number)}LL"
    value = float(number)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = f"{value!r}f" if dtype == torch.float32 else repr(value)
    return f"({text})" if value < 0 else text


def is_number(value: Tree) -> TypeGuard[float]:
    """Whether an argument is a plain number."""
    return isinstance(value, bool | int | float)


def longer(place: Place, where: int) -> Place:
    """With one more dimension of size 1."""
    shape, strides = list(place.shape), list(place.strides)
    shape.insert(where, 1)
    strides.insert(where, 0)
    return place._replace(shape=tuple(shape), strides=tuple(strides))


def _part(place: Place, dim: int, first: int, length: int, step: int = 1) -> Place:
    shape, strides = list(place.shape), list(place.strides)
    offset = place.offset + first * strides[dim]
    shape[dim], strides[dim] = length, strides[dim] * step
    return place._replace(offset=offset, shape=tuple(shape), strides=tuple(strides))


def _cat(call: Call, place_of: PlaceOf) -> Made:
    dim = call.args[1] % max(1, call.result.dim())
    made: list[Statement] = []
    first, whole = 0, place_of(call.result)
    for piece in call.args[0]:
        if piece.dim() != call.result.dim() or piece.dtype != call.result.dtype:  # torch skips empty ones
            return None
        source = place_of(piece)
        made.append(Pointwise(_part(whole, dim, first, piece.shape[dim]), "{0}", (source,)))
        first += piece.shape[dim]
    return made


def _stack(call: Call, place_of: PlaceOf) -> Made:
    dim = call.args[1] % call.result.dim()
    whole = place_of(call.result)
    made: list[Statement] = []
    for number, piece in enumerate(call.args[0]):
        into = _part(whole, dim, number, 1)
        made.append(Pointwise(into, "{0}", (longer(place_of(piece), dim),)))
    return made


def _filled(place: Place, number: float = 0.0) -> Pointwise:
    return Pointwise(place, literal(number, place.dtype), (), fills=True)


def _select_backward(call: Call, place_of: PlaceOf) -> Made:
    gradient, sizes, dim, index = call.args[:4]
    whole, dim = place_of(call.result), dim % len(sizes)
    into = _part(whole, dim, index % sizes[dim], 1)
    return [_filled(whole), Pointwise(into, "{0}", (longer(place_of(gradient), dim),))]


def _slice_backward(call: Call, place_of: PlaceOf) -> Made:
    gradient, sizes, dim, start, _, step = call.args[:6]
    whole, dim = place_of(call.result), dim % len(sizes)
    first = min(start + sizes[dim] if start < 0 else start, sizes[dim])
    return [
        _filled(whole),
        Pointwise(_part(whole, dim, first, gradient.shape[dim], step), "{0}", (place_of(gradient),)),
    ]


def _fill(call: Call, place_of: PlaceOf) -> Made:
    value = call.args[1]
    if not is_number(value):
        return None
    return [_filled(place_of(call.result), value)]


def _zeros(call: Call, place_of: PlaceOf) -> Made:
    return [_filled(place_of(call.result))]


def _roll(call: Call, place_of: PlaceOf) -> Made:
    operand, shifts = call.args[:2]
    dims = call.args[2]
    if len(shifts) != 1 or len(dims) != 1:
        return None
    dim = dims[0] % operand.dim()
    size = operand.shape[dim]
    shift = shifts[0] % max(1, size)
    source, into = place_of(operand), place_of(call.result)
    made: list[Statement] = [
        Pointwise(_part(into, dim, shift, size - shift), "{0}", (_part(source, dim, 0, size - shift),))
    ]
    if shift:
        made.append(Pointwise(_part(into, dim, 0, shift), "{0}", (_part(source, dim, size - shift, shift),)))
    return made


MOVES: dict[str, Callable[[Call, PlaceOf], Made]] = {
    "cat": _cat,
    "stack": _stack,
    "select_backward": _select_backward,
    "slice_backward": _slice_backward,
    "fill.Scalar": _fill,
    "fill_.Scalar": _fill,
    "zero_": _zeros,
    "zeros": _zeros,
    "zeros_like": _zeros,
    "new_zeros": _zeros,
    "roll": _roll,
}
