"""Where the energy error comes from: the guide's noise, or the step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.schedule import Along, Cosine, Over, ThereAndBack
from tests.support.kernels import begin
from tests.support.logistic import logistic

F64 = torch.float64


def explained(guide: Any, step_size: float, share: float = 1.0, steps: int = 12) -> tuple[Tensor, Tensor]:
    kernel = ggmc.GGMC(step_size, guide=guide, steps=steps, scheme="O(ABA)O", explain=share)
    state, step, generator = begin(kernel, logistic(), 2000)
    _, info = step(state, generator)
    noise = info.statistics["noise_error"]
    return noise, info.energy_error - noise


def test_an_exact_guide_has_no_noise() -> None:
    noise, rest = explained(ggmc.Exact(), 0.1)
    assert (noise == 0).all()
    assert rest.std() > 0


def test_noise_is_the_minibatches_and_the_rest_is_the_steps() -> None:
    _, exact_rest = explained(ggmc.Exact(), 0.03)
    noise, rest = explained(ggmc.Minibatch(10, "iid"), 0.03)
    assert noise.std() > 10 * rest.std()
    assert rest.std() < 5 * exact_rest.std()


def test_with_a_smaller_step_the_rest_falls_faster_than_the_noise() -> None:
    (noise, rest), (less_noise, less_rest) = (explained(ggmc.Minibatch(10, "iid"), h) for h in (0.04, 0.01))
    assert rest.std() / less_rest.std() > 2 * noise.std() / less_noise.std()


def test_a_share_of_the_kicks_tells_the_same_on_average() -> None:
    guide = ggmc.Minibatch(10)
    whole, part = explained(guide, 0.03)[0], explained(guide, 0.03, 0.34)[0]
    assert abs(part.mean() - whole.mean()) < 6 * part.std() / len(part) ** 0.5 + 6 * whole.std() / len(whole) ** 0.5
    assert part.std() < 5 * whole.std()


def test_low_acceptance_is_explained_in_plain_language() -> None:
    kernel = ggmc.GGMC(0.1, guide=ggmc.Minibatch(10, "iid"), explain=1.0)
    trace = ggmc.sample(logistic(), kernel, draws=20, warmup=0, progress=False)
    assert trace.stats["noise_error"].shape == (4, 20)
    assert any("improve the guide" in warning for warning in trace.warnings)


def test_comparing_changes_nothing() -> None:
    """The comparison draws which kicks it looks at, so the noise is given: every path must be the same."""
    target = logistic()
    guide = ggmc.Minibatch(10, "iid")
    plain, compared = (
        ggmc.GGMC(0.03, 0.0, guide=guide, steps=6, scheme="ABA", explain=share, adjust=False) for share in (0.0, 0.5)
    )
    ends = []
    for kernel in (plain, compared):
        state, step, generator = begin(kernel, target, at=[[0.1, 0.2, 0.3]])
        ends.append(step(state, generator)[0])
    assert torch.equal(ends[0].position, ends[1].position)


@pytest.mark.parametrize("word", ["OBABO", "BAOAB", "O(BABAB)O", "O(ABA)O", "ACA"])
def test_every_kick_of_every_word_is_compared(word: str) -> None:
    """U = a·θ under a guide three times as steep: two thirds of the kicks' work is the guide's noise."""
    slope = torch.tensor([0.5, -2.0, 1.0], dtype=F64)
    target = ggmc.Density(lambda x: -slope @ x, torch.zeros(3, dtype=F64))
    guide = ggmc.Surrogate(lambda x: -3 * slope @ x)
    along, over = Along(ThereAndBack(Cosine(0.3))), Over(3, Cosine(0.5))
    kernel = ggmc.GGMC(
        0.2, 0.7, 3, word, guide, temperature=0.4, mass=[1.0, 4.0, 0.5], explain=1.0, along=along, over=over
    )
    state, step, generator = begin(kernel, target)
    for _ in range(3):
        state, info = step(state, generator)
        assert info.work.abs().min() > 0
        torch.testing.assert_close(info.statistics["noise_error"], info.work * 2 / 3)


def test_what_a_trajectory_tells_of_itself_is_told_together() -> None:
    """The decision in place of a rate that a stopped sum does not know, the step size of the schedule, the noise."""
    over = Over(3, Cosine(0.5))
    kernel = ggmc.GGMC(0.3, guide=ggmc.Minibatch(100, "iid"), steps=4, over=over, explain=1.0)
    state, step, generator = begin(kernel, logistic(400, bound=0.0))
    for trajectory in range(6):
        state, info = step(state, generator)
        assert info.statistics.keys() == {"acceptance_rate", "step_size", "noise_error"}
        assert torch.equal(info.statistics["acceptance_rate"], info.accepted.double())
        assert info.statistics["step_size"].tolist() == pytest.approx([0.3 * over.at(trajectory)[0]] * 5)
