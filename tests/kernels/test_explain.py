"""Where the energy error comes from: the guide's noise, or the step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import ggmc
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
