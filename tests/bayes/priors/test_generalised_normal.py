"""The generalised normal distribution against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from ggmc.bayes import priors


def test_generalised_normal_distribution_agrees_with_scipy_and_with_itself() -> None:
    power = torch.tensor([0.5, 1.0, 1.5, 2.0, 6.0], dtype=torch.float64)
    distribution = priors.GeneralisedNormalDistribution(torch.tensor(0.3, dtype=torch.float64), 2.0, power)
    scipys: Any = scipy.stats.gennorm(power.numpy(), 0.3, 2.0)
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)[:, None]
    for ours, theirs in [
        (distribution.log_prob(x), scipys.logpdf(x.numpy())),
        (distribution.cdf(x), scipys.cdf(x.numpy())),
        (distribution.variance, scipys.var()),
        (distribution.entropy(), scipys.entropy()),
        (distribution.mean, scipys.mean()),
    ]:
        torch.testing.assert_close(ours, torch.from_numpy(np.asarray(theirs)))
    wide = distribution.expand((4, 5))
    assert wide.batch_shape == (4, 5)
    assert wide.rsample((2,)).shape == (2, 4, 5)
    torch.testing.assert_close(wide.log_prob(x[0]), distribution.log_prob(x[0]).expand(4, 5))


def test_generalised_normal_draws_carry_gradients() -> None:
    torch.manual_seed(4)
    loc, scale, power = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.3, 2.0, 1.5))
    draws = priors.GeneralisedNormalDistribution(loc, scale, power).rsample((200_000,))
    found = torch.autograd.grad(draws.square().mean(), (loc, scale, power))
    exact = torch.autograd.grad(
        loc**2 + priors.GeneralisedNormalDistribution(loc, scale, power).variance, (loc, scale, power)
    )  # E x² = loc² + variance
    # Each standard error is below 0.02 here.
    torch.testing.assert_close(torch.stack(found), torch.stack(exact), rtol=0, atol=0.1)


def test_generalised_normal_refuses_what_it_cannot_be() -> None:
    with pytest.raises(ValueError, match="power"):
        priors.GeneralisedNormalDistribution(0.0, 1.0, -1.0, validate_args=True)
    with pytest.raises(ValueError, match="support"):
        priors.GeneralisedNormalDistribution(0.0, 1.0, 2.0, validate_args=True).log_prob(torch.tensor(float("nan")))
