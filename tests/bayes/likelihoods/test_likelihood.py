"""What every likelihood must do, any function as one, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, HalfNormal
from torch.func import vmap

from ggmc.bayes import likelihoods
from ggmc.errors import BadInput
from ggmc.targets.batched import no_validation

F64 = torch.float64


class Exponential(likelihoods.Likelihood):
    """One of a user's own: only `distribution` is written."""

    def distribution(self, output: Tensor, latents: dict[str, Tensor]) -> Distribution:
        return torch.distributions.Exponential(output[..., 0].exp())


def absolute(output: Tensor, y: Tensor) -> Tensor:
    return -(output[:, 0] - y).abs()


REAL = torch.tensor([0.3, 1.2, 2.0], dtype=F64)
COUNTS = torch.tensor([0, 2, 5])
LABELS = torch.tensor([0, 1, 1])
EVERY: list[tuple[likelihoods.Likelihood, int, Tensor]] = [  # with the number of outputs, and outcomes
    (likelihoods.Categorical(), 3, LABELS),
    (likelihoods.Bernoulli(), 1, LABELS),
    (likelihoods.Gaussian(0.5), 1, REAL),
    (likelihoods.Gaussian(HalfNormal(1.0)), 1, REAL),
    (likelihoods.Gaussian("learnt"), 1, REAL),
    (likelihoods.StudentT(0.5, df=3.0), 1, REAL),
    (likelihoods.Heteroscedastic(), 2, REAL),
    (likelihoods.Poisson(), 1, COUNTS),
    (likelihoods.Given(absolute), 1, REAL),
    (Exponential(), 1, REAL),
]
NAMES = [str(likelihood).split(" at 0x")[0] for likelihood, *_ in EVERY]


def outputs(number: int, rows: int = 1) -> Tensor:
    return torch.randn(rows, 3, number, dtype=F64, generator=torch.Generator().manual_seed(0))


def latents_of(likelihood: likelihoods.Likelihood) -> dict[str, Tensor]:
    return {name: torch.tensor(0.7, dtype=F64) for name in likelihood.latents()}


@pytest.mark.parametrize(("likelihood", "number", "y"), EVERY, ids=NAMES)
def test_one_term_per_example_also_under_vmap(likelihood: likelihoods.Likelihood, number: int, y: Tensor) -> None:
    rows, latents = outputs(number, rows=4), latents_of(likelihood)
    likelihood.check(rows[0], y)
    one_by_one = torch.stack([likelihood.log_prob(output, y, latents) for output in rows])
    assert one_by_one.shape == (4, 3)
    bound = likelihood.bound(y)
    assert bound is None or bool((one_by_one <= bound).all())
    with no_validation():
        torch.testing.assert_close(vmap(lambda output: likelihood.log_prob(output, y, latents))(rows), one_by_one)


def test_a_column_of_outcomes_is_taken_as_a_row() -> None:
    for likelihood, number, y in EVERY:
        if isinstance(likelihood, likelihoods.Categorical | likelihoods.Given):
            continue  # labels must be a row, and a function sees outcomes as they are
        output, latents = outputs(number)[0], latents_of(likelihood)
        likelihood.check(output, y[:, None])
        expected = likelihood.log_prob(output, y, latents)
        torch.testing.assert_close(likelihood.log_prob(output, y[:, None], latents), expected)


@pytest.mark.parametrize(("likelihood", "number", "y"), EVERY, ids=NAMES)
def test_the_default_device_does_not_matter(likelihood: likelihoods.Likelihood, number: int, y: Tensor) -> None:
    output, latents = outputs(number)[0], latents_of(likelihood)
    expected, bound = likelihood.log_prob(output, y, latents), likelihood.bound(y)
    with torch.device("meta"):  # as with a GPU: a tensor made here without a device does not fit those on the CPU
        likelihood.check(output, y)
        assert torch.equal(likelihood.log_prob(output, y, latents), expected)
        assert likelihood.bound(y) == bound
        if likelihood.predicts:
            assert likelihood.distribution(output, latents).sample().device.type == "cpu"
        if likelihood.classifies:
            assert likelihood.class_probabilities(output, latents).device.type == "cpu"
        for own in likelihood.latents().values():
            assert own.sample().device.type == "cpu"


@pytest.mark.parametrize("name", ["categorical", "bernoulli", "gaussian", "heteroscedastic", "poisson", "student-t"])
def test_names_under_any_default_device(name: str) -> None:
    with torch.device("meta"):
        made = likelihoods.as_likelihood(name)
    assert made == likelihoods.as_likelihood(name)
    assert likelihoods.as_likelihood(made) is made
    assert pickle.loads(pickle.dumps(made)) == made


def test_noise_is_checked_under_any_default_device() -> None:
    prior = HalfNormal(1.0)
    with torch.device("meta"):
        assert likelihoods.Gaussian(prior).latents() == {"noise": prior}
        with pytest.raises(BadInput, match="the distribution of the noise must be positive"):
            likelihoods.Gaussian(torch.distributions.Normal(torch.zeros((), device="cpu"), 1.0))


def test_nothing_stays_on_another_device() -> None:
    for likelihood, number, y in EVERY:
        latents = {name: value.to("meta") for name, value in latents_of(likelihood).items()}
        with no_validation():
            found = likelihood.log_prob(outputs(number)[0].to("meta"), y.to("meta"), latents)
        assert (found.device.type, found.shape) == ("meta", (3,))


def test_the_interface_is_abstract_and_has_defaults() -> None:
    with pytest.raises(TypeError, match="abstract"):
        likelihoods.Likelihood()  # pyright: ignore[reportAbstractUsage]
    own = Exponential()
    torch.testing.assert_close(own.log_prob(torch.zeros(3, 1, dtype=F64), REAL, {}), -REAL)
    assert (own.classifies, own.predicts, own.latents(), own.bound(REAL), own.noise_to_learn()) == (
        False,
        True,
        {},
        None,
        None,
    )


def test_likelihoods_are_plain_values() -> None:
    assert likelihoods.Gaussian(0.5) == likelihoods.Gaussian(0.5) != likelihoods.Gaussian(0.6)
    assert likelihoods.Gaussian(0.5) != likelihoods.StudentT(0.5)
    assert repr(likelihoods.Gaussian(0.5)) == "Gaussian(noise=0.5)"
    assert repr(likelihoods.StudentT(0.5)) == "StudentT(noise=0.5, df=4.0)"
    assert hash(likelihoods.StudentT(0.5)) == hash(likelihoods.StudentT(0.5, 4.0))
    with pytest.raises(AttributeError):
        likelihoods.Gaussian().noise = 3.0  # pyright: ignore[reportAttributeAccessIssue]
    for likelihood, number, y in EVERY:
        again, latents = pickle.loads(pickle.dumps(likelihood)), latents_of(likelihood)
        assert torch.equal(
            again.log_prob(outputs(number)[0], y, latents), likelihood.log_prob(outputs(number)[0], y, latents)
        )


# Any function


def test_a_function_may_have_a_bound_and_has_no_distribution() -> None:
    assert likelihoods.as_likelihood(absolute) == likelihoods.Given(absolute)
    assert likelihoods.Given(absolute).bound(REAL) is None
    assert likelihoods.Given(absolute, upper_bound=0.0).bound(REAL) == 0.0
    assert not likelihoods.Given(absolute).predicts
    with pytest.raises(BadInput, match=r"given as a function has no distribution .* write `distribution`"):
        likelihoods.Given(absolute).distribution(outputs(1)[0], {})


# Refusals


@pytest.mark.parametrize(
    ("likelihood", "output", "y", "message"),
    [
        ("categorical", torch.zeros(4, 3), torch.tensor([0, 1, 3, 2]), "labels must be 0 … 2 .* got 3 in row 2"),
        ("categorical", torch.zeros(4, 3), torch.tensor([0, -1, 1, 2]), "got -1 in row 1"),
        ("categorical", torch.zeros(4, 3), torch.zeros(4), "integer dtype"),
        ("categorical", torch.zeros(4, 3), torch.zeros(4, 3, dtype=torch.long), "one-hot"),
        ("categorical", torch.zeros(4), torch.zeros(4, dtype=torch.long), r"\[n, classes\]"),
        ("bernoulli", torch.zeros(4), torch.tensor([0, 1, 2, 1]), "0 and 1, got 2 in row 2"),
        ("bernoulli", torch.zeros(4, 2), torch.zeros(4), "one output per outcome"),
        ("gaussian", torch.zeros(4, 2), torch.zeros(4), "one output per outcome"),
        ("poisson", torch.zeros(4), torch.tensor([0.0, 1.5, 2.0, 1.0]), "counts .* got 1.5 in row 1"),
        ("poisson", torch.zeros(4), torch.tensor([0, 1, -2, 1]), "got -2 in row 2"),
        ("heteroscedastic", torch.zeros(4, 3), torch.zeros(4), "a mean and a scale"),
        (lambda o, y: o.sum(), torch.zeros(4), torch.zeros(4), "one term per example"),
    ],
)
def test_refusals(likelihood: Any, output: Tensor, y: Tensor, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        likelihoods.as_likelihood(likelihood).check(output, y)


@pytest.mark.parametrize("given", ["gauss", 3, likelihoods.Gaussian])
def test_what_is_no_likelihood(given: Any) -> None:
    with pytest.raises(BadInput, match="likelihood must be one of categorical"):
        likelihoods.as_likelihood(given)
