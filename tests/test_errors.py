"""Refusals: each says in a structured form which condition of exactness would break."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest
import torch

import ggmc
from ggmc.errors import Condition, NotExact

SOURCE = Path(__file__).parent.parent / "src" / "ggmc"


def refusals() -> list[tuple[str, ast.Call]]:
    found: list[tuple[str, ast.Call]] = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "NotExact":
                found.append((f"{path.relative_to(SOURCE)}:{node.lineno}", node))
    return found


@pytest.mark.parametrize(("where", "call"), refusals(), ids=lambda part: part if isinstance(part, str) else "")
def test_every_refusal_names_its_condition(where: str, call: ast.Call) -> None:
    assert len(call.args) >= 2, f"{where} does not say which condition it is about"


def test_conditions_are_the_six_of_the_design() -> None:
    assert [condition.number for condition in Condition] == [1, 2, 3, 4, 5, 6]
    assert all(condition.sentence.endswith(".") for condition in Condition)


def test_conditions_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(NotExact("why", Condition.TAPE)))
    assert str(error) == "why"
    assert error.conditions == (Condition.TAPE,)


def one_way(entries: int, batches: int, generator: torch.Generator) -> torch.Tensor:
    return torch.arange(entries) % batches


@pytest.mark.parametrize(
    ("refused", "condition"),
    [
        (lambda: ggmc.GGMC(scheme="OBA"), Condition.WORD),
        (lambda: ggmc.SGHMC(0.1, adjust=True), Condition.WORD),
        (lambda: ggmc.SGNHT(0.1, adjust=True), Condition.WORD),
        (lambda: ggmc.SGLD(0.1, adjust=True), Condition.TEST),
        (lambda: ggmc.GGMC(0.1, along=ggmc.schedule.Along(ggmc.schedule.Cosine())), Condition.STEPS),
        (lambda: ggmc.GGMC(0.1, over=ggmc.schedule.Over(4, temperature=ggmc.schedule.Cosine())), Condition.TEST),
    ],
)
def test_kernels_say_what_would_break(refused, condition: Condition) -> None:
    with pytest.raises(NotExact) as error:
        refused()
    assert error.value.conditions == (condition,)


@pytest.mark.parametrize("reversible", [True, False])
def test_an_order_with_a_direction_breaks_the_tape(reversible: bool) -> None:
    data = torch.zeros(12, dtype=torch.float64)
    target = ggmc.DataDensity(lambda x: -(x.sum() ** 2), lambda x, y: -((x - y) ** 2), data, torch.zeros(1).double())
    guide = ggmc.Minibatch(2, ggmc.CustomOrder(one_way, reversible=reversible))
    with pytest.raises(NotExact) as error:
        ggmc.GGMC(0.1, steps=6, guide=guide).bind(target)
    assert error.value.conditions == (Condition.TAPE,)


def test_a_random_potential_is_a_random_gradient_too() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    posterior = ggmc.Posterior(net, "categorical", ggmc.priors.Gaussian(), torch.randn(8, 2), torch.arange(8) % 2)
    with pytest.raises(NotExact) as error:
        ggmc.HMC(0.1, 2).bind(posterior)
    assert error.value.conditions == (Condition.POTENTIAL, Condition.GRADIENT)
