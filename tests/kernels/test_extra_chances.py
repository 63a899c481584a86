"""A kernel with several chances along one path, written as a user would: one class of settings, one `trajectory`."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import ggmc
from ggmc.dynamics.mass import MassLike
from ggmc.dynamics.state import Info, State, choose
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels import Program, WordKernel, WordSampler
from ggmc.kernels.words import Setup
from ggmc.targets.base import Target
from tests.support.invariance import noisy_quartic, quartic, violations


class TwoChances(WordSampler):
    """A path that is rejected goes on for as long again, under the same uniform: Campos and Sanz-Serna, 2015."""

    def trajectory(self, start: State, setup: Setup) -> tuple[State, Info]:
        middle, work = self.carry_out(start, setup)
        after, info = self.test(start, middle, work, setup)
        if info.accepted.all():
            return after, info
        tape = self.field.tape(setup.plan.gradients, len(work), setup.generator)
        end, more = self.carry_out(middle, setup._replace(tape=tape))
        late, late_info = self.test(start, end, work + more, setup)
        first = info.accepted
        chosen = choose(first, after, late)
        accepted = first | late_info.accepted
        return chosen._replace(trajectories=after.trajectories), info._replace(accepted=accepted)


@dataclass(frozen=True, eq=False)
class TwoChanceHMC(WordKernel):
    step_size: float | None = None
    steps: int | None = 2
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = True

    def program(self, field: GradientField) -> Program:
        return Program("OBABO", friction=0.3, steps=self.steps)

    def on(self, program: Program, target: Target, field: GradientField) -> WordSampler:
        return TwoChances(self, program, target, field)


def test_it_is_exact() -> None:
    assert violations(quartic(), TwoChanceHMC(1.0), trajectories=30) == {}
    assert (
        violations(noisy_quartic(), TwoChanceHMC(0.5, steps=3, guide=ggmc.Minibatch(4, "iid")), trajectories=10) == {}
    )


def test_without_the_flip_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = TwoChances.trajectory

    def without_flip(self: TwoChances, start: State, setup: Setup) -> tuple[State, Info]:
        after, info = usual(self, start, setup)
        return after._replace(momentum=torch.where(info.accepted[:, None], after.momentum, -after.momentum)), info

    monkeypatch.setattr(TwoChances, "trajectory", without_flip)
    assert violations(quartic(), TwoChanceHMC(1.0), trajectories=30) != {}


def test_more_trajectories_are_accepted_and_all_is_tuned() -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(20, dtype=torch.float64))
    one = ggmc.sample(target, ggmc.GGMC(0.9, 0.3, 3), 300, 50, progress=False).stats["is_accepted"].mean()
    two = ggmc.sample(target, TwoChanceHMC(0.9, 3), 300, 50, progress=False).stats["is_accepted"].mean()
    assert two > one
    assert ggmc.sample(target, TwoChanceHMC(), 100, 200, progress=False).kernel.step_size > 0.1
