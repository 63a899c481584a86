"""What settings are refused, and that those given reach the motion."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import ggmc
from ggmc.errors import BadInput, NotExact
from ggmc.kernels import WordKernel, WordSampler
from tests.support.kernels import quartic_with_data

F64 = torch.float64
KINDS = [ggmc.GGMC, ggmc.HMC, ggmc.MALA, ggmc.MALT, ggmc.AMAGOLD]
BASELINES = [ggmc.SGLD, ggmc.SGHMC, ggmc.SGNHT]


def settings_of(kind: Any) -> set[str]:
    return set(kind.__dataclass_fields__)


@pytest.mark.parametrize("kind", [*KINDS, *BASELINES])
class TestBadSettings:
    @pytest.mark.parametrize(
        ("setting", "value", "why"),
        [
            ("step_size", -0.1, "step_size must be a positive number, got -0.1"),
            ("step_size", 0.0, "step_size must be a positive number"),
            ("step_size", math.inf, "step_size must be a positive number"),
            ("step_size", math.nan, "step_size must be a positive number"),
            ("step_size", "big", "step_size must be a number"),
            ("temperature", -1.0, "temperature must be zero or a positive number, got -1.0"),
            ("temperature", math.inf, "temperature must be zero or a positive number"),
            ("friction", -1.0, "friction must be zero or a positive number, got -1.0"),
            ("friction", math.nan, "friction must be zero or a positive number"),
            ("friction", "2", "friction must be a number, got '2'"),
            ("steps", 0, "steps must be a whole number of at least 1, got 0"),
            ("steps", 1.5, "steps must be a whole number"),
            ("steps", (3, 2), r"pair \(least, most\), got \(3, 2\)"),
            ("steps", (1, 2, 3), "pair"),
            ("mass", [1.0, -1.0], "positive definite"),
            ("mass", "dense", "mass='dense' is found in warm-up: leave step_size out too"),
            ("mass", "heavy", "mass must be a tensor or one of 'identity', 'diagonal', .* got 'heavy'"),
            ("guide", "exact", "guide must be a guide such as .* got 'exact'"),
            ("guide", ggmc.Minibatch, "guide must be a guide such as .* got the class Minibatch"),
            ("guide", ggmc.Exact, "got the class Exact"),
            ("guide", ggmc.Minibatch("auto"), "is found in warm-up"),
            ("monitor_every", 0, "monitor_every must be a whole number of at least 1, got 0"),
            ("thermal_mass", 0.0, "thermal_mass must be a positive number, got 0.0"),
        ],
    )
    def test_are_refused(self, kind: Any, setting: str, value: Any, why: str) -> None:
        if setting not in settings_of(kind):
            pytest.skip(f"{kind.__name__} has no {setting}")
        settings = {"step_size": 0.1} | ({"steps": 2} if "steps" in settings_of(kind) else {})
        with pytest.raises(BadInput, match=why):
            kind(**(settings | {setting: value}))

    def test_a_mass_of_another_size_is_refused(self, kind: Any) -> None:
        settings = {"steps": 2} if "steps" in settings_of(kind) else {}
        with pytest.raises(BadInput, match="mass is for 3 parameters, but the target has 2"):
            kind(step_size=0.1, mass=[1.0, 1.0, 1.0], **settings).bind(quartic_with_data())


@pytest.mark.parametrize("kind", KINDS)
class TestKindsThatAreTuned:
    def test_temperature_zero_has_no_test(self, kind: Any) -> None:
        with pytest.raises(BadInput, match="use adjust=False"):
            kind(temperature=0.0)
        kind(temperature=0.0, adjust=False)

    def test_an_open_step_size_cannot_be_bound_by_hand(self, kind: Any) -> None:
        with pytest.raises(BadInput, match=r"step_size=None is tuned by ggmc\.sample"):
            kind().bind(quartic_with_data())

    def test_what_is_left_open_stays_open(self, kind: Any) -> None:
        kernel = kind()
        for name in ("step_size", "steps", "scheme", "mass"):
            assert getattr(kernel, name, None) is None


@pytest.mark.parametrize("kind", BASELINES)
def test_baselines_cannot_be_tested(kind: Any) -> None:
    with pytest.raises(NotExact, match="adjust=False"):
        kind(step_size=0.1, adjust=True)


@pytest.mark.parametrize("kind", [ggmc.HMC, ggmc.MALT])
def test_a_given_step_size_needs_steps_where_one_step_is_another_sampler(kind: Any) -> None:
    with pytest.raises(BadInput, match="needs steps too"):
        kind(step_size=0.1)


@pytest.mark.parametrize("kind", [*KINDS, *BASELINES])
def test_every_setting_reaches_the_motion(kind: Any) -> None:
    given: dict[str, Any] = {
        "step_size": 0.3,
        "steps": (2, 5),
        "friction": 0.3,
        "temperature": 0.5,
        "mass": [1.0, 2.0],
        "adjust": False,
        "monitor_every": 3,
    }
    kernel: WordKernel = kind(**{name: value for name, value in given.items() if name in settings_of(kind)})
    sampler = kernel.sampler(quartic_with_data(), ggmc.Exact().bind(quartic_with_data()))
    assert isinstance(sampler, WordSampler)
    parameters, program = sampler.parameters, sampler.program
    assert not sampler.adjust
    assert (parameters.step_size.item(), parameters.temperature.item()) == (0.3, 0.5)
    assert torch.equal(parameters.mass.velocity(torch.ones(1, 2, dtype=F64)), torch.tensor([[1.0, 0.5]], dtype=F64))
    fixed = {ggmc.HMC: math.inf, ggmc.MALA: math.inf, ggmc.SGLD: math.inf}
    assert parameters.friction.item() == program.friction == fixed.get(kind, 0.3)
    assert parameters.steps == ((1, 1) if kind is ggmc.MALA else (2, 5))
    assert program.monitor_every == (3 if "monitor_every" in settings_of(kind) else 1)


@pytest.mark.parametrize("steps", ["two sweeps", "0 epochs", "3", "-1 steps", "1.5 sweeps"])
def test_other_texts_are_no_lengths(steps: str) -> None:
    with pytest.raises(BadInput, match="must read like '3 epochs'"):
        ggmc.GGMC(0.1, steps=steps)


def test_a_start_outside_the_support_is_an_error() -> None:
    target = ggmc.Density(lambda x: torch.where(x[1] > -1, -(x**2).sum(), -torch.inf), torch.zeros(2, dtype=F64))
    init, _ = ggmc.MALA(0.1).bind(target)
    with pytest.raises(BadInput, match="chain 1 starts at a potential of inf"):
        init(torch.tensor([[0.0, 0.0], [0.0, -5.0]], dtype=F64), torch.Generator())


@pytest.mark.parametrize("kind", [*KINDS, *BASELINES])
def test_what_is_not_given_has_its_usual_value(kind: Any) -> None:
    given: dict[str, Any] = {"step_size": 0.1} | ({"steps": 2} if kind in (ggmc.HMC, ggmc.MALT) else {})
    usual = {
        "friction": 1.0,
        "guide": ggmc.Exact(),
        "temperature": 1.0,
        "mass": None,
        "adjust": kind in KINDS,
        "fresh_momentum": False,
        "monitor_every": 1,
        "along": None,
        "over": None,
        "explain": 0.0,
        "thermal_mass": 1.0,
    }
    kernel = kind(**given)
    for name in settings_of(kind) & usual.keys():
        assert getattr(kernel, name) == usual[name], name
    parameters = kernel.sampler(quartic_with_data(), ggmc.Exact().bind(quartic_with_data())).parameters
    assert (parameters.step_size.item(), parameters.temperature.item()) == (0.1, 1.0)
    assert parameters.steps == ((2, 2) if "steps" in given else (1, 1))
