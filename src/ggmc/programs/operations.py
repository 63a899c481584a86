"""Operations of torch as statements: the table of those that are compiled. All others are called back.

The expressions are C; `{0}` is the first argument, and `F(exp)` is `exp` or `expf`, as the precision wants it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from ggmc.plain import Tree
from ggmc.programs.loops import TYPES, Place, Pointwise, Product, Reduction
from ggmc.programs.movements import MOVES, Made, PlaceOf, is_number, literal, longer
from ggmc.programs.record import Call

LARGEST_PRODUCT = 2**15  # multiplications, beyond which torch's own matrix product is quicker, its call included

ARITHMETIC = {
    "add.Tensor": "{0} + {alpha} * {1}",
    "add.Scalar": "{0} + {alpha} * {1}",
    "sub.Tensor": "{0} - {alpha} * {1}",
    "sub.Scalar": "{0} - {alpha} * {1}",
    "rsub.Scalar": "{1} - {alpha} * {0}",
    "mul.Tensor": "{0} * {1}",
    "mul.Scalar": "{0} * {1}",
    "div.Tensor": "{0} / {1}",
    "div.Scalar": "{0} / {1}",
    "neg": "-{0}",
    "reciprocal": "1 / {0}",
    "square": "{0} * {0}",
    "sqrt": "F(sqrt)({0})",
    "rsqrt": "1 / F(sqrt)({0})",
    "abs": "F(fabs)({0})",
    "sign": "({0} > 0) - ({0} < 0)",
    "sgn": "({0} > 0) - ({0} < 0)",
    **{name: f"F({name})({{0}})" for name in ("exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan")},
    **{name: f"F({name})({{0}})" for name in ("tanh", "sinh", "cosh", "erf", "erfc", "lgamma")},
    **{name: f"F({name})({{0}})" for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "atan2": "F(atan2)({0}, {1})",
    "pow.Tensor_Tensor": "F(pow)({0}, {1})",
    "pow.Scalar": "F(pow)({0}, {1})",
    "sigmoid": "1 / (1 + F(exp)(-{0}))",
    "relu": "{0} < 0 ? 0 : {0}",
    "maximum": "{0} > {1} || {0} != {0} ? {0} : {1}",
    "minimum": "{0} < {1} || {0} != {0} ? {0} : {1}",
    "clamp_min": "{0} < {1} ? {1} : {0}",
    "clamp_max": "{0} > {1} ? {1} : {0}",
    "logaddexp": "{0} == {1} ? {0} + F(log)(2) : ({0} > {1} ? {0} : {1}) + F(log1p)(F(exp)(-F(fabs)({0} - {1})))",
    "xlogy.Tensor": "{1} != {1} ? {1} : {0} == 0 ? 0 : {0} * F(log)({1})",
    "softplus": "{0} * {1} > {2} ? {0} : F(log1p)(F(exp)({0} * {1})) / {1}",
    "softplus_backward": "{1} * {2} > {3} ? {0} : {0} / (1 + F(exp)(-{1} * {2}))",
    "log_sigmoid_forward": "({0} < 0 ? {0} : 0) - F(log1p)(F(exp)(-F(fabs)({0})))",
    "log_sigmoid_backward": "{0} / (1 + F(exp)({1}))",
    "sigmoid_backward": "{0} * (1 - {1}) * {1}",
    "tanh_backward": "{0} * (1 - {1} * {1})",
    "threshold_backward": "{1} <= {2} ? 0 : {0}",
    "clone": "{0}",
    "copy": "{1}",
    "_to_copy": "{0}",
    "lift_fresh_copy": "{0}",
    "_unsafe_view": "{0}",
    "reshape": "{0}",
    "expand_copy": "{0}",
}
"""Of real numbers, with results of the same kind."""

COMPARISONS = {
    **{f"{name}.{kind}": f"{{0}} {sign} {{1}}" for name, sign in (
        ("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")
    ) for kind in ("Tensor", "Scalar")},
    "isnan": "{0} != {0}",
    "isinf": "{0} == INFINITY || {0} == -INFINITY",
    "logical_and": "{0} && {1}",
    "logical_or": "{0} || {1}",
    "logical_not": "!{0}",
    "bitwise_and.Tensor": "{0} && {1}",
    "bitwise_or.Tensor": "{0} || {1}",
    "bitwise_not": "!{0}",
}  # fmt: skip
"""With results that are true or false."""

CHOICES = {
    "where.self": ("{0} ? {1} : {2}", 0),
    "masked_fill.Scalar": ("{1} ? {2} : {0}", 1),
    "masked_fill.Tensor": ("{1} ? {2} : {0}", 1),
}
"""With the number of the argument that is true or false."""

WHOLE_NUMBERS_TOO = {"add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "mul.Tensor", "mul.Scalar", "neg"}
WHOLE_NUMBERS_TOO |= {"clone", "copy", "_to_copy", "_unsafe_view", "reshape", "expand_copy"}


def statements_of(call: Call, place_of: PlaceOf) -> Made:
    """An operation as statements, None if it is not among those that are compiled.

    Args:
        call: The operation.
        place_of: Where the numbers of a tensor lie.
    """
    name = str(call.function).removeprefix("aten.").removesuffix(".default")
    call = call._replace(args=_all_arguments(call))
    if name not in ARITHMETIC and name.partition(".")[0].endswith("_"):  # in place: the same, written elsewhere
        first, dot, overload = name.partition(".")
        name = first.rstrip("_") + dot + overload
    if name in MOVES:
        return MOVES[name](call, place_of)
    result = call.result[0] if name == "log_sigmoid_forward" else call.result
    if not isinstance(result, Tensor):
        return None
    if name in ARITHMETIC:
        if not result.is_floating_point() and (name not in WHOLE_NUMBERS_TOO or _becomes_true_or_false(call, result)):
            return None
        alpha = call.args[2] if name.startswith(("add.", "sub.", "rsub.")) else 1
        expression = ARITHMETIC[name].replace("{alpha} * ", "" if alpha == 1 else f"{literal(alpha, result.dtype)} * ")
        return _pointwise(result, expression, call.args, result.dtype, place_of)
    if name == "pow.Tensor_Scalar" and result.is_floating_point():
        return _pointwise(result, _power(call.args[1], result.dtype), call.args[:1], result.dtype, place_of)
    if name == "clamp" and result.is_floating_point():
        bounds = [template for template, bound in zip(_CLAMP, call.args[1:], strict=True) if bound is not None]
        expression = bounds[0] if len(bounds) == 1 else "{0} < {1} ? {1} : {0} > {2} ? {2} : {0}"
        return _pointwise(result, expression, call.args, result.dtype, place_of)
    if name in COMPARISONS:
        first, *others = call.args
        within = torch.result_type(first, others[0]) if others else first.dtype
        if result.dtype != torch.bool or (name.startswith("bitwise") and within != torch.bool):
            return None
        return _pointwise(result, f"({COMPARISONS[name]}) ? 1 : 0", call.args, within, place_of)
    if name in CHOICES:
        expression, condition = CHOICES[name]
        return _pointwise(result, expression, call.args, result.dtype, place_of, as_it_is=condition)
    if name in REDUCTIONS:
        return _reduction(call, REDUCTIONS[name], place_of)
    if name in ("mm", "bmm", "mv", "dot"):
        return _product(result, call.args[0], call.args[1], place_of)
    return None


def _all_arguments(call: Call) -> tuple[Tree, ...]:
    """In the order of the schema, defaults filled in."""
    schema = call.function._schema.arguments[len(call.args) :]
    return (*call.args, *(call.kwargs.get(arg.name, arg.default_value) for arg in schema))


_CLAMP = ("{0} < {1} ? {1} : {0}", "{0} > {2} ? {2} : {0}")


def _becomes_true_or_false(call: Call, result: Tensor) -> bool:
    return result.dtype == torch.bool and any(isinstance(x, Tensor) and x.dtype != torch.bool for x in call.args)


def _pointwise(
    result: Tensor,
    expression: str,
    args: Sequence[Tree],
    within: torch.dtype,
    place_of: PlaceOf,
    as_it_is: int | None = None,
) -> Made:
    """One expression.

    Args:
        result: What torch made of it.
        expression: With the numbers of arguments.
        args: The arguments.
        within: The kind of number that is computed with.
        place_of: Where the numbers of a tensor lie.
        as_it_is: The number of an argument that is not converted to that kind.
    """
    into = place_of(result)
    if within not in TYPES:
        return None
    operands: list[Place] = []
    texts: list[str] = []
    for number, arg in enumerate(args):
        if f"{{{number}}}" not in expression:
            texts.append("")
        elif isinstance(arg, Tensor):
            kept = arg.dtype == within or number == as_it_is
            texts.append(f"{{{len(operands)}}}" if kept else f"(({TYPES[within]}){{{len(operands)}}})")
            operands.append(broadcast(place_of(arg), result.shape))
        elif is_number(arg):
            texts.append(literal(arg, within))
        else:
            return None
    text = re.sub(r"F\((\w+)\)", lambda found: found[1] + ("f" if within == torch.float32 else ""), expression)
    return [Pointwise(into, text.format(*texts), tuple(operands))]


def broadcast(place: Place, shape: Sequence[int]) -> Place:
    """A place as torch broadcasts it to a shape."""
    missing = len(shape) - len(place.shape)
    strides = (0,) * missing + tuple(
        0 if own == 1 else stride for own, stride in zip(place.shape, place.strides, strict=True)
    )
    return place._replace(shape=tuple(shape), strides=strides)


def _power(exponent: float, dtype: torch.dtype) -> str:
    known = {1: "{0}", 2: "{0} * {0}", 3: "{0} * {0} * {0}", 0.5: "F(sqrt)({0})", -1: "1 / {0}", -2: "1 / ({0} * {0})"}
    return known.get(exponent, f"F(pow)({{0}}, {literal(exponent, dtype)})")


REDUCTIONS = {
    "sum": "sum", "sum.dim_IntList": "sum", "mean": "mean", "mean.dim": "mean",
    "amax": "max", "amin": "min", "max": "max", "min": "min",
    "all": "min", "all.dim": "min", "all.dims": "min", "any": "max", "any.dim": "max", "any.dims": "max",
}  # fmt: skip


def _reduction(call: Call, kind: str, place_of: PlaceOf) -> Made:
    operand, result = call.args[0], call.result
    logical = operand.dtype == result.dtype == torch.bool and kind in ("min", "max")
    if (not logical and not (operand.is_floating_point() and result.is_floating_point())) or operand.numel() == 0:
        return None
    given: Tree = None
    if len(call.args) > 1 and call.function._schema.arguments[1].name == "dim":
        given = call.args[1]
    given = [given] if isinstance(given, int) else given
    dims = tuple(range(operand.dim())) if not given else tuple(d % max(1, operand.dim()) for d in given)
    if operand.dim() == 0:
        dims = ()
    place, source = place_of(result), place_of(operand)
    if len(place.shape) == len(source.shape):  # keepdim
        kept = [number for number in range(len(source.shape)) if number not in dims]
        place = place._replace(
            shape=tuple(place.shape[number] for number in kept), strides=tuple(place.strides[number] for number in kept)
        )
    factor = 1.0
    if kind == "mean":
        factor = 1.0 / math.prod(source.shape[number] for number in dims)
    return [Reduction(place, source, dims, "sum" if kind == "mean" else kind, factor)]


def _product(result: Tensor, a: Tensor, b: Tensor, place_of: PlaceOf) -> Made:
    if not result.is_floating_point() or result.numel() * a.shape[-1] > LARGEST_PRODUCT or a.numel() == 0:
        return None
    places = [place_of(result), place_of(a), place_of(b)]
    if b.dim() == 1:
        places[2] = longer(places[2], 1)
        places[0] = longer(places[0], len(places[0].shape))
    if a.dim() == 1:
        places[1] = longer(places[1], 0)
        places[0] = longer(places[0], 0)
    return [Product(*places)]
