"""Densities against SciPy and quadrature, draws against their densities, and the rules of `assign`.

Statistical tests have fixed seeds and thresholds of a false-failure rate below 1e-6 each.
"""

import copy
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.integrate import quad
from torch import nn
from torch.distributions import (
    AffineTransform,
    Gamma,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    LogNormal,
    Normal,
    Poisson,
    TransformedDistribution,
    Uniform,
)
from torch.func import grad, vmap

from ggmc.bayes import priors
from ggmc.errors import BadInput

MIXTURE = priors.Mixture([0.3, 0.7], [priors.Gaussian(0.1), priors.Laplace(2.0)])

# Each with SciPy's law of one element of a tensor without fan-in.
ELEMENTWISE = [
    (priors.Gaussian(0.7), scipy.stats.norm(0, 0.7)),
    (priors.Gaussian(0.7, loc=-1.5), scipy.stats.norm(-1.5, 0.7)),
    (priors.Laplace(1.3), scipy.stats.laplace(0, 1.3)),
    (priors.StudentT(3, 0.4), scipy.stats.t(3, 0, 0.4)),
    (priors.Cauchy(0.2), scipy.stats.cauchy(0, 0.2)),
    (priors.GeneralisedNormal(0.5, 0.3), scipy.stats.gennorm(0.5, 0, 0.3)),
    (priors.GeneralisedNormal(1.5, 2.0), scipy.stats.gennorm(1.5, 0, 2.0)),
    (priors.GeneralisedNormal(8.0), scipy.stats.gennorm(8.0)),
    (priors.Of(Gumbel(0.5, 2.0)), scipy.stats.gumbel_r(0.5, 2.0)),
    (priors.Of(TransformedDistribution(Normal(0.0, 1.0), [AffineTransform(1.0, 2.0)])), scipy.stats.norm(1, 2)),
]
SCALED = [
    priors.Gaussian(0.7, fan_in=True),
    priors.Laplace(1.3, fan_in=True),
    priors.StudentT(3, 0.4, fan_in=True),
    priors.Cauchy(0.2, fan_in=True),
    priors.GeneralisedNormal(1.5, 2.0, fan_in=True),
    priors.Of(Gumbel(0.5, 2.0), fan_in=True),
    priors.Mixture([0.5, 0.5], [priors.Gaussian(0.1, fan_in=True), priors.StudentT(2.0, fan_in=True)]),
]
EVERY = [
    *(prior for prior, _ in ELEMENTWISE),
    *SCALED,
    MIXTURE,
    priors.Improper(),
    priors.CorrelatedFilters(0.5, 2.0, fan_in=True),
    priors.Hierarchical(priors.Laplace(), HalfCauchy(1.0), fan_in=True),
    priors.Horseshoe(0.1),
]


WRONG: Any = "wide"
NAMES = [str(prior) for prior, _ in ELEMENTWISE]


def kernel(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=dtype)


# Densities


@pytest.mark.parametrize(("prior", "law"), ELEMENTWISE, ids=NAMES)
def test_density_is_scipys(prior, law) -> None:
    value = 2 * kernel(4, 5)
    expected = torch.from_numpy(law.logpdf(value.numpy()))
    torch.testing.assert_close(prior.log_densities(value), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(prior.log_prob(value), expected.sum(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("prior", [*(prior for prior, _ in ELEMENTWISE), *SCALED, MIXTURE], ids=str)
def test_density_integrates_to_one(prior) -> None:
    def density(x: float) -> float:
        # All elements the same: the density of one is the n-th root of the density of all.
        value = torch.full((2, 9), x, dtype=torch.float64)
        return math.exp(float(prior.log_prob(value)) / value.numel())

    pieces = [-math.inf, -10, -1, -0.1, -1e-3, 0, 1e-3, 0.1, 1, 10, math.inf]
    total = sum(quad(density, a, b, limit=200)[0] for a, b in itertools.pairwise(pieces))
    assert total == pytest.approx(1, abs=1e-6)


def test_fan_in_scales_weights_and_leaves_biases_alone() -> None:
    for prior in SCALED[:5]:
        plain = copy.copy(prior)
        object.__setattr__(plain, "fan_in", False)
        value = kernel(8, 3, 2, 2)
        expected = plain.log_prob(value * math.sqrt(12)) + value.numel() * math.log(math.sqrt(12))
        torch.testing.assert_close(prior.log_prob(value), expected)
        assert torch.equal(prior.log_prob(value.flatten()), plain.log_prob(value.flatten()))
    value = kernel(8, 3, 2, 2)
    narrow = Normal(1.5, 0.7 / math.sqrt(12)).log_prob(value).sum()  # a mean is not divided
    torch.testing.assert_close(priors.Gaussian(0.7, fan_in=True, loc=1.5).log_prob(value), narrow)


def test_mixture_is_the_weighted_sum() -> None:
    value = kernel(4, 5)
    parts = [0.3 * scipy.stats.norm.pdf(value, 0, 0.1), 0.7 * scipy.stats.laplace.pdf(value, 0, 2.0)]
    torch.testing.assert_close(MIXTURE.log_prob(value), torch.tensor(np.log(sum(parts)).sum()))
    far = torch.tensor([1e3], dtype=torch.float64)  # where the spike's density is zero in floating point
    expected = math.log(0.7) + scipy.stats.laplace.logpdf(1e3, 0, 2.0)
    assert MIXTURE.log_prob(far).item() == pytest.approx(expected)
    of_laws = priors.Mixture([0.3, 0.7], [Normal(0.0, 0.5), MIXTURE])
    both = torch.stack([Normal(0.0, 0.5).log_prob(value).exp(), MIXTURE.log_densities(value).exp()])
    torch.testing.assert_close(of_laws.log_densities(value), (0.3 * both[0] + 0.7 * both[1]).log())


@pytest.mark.parametrize("window", [(5,), (3, 3), (3, 2), (2, 2, 2), (1, 1)])
def test_correlated_filters_density(window: tuple[int, ...]) -> None:
    pixels = np.stack(np.meshgrid(*map(np.arange, window), indexing="ij"), -1).reshape(-1, len(window))
    distance = scipy.spatial.distance.cdist(pixels, pixels)
    value = kernel(4, 3, *window)
    scale = 0.8 / math.sqrt(3 * len(pixels))
    law = scipy.stats.multivariate_normal(np.zeros(len(pixels)), scale**2 * np.exp(-distance / 1.7))
    expected = law.logpdf(value.reshape(12, -1).numpy()).sum()
    assert priors.CorrelatedFilters(0.8, 1.7, fan_in=True).log_prob(value).item() == pytest.approx(expected)


def test_short_length_scales_are_the_independent_limit() -> None:
    value = kernel(4, 3, 3, 3)
    near, independent = priors.CorrelatedFilters(0.8, 0.01, fan_in=True), priors.Gaussian(0.8, fan_in=True)
    torch.testing.assert_close(near.log_prob(value), independent.log_prob(value))


def test_scales_are_added_by_the_posterior_and_not_by_the_prior() -> None:
    value = kernel(4, 3)
    latents = {"scale": torch.tensor(2.0), "local": torch.rand(4, 3), "global": torch.tensor(0.2)}
    torch.testing.assert_close(priors.Horseshoe(0.1).log_prob(value, latents), Normal(0, 1).log_prob(value).sum())
    wide = priors.Hierarchical(priors.Laplace(), fan_in=True)
    torch.testing.assert_close(wide.log_prob(value, latents), priors.Laplace().log_prob(value))


def test_improper_is_flat_and_has_nothing_to_draw() -> None:
    value = kernel(3).requires_grad_()
    priors.Improper().log_prob(value).backward()
    assert value.grad is not None
    assert value.grad.eq(0).all()
    with pytest.raises(BadInput, match="proper prior such as"):
        priors.Improper().sample(torch.Size([3]))


@pytest.mark.parametrize("law", [HalfCauchy(0.5), Gamma(2.0, 3.0), LogNormal(0.0, 1.0), HalfNormal(2.0)])
def test_a_float32_law_does_not_round_float64_values(law) -> None:
    value = kernel(5).abs()
    precise = copy.deepcopy(law)
    shift = 1e-12
    slope = grad(lambda v: priors.total_log_prob(precise, v))(value).sum()
    difference = priors.total_log_prob(law, value + shift) - priors.total_log_prob(law, value)
    assert float(difference) == pytest.approx(float(slope) * shift, rel=0.02)
    torch.testing.assert_close(priors.total_log_prob(law, value), law.log_prob(value).double().sum(), rtol=1e-5, atol=0)


# Draws


@pytest.mark.parametrize(("prior", "law"), ELEMENTWISE, ids=NAMES)
def test_draws_follow_the_law(prior, law) -> None:
    torch.manual_seed(0)
    draws = prior.sample(torch.Size([100, 100]))
    assert (draws.shape, draws.dtype) == ((100, 100), torch.float64)
    assert scipy.stats.kstest(draws.flatten().numpy(), law.cdf).pvalue > 1e-7


@pytest.mark.parametrize("prior", [*SCALED, MIXTURE], ids=str)
def test_draws_follow_the_density_with_fan_in(prior) -> None:
    torch.manual_seed(1)
    shape = torch.Size([1000, 9])
    grid = torch.cat([torch.linspace(a, b, 20001, dtype=torch.float64)[1:] for a, b in ((-60, -2), (-2, 2), (2, 60))])
    density = prior.log_densities(grid[:, None].expand(-1, 9))[:, 0].exp()
    below = float(scipy.stats.cauchy.cdf(-60, 0, 0.2 / 3)) if isinstance(prior, priors.Cauchy) else 0.0
    cdf = below + torch.cat([torch.zeros(1), torch.cumulative_trapezoid(density, grid)])
    draws = prior.sample(shape).flatten().numpy()
    assert scipy.stats.kstest(draws, lambda x: np.interp(x, grid, cdf)).pvalue > 1e-7


def test_draws_of_correlated_filters_have_their_covariance() -> None:
    torch.manual_seed(2)
    prior = priors.CorrelatedFilters(0.8, 1.7)
    draws = prior.sample(torch.Size([200, 200, 2, 2]))
    per_filter = draws.reshape(-1, 4).numpy()
    side, diagonal = math.exp(-1 / 1.7), math.exp(-math.sqrt(2) / 1.7)
    expected = 0.64 * np.array(
        [
            [1, side, side, diagonal],
            [side, 1, diagonal, side],
            [side, diagonal, 1, side],
            [diagonal, side, side, 1],
        ]
    )
    # The standard error of a covariance of normals is √((c_ii c_jj + c_ij²) / n), at most 0.64 √(2/n).
    np.testing.assert_allclose(np.cov(per_filter.T), expected, atol=6 * 0.64 * math.sqrt(2 / len(per_filter)))
    channels = draws[:, :, 0, 0]
    across = (channels[:, :100] * channels[:, 100:]).mean().item()
    assert abs(across) < 6 * 0.64 / math.sqrt(200 * 100)
    scaled = priors.CorrelatedFilters(0.8, 1.7, fan_in=True).sample(torch.Size([200, 200, 2, 2]))
    assert scaled.std().item() == pytest.approx(0.8 / math.sqrt(800), rel=0.03)


def test_draws_of_non_centred_values_are_of_unit_scale() -> None:
    torch.manual_seed(3)
    shape = torch.Size([100, 100])
    latents = {"scale": torch.tensor(9.0), "local": torch.full(shape, 9.0), "global": torch.tensor(9.0)}
    unit = priors.Horseshoe(0.1).sample(shape, latents).flatten().numpy()
    assert scipy.stats.kstest(unit, scipy.stats.norm.cdf).pvalue > 1e-7
    laplace = priors.Hierarchical(priors.Laplace(), fan_in=True).sample(shape, latents).flatten().numpy()
    assert scipy.stats.kstest(laplace, scipy.stats.laplace.cdf).pvalue > 1e-7


def test_a_draw_is_a_function_of_the_seed() -> None:
    for prior in EVERY:
        if not isinstance(prior, priors.Improper):
            shape = torch.Size([4, 3, 3, 3])
            first, again = ((torch.manual_seed(5), prior.sample(shape))[1] for _ in range(2))
            assert torch.equal(first, again)


# The generalised normal law


def test_generalised_normal_law_agrees_with_scipy_and_with_itself() -> None:
    power = torch.tensor([0.5, 1.0, 1.5, 2.0, 6.0], dtype=torch.float64)
    law = priors.GeneralisedNormalDistribution(torch.tensor(0.3, dtype=torch.float64), 2.0, power)
    scipys: Any = scipy.stats.gennorm(power.numpy(), 0.3, 2.0)
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)[:, None]
    for ours, theirs in [
        (law.log_prob(x), scipys.logpdf(x.numpy())),
        (law.cdf(x), scipys.cdf(x.numpy())),
        (law.variance, scipys.var()),
        (law.entropy(), scipys.entropy()),
        (law.mean, scipys.mean()),
    ]:
        torch.testing.assert_close(ours, torch.from_numpy(np.asarray(theirs)))
    wide = law.expand((4, 5))
    assert wide.batch_shape == (4, 5)
    assert wide.rsample((2,)).shape == (2, 4, 5)
    torch.testing.assert_close(wide.log_prob(x[0]), law.log_prob(x[0]).expand(4, 5))


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


@pytest.mark.parametrize("power", [0.3, 0.5, 1.0, 1.5, 2.0])
def test_a_zero_weight_has_a_slope(power: float) -> None:
    slope = grad(priors.GeneralisedNormal(power).log_prob)(torch.zeros(3))
    assert slope.eq(0).all()


# Vectorised, differentiated, in any precision, on any device


def latents_for(prior, shape: torch.Size, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    torch.manual_seed(6)
    return {name: law.sample().to(dtype) for name, law in prior.latents(shape).items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("prior", EVERY, ids=str)
def test_vmap_and_grad(prior, dtype) -> None:
    values = kernel(5, 4, 3, 3, 3, dtype=dtype)
    latents = latents_for(prior, values.shape[1:], dtype)

    def of_weight(value: torch.Tensor) -> torch.Tensor:
        return prior.log_prob(value, latents) + prior.decode(value, latents).double().square().sum()

    together, slopes = vmap(of_weight)(values), vmap(grad(of_weight))(values)
    assert (together.dtype, slopes.dtype) == (torch.float64, dtype)
    rtol = 1e-5 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(together, torch.stack([of_weight(v) for v in values]), rtol=rtol, atol=0)
    value = values[0].clone().requires_grad_()
    (slope,) = torch.autograd.grad(of_weight(value), value)
    torch.testing.assert_close(slopes[0], slope, rtol=rtol, atol=rtol)
    step = 1e-6 * kernel(4, 3, 3, 3)
    if dtype == torch.float64:
        rise = of_weight(values[0] + step) - of_weight(values[0] - step)
        torch.testing.assert_close(rise, 2 * (slope * step).sum(), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("prior", EVERY, ids=str)
def test_nothing_stays_on_another_device(prior) -> None:
    value = torch.empty(4, 3, 3, 3, device="meta")  # refuses to meet tensors of other devices, 0-dimensional ones apart
    latents = {name: torch.empty(law.batch_shape, device="meta") for name, law in prior.latents(value.shape).items()}
    assert prior.log_prob(value, latents).device.type == "meta"
    assert prior.decode(value, latents).device.type == "meta"
    for name, law in prior.latents(value.shape).items():
        assert priors.total_log_prob(law, latents[name]).device.type == "meta"


def test_large_float32_tensors_are_added_up_in_float64() -> None:
    value = kernel(1000, 1000, dtype=torch.float32)
    for prior in (priors.Gaussian(1.0), priors.Laplace(1.0), priors.Mixture([1.0], [priors.Gaussian(1.0)])):
        assert abs(prior.log_prob(value).item() - prior.log_prob(value.double()).item()) < 0.02


# Unknown scales


@pytest.mark.parametrize(
    "prior", [priors.Hierarchical(), priors.Hierarchical(fan_in=True), priors.Horseshoe(0.1), priors.Laplace()], ids=str
)
def test_encode_undoes_decode(prior) -> None:
    weight = kernel(6, 4)
    latents = latents_for(prior, weight.shape, weight.dtype)
    torch.testing.assert_close(prior.decode(prior.encode(weight, latents), latents), weight)
    torch.testing.assert_close(prior.encode(prior.decode(weight, latents), latents), weight)


def test_decoded_weights_are_scale_times_value() -> None:
    value, two = kernel(6, 4), torch.tensor(2.0, dtype=torch.float64)
    torch.testing.assert_close(priors.Hierarchical().decode(value, {"scale": two}), 2 * value)
    torch.testing.assert_close(priors.Hierarchical(fan_in=True).decode(value, {"scale": two}), value)  # 2 / √4
    torch.testing.assert_close(priors.Hierarchical(fan_in=True).decode(value[0], {"scale": two}), 2 * value[0])
    local = torch.rand(6, 4)
    torch.testing.assert_close(priors.Horseshoe().decode(value, {"local": local, "global": two}), 2 * local * value)


def test_latents_have_their_laws_and_shapes() -> None:
    laws = priors.Horseshoe(0.1).latents(torch.Size([6, 4]))
    assert {name: law.batch_shape for name, law in laws.items()} == {"local": (6, 4), "global": ()}
    one = torch.ones((), dtype=torch.float64)
    assert laws["global"].log_prob(one).item() == pytest.approx(scipy.stats.halfcauchy.logpdf(1.0, 0, 0.1))
    assert laws["local"].log_prob(one)[0, 0].item() == pytest.approx(scipy.stats.halfcauchy.logpdf(1.0, 0, 1))
    scale = HalfCauchy(3.0)
    assert priors.Hierarchical(scale=scale).latents(torch.Size([6, 4])) == {"scale": scale}
    assert priors.Hierarchical().latents(torch.Size([3]))["scale"].log_prob(one).item() == pytest.approx(
        scipy.stats.halfnorm.logpdf(1.0)
    )
    for law in (*laws.values(), scale):
        assert str(law.support).startswith("GreaterThan")  # nonnegative: goes through a bijection


def test_a_family_that_transforms_its_value_is_asked_to() -> None:
    class Doubled(priors.Gaussian):
        def decode(self, value, latents=None):
            return 2 * value

        def encode(self, weight, latents=None):
            return weight / 2

    prior, value, latents = priors.Hierarchical(Doubled()), kernel(3), {"scale": torch.tensor(5.0)}
    torch.testing.assert_close(prior.decode(value, latents), 10 * value)
    torch.testing.assert_close(prior.encode(10 * value, latents), value)


# Settings


def test_priors_are_plain_values() -> None:
    assert repr(priors.Gaussian(1, True)) == "Gaussian(scale=1.0, fan_in=True, loc=0.0)"
    assert priors.Laplace(2) == priors.Laplace(2.0) != priors.Laplace(2.0, fan_in=True)
    assert repr(MIXTURE).startswith("Mixture(weights=(0.3, 0.7), components=(Gaussian(scale=0.1")
    with pytest.raises(AttributeError):
        priors.Gaussian().scale = 3.0  # pyright: ignore[reportAttributeAccessIssue]
    for prior in EVERY:
        value = kernel(4, 3, 3, 3)
        latents = latents_for(prior, value.shape, value.dtype)
        again = pickle.loads(pickle.dumps(prior))
        assert repr(again) == repr(prior)
        assert torch.equal(again.log_prob(value, latents), prior.log_prob(value, latents))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: priors.Gaussian(-1.0), "scale must be a positive number, got -1.0"),
        (lambda: priors.Gaussian(1.0, WRONG), "fan_in must be True or False, got 'wide'"),
        (lambda: priors.Gaussian(loc=math.inf), "loc must be a finite number, got inf"),
        (lambda: priors.StudentT(0), "df must be a positive number, got 0"),
        (lambda: priors.GeneralisedNormal(power=-2), "power must be a positive number, got -2"),
        (lambda: priors.CorrelatedFilters(length_scale=0), "length_scale must be a positive number, got 0"),
        (lambda: priors.Horseshoe(WRONG), "scale must be a number, got 'wide'"),
        (lambda: priors.Of(HalfNormal(1.0)), "must cover all real numbers, got HalfNormal"),
        (lambda: priors.Of(Uniform(-1.0, 1.0)), "must cover all real numbers"),
        (lambda: priors.Of(Poisson(1.0)), "must be continuous, got Poisson"),
        (lambda: priors.Of(Normal(torch.zeros(3), 1.0)), r"that of a single number, got batch shape \(3,\)"),
        (lambda: priors.Mixture([0.5], [priors.Gaussian(), priors.Laplace()]), "one weight per component, got 1 and 2"),
        (lambda: priors.Mixture([], []), "one weight per component, got 0 and 0"),
        (lambda: priors.Mixture([0.5, 0.4], [priors.Gaussian(), priors.Laplace()]), "sum to one, got .* 0.9"),
        (
            lambda: priors.Mixture([1.5, -0.5], [priors.Gaussian(), priors.Laplace()]),
            r"weights\[1\] must be a positive",
        ),
        (lambda: priors.Mixture([1.0], [priors.Horseshoe()]), "independent elements and no latents, got Horseshoe"),
        (lambda: priors.Hierarchical(priors.Horseshoe()), "must be of fixed scale, got Horseshoe"),
        (lambda: priors.Hierarchical(priors.Improper()), "must be of fixed scale, got Improper"),
        (lambda: priors.Hierarchical(scale=Normal(0.0, 1.0)), "one of positive numbers, got Normal"),
        (
            lambda: priors.Hierarchical(scale=HalfNormal(torch.ones(3))),
            "the distribution of a scale must be that of a single",
        ),
        (lambda: priors.Hierarchical(scale=2.0), "must be a torch.distributions.Distribution, got 2.0"),
        (lambda: priors.as_prior(0.5), "a prior must be one of ggmc.priors .* got 0.5"),
        (lambda: priors.as_prior(priors.Gaussian), "got the class Gaussian: make one"),
        (lambda: priors.as_prior(Normal(torch.zeros(3), 1.0)), "that of a single number"),
    ],
)
def test_refusals(make, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        make()


# Which tensor has which prior


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Linear(8, 2)
        self.gain = nn.Parameter(torch.ones(1))


@pytest.fixture
def net() -> Net:
    return Net()


def given_by(prior, net: nn.Module) -> dict[str, priors.Prior]:
    return priors.assign(prior, dict(net.named_parameters()), net)


def test_one_prior_for_all(net) -> None:
    names = [name for name, _ in net.named_parameters()]
    assert given_by(priors.Laplace(2.0), net) == dict.fromkeys(names, priors.Laplace(2.0))
    assert given_by(Normal(1.0, 2.0), net) == dict.fromkeys(names, priors.Gaussian(2.0, loc=1.0))
    assert list(given_by(priors.Laplace(2.0), net)) == names


def test_the_first_key_that_matches_wins(net) -> None:
    given = given_by(
        {
            "*.bias": priors.Gaussian(3.0),
            nn.Conv2d: priors.CorrelatedFilters(),
            "head*": Gumbel(0.0, 1.0),
            "*": MIXTURE,
        },
        net,
    )
    assert given["conv1.bias"] == given["norm.bias"] == given["head.bias"] == priors.Gaussian(3.0)
    assert given["conv1.weight"] == priors.CorrelatedFilters()
    assert isinstance(given["head.weight"], priors.Of)
    assert given["norm.weight"] == given["gain"] == MIXTURE
    by_type = given_by({nn.Conv2d: priors.Laplace(), "*.bias": priors.Gaussian(), "*": MIXTURE}, net)
    assert by_type["conv1.bias"] == priors.Laplace()
    assert by_type["head.bias"] == priors.Gaussian()


def test_a_type_matches_only_what_its_layers_own_themselves(net) -> None:
    given = given_by({Net: priors.Laplace(), "*": priors.Gaussian()}, net)
    assert [name for name, prior in given.items() if prior == priors.Laplace()] == ["gain"]
    nested = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Bilinear(2, 2, 2))
    given = given_by({nn.Linear: priors.Laplace(), "*": priors.Gaussian()}, nested)
    assert [name for name, prior in given.items() if prior == priors.Laplace()] == ["0.0.weight", "0.0.bias"]


def test_a_shared_tensor_belongs_to_all_its_layers() -> None:
    tied = nn.ModuleDict({"embed": nn.Embedding(5, 3), "out": nn.Linear(3, 5)})
    tied["out"].weight = tied["embed"].weight
    given = given_by({nn.Linear: priors.Laplace()}, tied)
    assert list(given) == ["embed.weight", "out.bias"]


@pytest.mark.parametrize(
    ("prior", "why"),
    [
        ({"*.bias": priors.Gaussian()}, r"no prior for gain, conv1.weight, .*head.weight: .*priors.Improper\(\)"),
        ({}, "no prior for gain, conv1.weight, conv1.bias"),
        ({"conv2*": priors.Gaussian(), "*": priors.Gaussian()}, "'conv2.*' matches none of the .* gain, conv1.weight"),
        ({nn.Conv1d: priors.Gaussian(), "*": priors.Gaussian()}, "Conv1d matches none"),
        ({"*": priors.Gaussian(), "*.bias": priors.Laplace()}, r"'\*.bias' comes too late: conv1.bias, .* to '\*'"),
        ({3: priors.Gaussian()}, "a key must be a pattern of names or a type of layer such as nn.Linear, got 3"),
        ({"*": 1.0}, "a prior must be one of ggmc.priors .* got 1.0"),
        (priors.CorrelatedFilters(), r"CorrelatedFilters is for convolution kernels .* got gain of shape \(1,\)"),
        ({nn.Linear: priors.Hierarchical(priors.CorrelatedFilters()), "*": priors.Gaussian()}, "got head.weight"),
        (None, "a prior must be one of ggmc.priors .* got None"),
    ],
)
def test_assign_refuses(prior, why: str, net) -> None:
    with pytest.raises(BadInput, match=why):
        given_by(prior, net)


def test_types_need_the_module(net) -> None:
    with pytest.raises(BadInput, match="Linear is a type of layer, but no module was given"):
        priors.assign({nn.Linear: priors.Gaussian()}, dict(net.named_parameters()))
