import math

import pytest

import ggmc
from ggmc.errors import BadInput


@pytest.mark.parametrize("euler", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9, 0.994, 1.0])
def test_there_and_back(momentum: float, euler: bool) -> None:
    step_size, friction = ggmc.from_learning_rate(0.03, momentum, 1234, euler=euler)
    lr, back = ggmc.to_learning_rate(step_size, friction, 1234, euler=euler)
    assert lr == pytest.approx(0.03)
    assert back == pytest.approx(momentum, abs=1e-12)


def test_the_papers_formulas() -> None:
    step_size, friction = ggmc.from_learning_rate(0.01, 0.9, 50_000)
    assert step_size == pytest.approx(math.sqrt(0.01 / 50_000))
    assert friction == pytest.approx(-math.sqrt(50_000 / 0.01) * math.log(0.9))
    assert ggmc.from_learning_rate(0.01, 0.9, 50_000, euler=True)[1] == pytest.approx(0.1 / step_size)
    assert ggmc.from_learning_rate(0.01, 0.0, 50_000)[1] == math.inf


@pytest.mark.parametrize(
    ("arguments", "why"),
    [((-0.1, 0.9, 10), "lr"), ((0.1, 1.1, 10), "momentum"), ((0.1, 0.9, 0), "num_data"), ((0.1, 0.9, 1.5), "num_data")],
)
def test_bad_values_are_refused(arguments, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        ggmc.from_learning_rate(*arguments)


def test_euler_refuses_more_friction_than_it_can_take() -> None:
    with pytest.raises(BadInput, match="at most 1"):
        ggmc.to_learning_rate(1.0, 2.0, 10, euler=True)
