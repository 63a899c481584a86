from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Dirichlet, HalfCauchy, MultivariateNormal, Normal, StudentT
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]

from ggmc.programs.record import CannotRecord
from ggmc.programs.replay import Program, program_of
from ggmc.targets.batched import no_validation

F64 = torch.float64
FIXED = torch.randn(5, 3, dtype=F64)


def gradient_of(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Value and gradient in each row, by vmap and autograd, as targets have them computed."""

    def of(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().requires_grad_()
        values = torch.func.vmap(function)(x)
        return values.detach(), torch.autograd.grad(values.sum(), x)[0]

    return of


def indexed(x: Tensor) -> Tensor:
    return (x[torch.tensor([0, 2, 2, 1])] * x[:2].sum()).exp().sum()


def in_place(x: Tensor) -> Tensor:
    y = x * torch.ones(3, dtype=F64)
    y[0] = x[1] ** 2
    y.mul_(3)
    return y.square().sum()


def cholesky(x: Tensor) -> Tensor:
    covariance = x[:, None] * x[None] + torch.eye(3, dtype=F64)
    return MultivariateNormal(torch.zeros(3, dtype=F64), covariance).log_prob(FIXED).sum()


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "a linear model": lambda x: Normal(FIXED @ x, x[0].exp()).log_prob(torch.ones(5, dtype=F64)).sum(),
    "heavy tails": lambda x: StudentT(3.0).log_prob(x).sum() + HalfCauchy(1.0).log_prob(x[0].exp()),
    "a simplex": lambda x: Dirichlet(torch.ones(3, dtype=F64)).log_prob(x.softmax(0)),
    "a loop": lambda x: torch.stack([x * i for i in range(5)]).cumsum(0).tanh().sum(),
    "a recursion": lambda x: sum((x[0] * 0.5**i + x[1]).sin() for i in range(10)) + x[2] ** 2,
    "a choice of values": lambda x: torch.where(x > 0, x.abs().log1p(), x**2).sum(),
    "a Cholesky factor": cholesky,
    "a Hessian": lambda x: torch.func.jacrev(torch.func.jacrev(lambda y: (y**4).sum()))(x).trace(),
    "an index": indexed,
    "in place": in_place,
    "no slope": lambda x: (x * 0).sum() + 3.0,
    "powers of one": lambda x: (x**1 * 1.0 / 1).sum() + x.view(3).expand(3).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_gives_the_same_numbers_to_the_last_bit(name: str) -> None:
    function = gradient_of(FUNCTIONS[name])
    with no_validation():  # which looks at values
        program = program_of(function, (torch.randn(4, 3, dtype=F64),))
    for seed in range(5):
        x = 2 * torch.randn(4, 3, dtype=F64, generator=torch.Generator().manual_seed(seed))
        with no_validation():
            pairs = list(zip(program(x), function(x), strict=True))
        for found, expected in pairs:
            assert torch.equal(found, expected)
            assert found.stride() == expected.stride()
            assert not found.requires_grad


def test_arguments_may_be_nested_and_results_of_any_form() -> None:
    def function(x: Tensor, batch: tuple[Tensor, dict[str, Tensor]]) -> dict[str, Any]:
        shared, named = batch
        return {"sum": x + shared, "both": (named["w"] * 2, [x])}

    one, two, three = torch.ones(2), torch.full((2,), 2.0), torch.full((2,), 3.0)
    program = program_of(function, (one, (two, {"w": three})))
    found = program(three, (one, {"w": two}))
    assert found["sum"].tolist() == [4, 4]
    assert found["both"][0].tolist() == [4, 4]
    assert found["both"][1][0].tolist() == [3, 3]


def test_what_is_the_same_at_each_call_is_computed_once() -> None:
    data = torch.rand(100, dtype=F64) + 1

    def function(x: Tensor) -> Tensor:
        return (data.log().sum() + torch.zeros(3, dtype=F64).exp()) * x + torch.ones_like(x)

    program = program_of(function, (torch.ones(3, dtype=F64),))
    assert isinstance(program, Program)
    assert program.source.count("=") == 2  # a product and a sum
    data.mul_(2)  # the record holds what it was: see `Traced`, which compares
    assert not torch.equal(program(torch.ones(3, dtype=F64)), function(torch.ones(3, dtype=F64)))


def test_results_are_the_callers_own() -> None:
    """To change a result changes neither an argument nor what the next call gives."""
    program = program_of(lambda x: (x.detach(), torch.full((2,), 7.0)), (torch.ones(2),))
    x = torch.ones(2)
    for result in program(x):
        result.zero_()
    assert x.tolist() == [1, 1]
    assert program(x)[1].tolist() == [7, 7]


def test_what_is_changed_in_place_is_made_anew_at_each_call() -> None:
    def function(x: Tensor) -> Tensor:
        total = torch.zeros(2)
        total.add_(x)
        return total.add_(x)

    program = program_of(function, (torch.ones(2),))
    for _ in range(3):
        assert program(torch.ones(2)).tolist() == [2, 2]


def test_one_tensor_that_is_two_arguments_is_not_recorded() -> None:
    """It could not be told which of the two an operation has read."""
    x = torch.ones(2)
    with pytest.raises(CannotRecord, match="several of its arguments"):
        program_of(lambda a, b: a - 2 * b, (x, x))


def test_operations_of_one_name_are_told_apart() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.ops.aten.exp.default(x) + torch.ops.prims.exp.default(2 * x)

    program = program_of(function, (torch.zeros(2),))
    assert isinstance(program, Program)
    assert " exp(" in program.source
    assert "prims_exp(" in program.source
    assert torch.equal(program(torch.ones(2)), function(torch.ones(2)))


def test_a_matrix_without_a_factor_stays_an_error() -> None:
    program = program_of(lambda x: torch.linalg.cholesky(x).diagonal().sum(), (torch.eye(2),))
    assert program(4 * torch.eye(2)).item() == 4
    with pytest.raises(LinAlgError):
        program(-torch.eye(2))


def test_tensors_that_are_not_needed_again_are_let_go() -> None:
    def function(x: Tensor) -> Tensor:
        for _ in range(3):
            x = x.exp()
        return x

    program = program_of(function, (torch.zeros(2),))
    assert isinstance(program, Program)
    assert [line.strip() for line in program.source.splitlines() if "del" in line] == ["del t0", "del t1"]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x * x.sum().item(), "depend on values"),
        (lambda x: x if x.sum() > 0 else -x, "depend on values"),
        (lambda x: x + torch.randn(2), "draws random numbers"),
        (lambda x: torch.nn.functional.dropout(x), "draws random numbers"),
        (lambda x: torch.func.hessian(lambda y: (y**4).sum())(x), "derivatives in forward mode"),
    ],
)
def test_what_depends_on_values_or_chance_cannot_be_recorded(function: Callable[[Tensor], Tensor], why: str) -> None:
    with pytest.raises(CannotRecord, match=why):
        program_of(function, (torch.ones(2),))
