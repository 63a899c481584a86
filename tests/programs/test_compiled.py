"""Records compiled to C give what torch gives, for every operation of the table and for what is called back."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]

from ggmc.programs import compiled
from ggmc.programs.compiled import Compiled
from ggmc.programs.loops import CannotCompile, Extern
from ggmc.programs.record import record

F64, F32 = torch.float64, torch.float32
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
aten = torch.ops.aten
nn = torch.nn.functional


def compiled_of(
    function: Callable[..., Any], *inputs: Tensor, carried: dict[int, int] | None = None, each: Any = frozenset()
) -> Compiled:
    given = [x.clone() for x in inputs]
    calls, results = record(lambda: function(*given))
    results = list(results) if isinstance(results, tuple | list) else [results]
    return Compiled(calls, given, results, carried or {}, each)


def externs(program: Compiled) -> list[str]:
    return [str(one.call.function) for one in program.source.externs]


def numbers(*shape: int, dtype: torch.dtype = F64, seed: int = 0) -> Tensor:
    return 2 * torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def one(name: str, where: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A function of torch of one argument, where it is defined."""
    return lambda x, y: getattr(torch, name)(where(x))


POINTWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: torch.add(x, y, alpha=3),
    "add a number": lambda x, y: x + 2,
    "add, scaled number": lambda x, y: torch.add(x, 2, alpha=0.5),
    "sub": lambda x, y: torch.sub(x, y, alpha=0.5),
    "rsub": lambda x, y: 2 - x,
    "mul": lambda x, y: x * y * -1.5,
    "div": lambda x, y: x / y / 3,
    "over": lambda x, y: 1 / x,
    "neg": lambda x, y: -x,
    "square": lambda x, y: x.square(),
    "root": lambda x, y: x.abs().sqrt() + x.abs().rsqrt(),
    "signs": lambda x, y: x.sign() + y.sgn() * x.abs(),
    "powers": lambda x, y: x**2 + x**3 + x.abs() ** 0.5 + x**-1 + x**-2 + x**5 + x**1 + x.abs() ** 2.5,
    "power": lambda x, y: x.abs() ** y,
    "power of a number": lambda x, y: 0.3**x,
    "maximum": lambda x, y: torch.maximum(x, y) - torch.minimum(x, 2 * y),
    "clamps": lambda x, y: x.clamp(-1, 1) + x.clamp_min(0.5) * y.clamp_max(0.1) + x.clamp(max=1.0) + x.clamp(min=-1.0),
    "logaddexp": torch.logaddexp,
    "logaddexp of itself": lambda x, y: torch.logaddexp(x, x + 0 * y),
    "xlogy": lambda x, y: torch.xlogy(x.clamp_min(0), y.abs()),
    "softplus": lambda x, y: nn.softplus(x) + nn.softplus(y, beta=2.0, threshold=1.0),
    "logsigmoid": lambda x, y: nn.logsigmoid(x),
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "relu": lambda x, y: nn.relu(x),
    "softplus, backward": lambda x, y: aten.softplus_backward(x, y, 1.0, 0.5),
    "sigmoid, backward": lambda x, y: aten.sigmoid_backward(x, y),
    "tanh, backward": lambda x, y: aten.tanh_backward(x, y),
    "threshold, backward": lambda x, y: aten.threshold_backward(x, y, 0.2),
    "logsigmoid, backward": lambda x, y: aten.log_sigmoid_backward(x, y, aten.log_sigmoid_forward(y)[1]),
    "where": lambda x, y: torch.where((x > 0) & (y <= 1) | (x == y), x, 2 * y),
    "where not": lambda x, y: torch.where(~(x >= y), x, 0.0),
    "masked": lambda x, y: x.masked_fill(y < 0, -math.inf),
    "nan and inf": lambda x, y: torch.where(x.isnan() | (x * math.inf).isinf(), x, y),
    "equal": lambda x, y: ((x != y) & (x < 1.0) | (x == 0)).double().to(x.dtype),
    "atan2": torch.atan2,
    "copies": lambda x, y: x.clone() + y.contiguous().to(F32).to(x.dtype),
    **{name: one(name, lambda x: x) for name in (
        "exp", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "erf", "erfc", "atan", "asinh", "lgamma",
    )},
    **{name: one(name, lambda x: x.abs() + 0.1) for name in ("log", "log1p", "log2", "log10")},
    **{name: one(name, torch.tanh) for name in ("asin", "acos", "atanh")},
    "acosh": lambda x, y: torch.acosh(1 + x.abs()),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [F64, F32], ids=["double", "float"])
@pytest.mark.parametrize("name", POINTWISE)
def test_every_operation_gives_what_torch_gives(name: str, dtype: torch.dtype) -> None:
    """At ordinary numbers, at zero, infinity and NaN; broadcast, and with dimensions in another order."""
    function = POINTWISE[name]
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -3.0, 30.0], dtype=dtype)
    pairs = [
        (numbers(3, 17, dtype=dtype), numbers(3, 17, dtype=dtype, seed=1)),
        (numbers(4, 3, dtype=dtype), numbers(3, dtype=dtype, seed=1)),
        (special.repeat(8), special.repeat_interleave(8)),
    ]
    for x, y in pairs:
        program = compiled_of(function, x, y)
        assert externs(program) == []
        (found,) = program(1, [x, y])
        tolerance = 1e-12 if dtype == F64 and "copies" not in name else 1e-5
        torch.testing.assert_close(found, function(x, y), rtol=tolerance, atol=tolerance, equal_nan=True)
    turned = compiled_of(lambda x, y: function(x.mT, y.mT), numbers(5, 3, dtype=dtype), numbers(5, 3, dtype=dtype))
    x, y = numbers(5, 3, dtype=dtype, seed=2), numbers(5, 3, dtype=dtype, seed=3)
    torch.testing.assert_close(turned(1, [x, y])[0], function(x, y).mT, rtol=1e-5, atol=1e-5, equal_nan=True)


MOVES: dict[str, Callable[[Tensor], Any]] = {
    "sums": lambda x: (x.sum(), x.sum(0), x.sum((0, 2)), x.sum(-1, keepdim=True), x.sum((0, 1, 2))),
    "means": lambda x: (x.mean(), x.mean(1), x.mean((0, 2), keepdim=True)),
    "extremes": lambda x: (x.amax(0), x.amin((1, 2)), x.amax(-1, keepdim=True), x.max(), x.min()),
    "all and any": lambda x: ((x > 0).all(-1), (x > 1).any(0), (x < 9).all(), (x > 0).any(1, keepdim=True)),
    "a sum in double precision": lambda x: x.float().sum(-1, dtype=F64),
    "cat and stack": lambda x: (torch.cat([x, 2 * x], 1), torch.stack([x, x + 1], 0), torch.cat([x[:, :1], x], -2)),
    "views": lambda x: (x[:, 1:3], x.transpose(0, 2)[1], x.reshape(2, -1)[:, ::2] + 1, x.diagonal(dim1=0, dim2=2)),
    "roll": lambda x: (x.roll(1, 1), x.roll(-2, 2), x.roll(0, 0), torch.roll(x, 7, -1)),
    "backward of views": lambda x: (
        aten.select_backward(x[0], [3, 4, 5], 0, -1), aten.slice_backward(x[:, 1:3], [2, 4, 5], 1, 1, 3, 1),
        aten.slice_backward(x[:, :, :2], [2, 4, 5], 2, 0, 5, 3),
    ),
    "expanded": lambda x: x[:, :, :1].expand(2, 4, 3) * x.unsqueeze(1)[..., :3].squeeze(1),
    "products": lambda x: (x[0] @ x[1].mT, torch.bmm(x, x.mT), x[0] @ x[1, 0], x[0, 0] @ x[1, 0], x[0].mT @ x[1]),
    "in place": lambda x: x.clone().mul_(2).add_(x).sub_(1.0),
    "part in place": lambda x: _changed(x),
    "filled": lambda x: (torch.zeros_like(x).fill_(3) * x, x.new_zeros(2, 3) + x[0, :2, :3]),
    "called back": lambda x: (x.cumsum(1), x.softmax(-1), torch.digamma(x.abs() + 1), x[[1, 0, 1]], x.sort(-1)[0]),
    "called back in place": lambda x: x.clone().cumsum_(0),
    "whole numbers": lambda x: (x > 0).long() * 2 + (x < 1).long() - 1,
    "a large product": lambda x: (x.reshape(4, 10).repeat(30, 10) @ x.reshape(10, 4).repeat(10, 30)).sum(0),
}  # fmt: skip


def _changed(x: Tensor) -> Tensor:
    y = x * 2
    before = y.sum()
    y[0, 1] = x[1, 0] ** 2
    y[:, :, 2].mul_(3)
    return y + before


@pytest.mark.parametrize("name", MOVES)
def test_numbers_are_moved_and_added_up_as_torch_does(name: str) -> None:
    program = compiled_of(MOVES[name], numbers(2, 4, 5))
    for seed in range(3):
        x = numbers(2, 4, 5, seed=seed)
        expected = MOVES[name](x)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for found, wanted in zip(program(1, [x]), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert bool(externs(program)) == ("called back" in name or "a large product" in name)


def test_a_maximum_knows_nan() -> None:
    x = torch.tensor([[1.0, math.nan, 2.0], [3.0, -math.inf, math.inf]], dtype=F64)
    program = compiled_of(lambda x: (x.amax(1), x.amin(1), x.sum(1)), x)
    expected = (x.amax(1), x.amin(1), x.sum(1))
    for found, wanted in zip(program(1, [x]), expected, strict=True):
        torch.testing.assert_close(found, wanted, equal_nan=True)


def test_a_program_goes_on_from_where_it_ended() -> None:
    def step(x: Tensor, fixed: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        return x * fixed + own, x.sum()

    program = compiled_of(step, numbers(3), numbers(3), numbers(3), carried={0: 0}, each=frozenset({2}))
    x, fixed, own = numbers(3, seed=4), numbers(3, seed=5) / 4, numbers(5, 3, seed=6)
    found = program(5, [x, fixed, own], observed={0, 1})
    last = program(5, [x, fixed, own])
    for time in range(5):
        x, total = step(x, fixed, own[time])
        torch.testing.assert_close(found[0][time], x)
        torch.testing.assert_close(found[1][time], total)
    assert torch.equal(last[0], found[0][-1])
    assert torch.equal(last[1], found[1][-1])
    again = program(5, [numbers(3, seed=4), fixed, own])
    assert torch.equal(again[0], last[0])  # and gives the same numbers again
    with pytest.raises(ValueError, match=r"input 2 must be torch.float64 \[4, 3\]"):
        program(4, [x, fixed, own])


def test_call_backs_go_on_too() -> None:
    program = compiled_of(
        lambda x, own: x.cumsum(0) / 2 + own, numbers(3), numbers(3), carried={0: 0}, each=frozenset({1})
    )
    x, own = numbers(3, seed=1), numbers(4, 3, seed=2)
    expected = x
    for time in range(4):
        expected = expected.cumsum(0) / 2 + own[time]
    torch.testing.assert_close(program(4, [x, own])[0], expected)


def test_errors_of_call_backs_reach_the_caller() -> None:
    program = compiled_of(torch.linalg.cholesky, torch.eye(3, dtype=F64))
    with pytest.raises(LinAlgError):
        program(1, [-torch.eye(3, dtype=F64)])
    torch.testing.assert_close(program(1, [4 * torch.eye(3, dtype=F64)])[0], 2 * torch.eye(3, dtype=F64))


def test_what_gives_nothing_new_is_left_out() -> None:
    table = torch.arange(3.0, dtype=F64)

    def wasteful(x: Tensor) -> Tensor:
        unused = x.exp().sum()
        assert unused.shape == ()
        return (x.sin() * table.cos().cumsum(0) + x.sin() * 1).sum()

    program = compiled_of(wasteful, numbers(3))
    text = program.source.text[program.source.text.index("static int part0") :]
    assert text.count("sin(") == 1
    assert "exp(" not in text
    assert "cos(" not in text  # a constant
    x = numbers(3, seed=1)
    torch.testing.assert_close(program(1, [x])[0], wasteful(x))


def test_constants_are_read_where_they_are() -> None:
    """Not copied: whoever changes them in place is seen, as by the function itself."""
    table = torch.ones(3, dtype=F64)
    program = compiled_of(lambda x: x * table[1:], numbers(2))
    table.fill_(5.0)
    assert torch.equal(program(1, [torch.ones(2, dtype=F64)])[0], torch.full((2,), 5.0, dtype=F64))


def test_a_long_record_is_compiled_in_parts() -> None:
    def loop(x: Tensor) -> Tensor:
        for i in range(300):
            x = (x + 0.01 * x.roll(1).sin() + i * 1e-4).tanh()
        return x

    program = compiled_of(loop, numbers(5))
    assert "part5" in program.source.text
    x = numbers(5, seed=3)
    torch.testing.assert_close(program(1, [x])[0], loop(x), rtol=1e-10, atol=1e-10)


def test_memory_is_used_again() -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(30):
            x = x.cos().mean(1, keepdim=True) + x.roll(1, 1) / 2
        return x

    program = compiled_of(chain, numbers(50, 50))
    assert program.source.workspace < 8 * 50 * 50 * 8
    x = numbers(50, 50, seed=1)
    torch.testing.assert_close(program(1, [x])[0], chain(x))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.to(torch.float16), "float16"),
        (lambda x: torch.complex(x, x).real, "complex128"),
        (lambda x: FIXED.mul_(x), "changes a tensor that it did not make"),
    ],
)
def test_what_cannot_be_compiled_is_refused(function: Any, reason: str) -> None:
    with pytest.raises(CannotCompile, match=reason):
        compiled_of(function, numbers(3))


FIXED = torch.ones(3, dtype=F64)


def test_inputs_must_not_share_memory() -> None:
    x = numbers(3)
    calls, result = record(lambda: x * 2)
    with pytest.raises(CannotCompile, match="share memory"):
        Compiled(calls, [x, x.view(3)], [result], {})


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CannotCompile, match="there is no C compiler: install gcc or clang"):
        compiled_of(lambda x: x + 1, numbers(3))


def test_a_compiler_that_fails_or_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "FLAGS", ["--no-such-flag"])
    with pytest.raises(CannotCompile, match="failed: "):
        compiled_of(lambda x: x + 1, numbers(3))

    def slow(*_: Any, **options: Any) -> Any:
        raise subprocess.TimeoutExpired("cc", options["timeout"])

    monkeypatch.setattr(subprocess, "run", slow)
    with pytest.raises(CannotCompile, match="timed out"):
        compiled_of(lambda x: x + 1, numbers(3))


def test_a_folder_from_which_nothing_may_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> Any:
        raise OSError(f"{path}: failed to map segment from shared object")

    monkeypatch.setattr(compiled.ctypes, "CDLL", refused)
    with pytest.raises(CannotCompile, match="failed to map segment"):
        compiled_of(lambda x: x + 1, numbers(3))


def test_the_compiler_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc")
    assert compiled.compiler().endswith("gcc")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert compiled.compiler().endswith("cc")


def test_externs_say_what_they_are() -> None:
    program = compiled_of(lambda x: x.cumsum(0) + 1, numbers(3))
    assert all(isinstance(one, Extern) for one in program.source.externs)
    assert externs(program) == ["aten.cumsum.default"]
