"""Classes: which logit belongs to which class, by value."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import nn

from ggmc.bayes import likelihoods, priors
from ggmc.bayes.posterior import Posterior
from ggmc.errors import BadInput

F64 = torch.float64
LOG3 = math.log(3.0)  # the logit of 3/4


def test_categorical_is_the_softmax() -> None:
    logits = torch.randn(3, 4, dtype=F64, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([3, 0, 1])
    expected = logits.log_softmax(1)[torch.arange(3), labels]
    assert torch.allclose(likelihoods.Categorical().log_prob(logits, labels, {}), expected)


def test_categorical_by_hand() -> None:
    logits = torch.tensor([[1.0, 2.0, 5.0]], dtype=F64).log()
    likelihood, wanted = likelihoods.Categorical(), torch.tensor([[1 / 8, 2 / 8, 5 / 8]], dtype=F64)
    torch.testing.assert_close(likelihood.class_probabilities(logits, {}), wanted)
    for label in range(3):
        y = torch.tensor([label])
        torch.testing.assert_close(likelihood.log_prob(logits, y, {}), wanted[:, label].log())
        torch.testing.assert_close(likelihood.distribution(logits, {}).log_prob(y), wanted[:, label].log())


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_a_bernoulli_logit_is_that_of_one(shape: tuple[int, ...]) -> None:
    likelihood = likelihoods.Bernoulli()
    output = torch.tensor([LOG3, -LOG3], dtype=F64).reshape(shape)
    distribution = likelihood.distribution(output, {})
    torch.testing.assert_close(distribution.mean, torch.tensor([0.75, 0.25], dtype=F64))
    wanted = torch.tensor([[0.25, 0.75], [0.75, 0.25]], dtype=F64)  # of 0, of 1
    torch.testing.assert_close(likelihood.class_probabilities(output, {}), wanted)
    for label in (0, 1):
        y = torch.full((2,), label)
        torch.testing.assert_close(likelihood.log_prob(output, y, {}), wanted[:, label].log())
        torch.testing.assert_close(distribution.log_prob(y.to(F64)), wanted[:, label].log())


def test_bernoulli_agrees_with_scipy() -> None:
    output, y = torch.tensor([[0.1], [-1.0], [1.0]], dtype=F64), torch.tensor([0, 1, 1])
    reference = torch.as_tensor(stats.bernoulli.logpmf([0, 1, 1], output[:, 0].sigmoid()))
    for given, seen in ((output, y), (output[:, 0], y), (output, y[:, None]), (output[:, 0], y[:, None])):
        found = likelihoods.Bernoulli().log_prob(given, seen, {})
        assert found.shape == (3,)  # [n] and [n, 1] are never broadcast to [n, n]
        assert torch.allclose(found, reference)


def test_several_bernoulli_outcomes_of_one_example_add_up() -> None:
    output = torch.tensor([[LOG3, 0.0], [-LOG3, LOG3]], dtype=F64)
    found = likelihoods.Bernoulli().log_prob(output, torch.tensor([[1, 0], [1, 1]]), {})
    torch.testing.assert_close(found, torch.tensor([0.75 * 0.5, 0.25 * 0.75], dtype=F64).log())
    probabilities = likelihoods.Bernoulli().class_probabilities(output, {})
    assert probabilities.shape == (2, 2, 2)
    torch.testing.assert_close(probabilities[0], torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=F64))


def test_class_probabilities_of_many_rows() -> None:
    output = torch.tensor([[[LOG3], [0.0]], [[-LOG3], [LOG3]]], dtype=F64)  # [rows, n, 1]
    found = likelihoods.Bernoulli().class_probabilities(output, {})
    torch.testing.assert_close(found[..., 1], torch.tensor([[0.75, 0.5], [0.25, 0.75]], dtype=F64))


def test_numbers_have_no_class_probabilities() -> None:
    with pytest.raises(BadInput, match=r"the outcomes of Gaussian are not classes: .* got Normal"):
        likelihoods.Gaussian().class_probabilities(torch.zeros(3), {})


@pytest.mark.parametrize(
    ("likelihood", "logits", "wanted"),
    [("bernoulli", [LOG3], [0.25, 0.75]), ("categorical", [0.0, math.log(2.0), math.log(5.0)], [1 / 8, 2 / 8, 5 / 8])],
)
def test_predictions_give_each_class_its_own_probability(
    likelihood: str, logits: list[float], wanted: list[float]
) -> None:
    # A prior so narrow that every draw is the mean: the outputs are the same logits for every input.
    net, x = nn.Linear(1, len(logits)), torch.zeros(4, 1)
    with torch.no_grad():
        net.bias.copy_(torch.tensor(logits))
    posterior = Posterior(net, likelihood, priors.Gaussian(1e-6), x, torch.tensor([0, 1, 1, 0]), sampled="weight")
    prediction = posterior.prior_predictive(x, draws=3)
    assert prediction.probabilities is not None
    torch.testing.assert_close(
        torch.from_numpy(prediction.probabilities), torch.tensor([wanted] * 4, dtype=F64), rtol=1e-5, atol=1e-5
    )
    assert prediction.label.tolist() == [len(wanted) - 1] * 4
