"""What a study describes, by value: its data, its sampler, and what its seed decides."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.datasets import load_diabetes, load_digits
from torch.distributions import HalfNormal

import ggmc
from ggmc.bayes import likelihoods, priors
from ggmc.cli.build import Built, build, small
from ggmc.cli.study.read import read
from ggmc.sampling.sample import DEFAULT
from tests.support.command import study


def built(folder: Path, text: str) -> Built:
    return build(read(study(folder, text)))


def test_data_are_normalised_by_their_training_rows_alone(tmp_path: Path) -> None:
    made: Any = built(tmp_path, '[data]\nsource = "diabetes"\nsubset = 40')
    x, y = made.target.data.slice(0, 40)
    for values in (x, y):
        torch.testing.assert_close(values.mean(0), torch.zeros_like(values[0]), atol=1e-5, rtol=0)
        torch.testing.assert_close(values.std(0), torch.ones_like(values[0]), atol=1e-5, rtol=0)
    assert (made.x_test.mean(0).abs() > 1e-3).all()


@pytest.mark.parametrize(("name", "euler"), [("sghmc", True), ("amagold", False), ("ggmc", False), ("sgnht", False)])
def test_learning_rate_and_momentum_mean_what_they_mean_for_the_sampler(name: str, euler: bool, tmp_path: Path) -> None:
    rates = f'[kernel]\nname = "{name}"\nlearning_rate = 0.01\nmomentum = 0.9'
    made: Any = built(tmp_path, f'[data]\nsource = "digits"\nsubset = 100\n{rates}')
    expected = ggmc.from_learning_rate(0.01, 0.9, 100, euler=euler)
    assert (made.kernel.step_size, made.kernel.friction) == expected


def test_the_seed_is_that_of_the_network(tmp_path: Path) -> None:
    starts = [built(tmp_path, f'[data]\nsource = "diabetes"\n[run]\nseed = {seed}').target.start for seed in (1, 1, 2)]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])


# Data


def parts_of(folder: Path, text: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    made: Any = built(folder, text)
    return (*made.target.data.slice(0, made.target.num_data), made.x_test, made.y_test)


def test_digits_lie_between_minus_one_and_one(tmp_path: Path) -> None:
    x, y, x_test, y_test = parts_of(tmp_path, '[data]\nsource = "digits"')
    assert (len(x), len(x_test)) == (1438, 359)  # a fifth of 1797 is held out
    assert x.shape[1:] == (1, 8, 8)
    found: Any = load_digits()
    both = torch.cat([x_test, x]), torch.cat([y_test, y])
    order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(both[0][:, 0], torch.tensor(found.images)[order].float() / 8 - 1)
    assert torch.equal(both[1], torch.tensor(found.target)[order])


@pytest.mark.parametrize(("line", "same"), [("seed = 0", True), ("seed = 1", False)])
def test_the_seed_of_the_data_decides_what_is_held_out(line: str, same: bool, tmp_path: Path) -> None:
    default, other = (parts_of(tmp_path, f'[data]\nsource = "digits"\n{text}')[2] for text in ("", line))
    assert torch.equal(default, other) == same


def test_a_subset_is_of_the_training_rows_and_the_test_rows_stay(tmp_path: Path) -> None:
    whole = parts_of(tmp_path, '[data]\nsource = "digits"\ntest = 0.1')
    some = parts_of(tmp_path, '[data]\nsource = "digits"\ntest = 0.1\nsubset = 40')
    assert len(some[2]) == 180
    assert torch.equal(some[0], whole[0][:40])
    assert torch.equal(some[1], whole[1][:40])
    assert torch.equal(some[2], whole[2])
    nothing: Any = built(tmp_path, '[data]\nsource = "digits"\ntest = 0\nsubset = 40')
    assert (nothing.x_test, nothing.y_test) == (None, None)


def test_test_outcomes_have_the_scale_of_the_training_outcomes(tmp_path: Path) -> None:
    _, y, _, y_test = parts_of(tmp_path, '[data]\nsource = "diabetes"')
    order = torch.randperm(442, generator=torch.Generator().manual_seed(0))
    found: Any = load_diabetes()
    given = torch.tensor(found.target)[order]
    mean, std = given[88:].mean(), given[88:].std()
    torch.testing.assert_close(y_test, ((given[:88] - mean) / std).float())
    torch.testing.assert_close(y, ((given[88:] - mean) / std).float())


# Models

DIABETES = '[data]\nsource = "diabetes"\nsubset = 40\n'
DIGITS = '[data]\nsource = "digits"\nsubset = 40\n'


@pytest.mark.parametrize(
    ("text", "layers", "activation"),
    [
        ("", [(10, 50), (50, 1)], torch.nn.ReLU),
        ('activation = "tanh"\nwidths = [3, 4]', [(10, 3), (3, 4), (4, 1)], torch.nn.Tanh),
        ('activation = "swish"\nlikelihood = "heteroscedastic"', [(10, 50), (50, 2)], torch.nn.SiLU),
    ],
)
def test_networks(text: str, layers: list[tuple[int, int]], activation: type, tmp_path: Path) -> None:
    made: Any = built(tmp_path, f"{DIABETES}[model]\n{text}")
    module = made.target.module
    assert [(one.in_features, one.out_features) for one in module.layers] == layers
    assert {type(one) for one in module.activations} == {activation}
    assert made.target.dtype == torch.float32
    assert made.target.vectorise is True  # said, so that a seed gives the same draws


def test_nets_of_images(tmp_path: Path) -> None:
    cnn: Any = built(tmp_path, DIGITS + '[model]\nnet = "cnn"\nwidths = [3, 5]\n')
    assert cnn.target.outputs(cnn.target.start[None], cnn.x_test[:7]).shape == (1, 7, 10)
    shapes = [tuple(shape) for shape in cnn.target.layout.shapes.values()]
    assert {shape[:2] for shape in shapes if len(shape) == 4} == {(3, 1), (5, 3)}
    assert cnn.target.vectorise is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("noise = 0.3", likelihoods.Gaussian(0.3)),
        ("", likelihoods.Gaussian(1.0)),
        ('likelihood = "student-t"\ndf = 7\nnoise = 0.2', likelihoods.StudentT(0.2, df=7)),
        ("noise = { half_normal = 0.5 }", likelihoods.Gaussian(HalfNormal(0.5))),
    ],
)
def test_likelihoods(text: str, expected: Any, tmp_path: Path) -> None:
    made: Any = built(tmp_path, f"{DIABETES}[model]\nwidths = [2]\n{text}")
    assert repr(made.target.likelihood) == repr(expected)
    if isinstance(expected.noise, HalfNormal):
        assert made.target.likelihood.noise.scale == 0.5


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        ("", priors.Gaussian(1.0, fan_in=True)),
        ("[prior]\nscale = 2.0", priors.Gaussian(2.0)),
        ('[prior]\nfamily = "laplace"\nscale = 0.5\nfan_in = true', priors.Laplace(0.5, fan_in=True)),
        ('[prior]\nfamily = "student-t"\ndf = 3\nscale = 0.5', priors.StudentT(3, 0.5)),
        (
            '[prior."*weight"]\nscale = 3.0\n[prior."*bias"]\nfamily = "cauchy"\nscale = 0.5',
            {"*weight": priors.Gaussian(3.0), "*bias": priors.Cauchy(0.5)},
        ),
    ],
)
def test_priors(text: str, prior: Any, tmp_path: Path) -> None:
    made: Any = built(tmp_path, f"{DIABETES}[model]\nwidths = [2]\ndouble = true\n{text}")
    target = made.target
    assert target.dtype == torch.float64
    x, y = target.data.slice(0, 40)
    expected = ggmc.Posterior(target.module.requires_grad_(), "gaussian", prior, x, y, vectorise=True)
    rows = target.start + torch.linspace(0, 1, 3, dtype=torch.float64)[:, None]
    torch.testing.assert_close(target.potential(rows), expected.potential(rows))


def test_where_chains_start_and_what_they_see(tmp_path: Path) -> None:
    views = 'views = { kind = "frozen", number = 3, pad = 2, flip = false, seed = 5 }'
    made: Any = built(tmp_path, f'{DIGITS}[model]\nnet = "cnn"\nstart = "module"\njitter = 0.25\n{views}\n')
    assert made.target.way_to_start == "module"
    assert made.target.views == ggmc.nets.FrozenViews(3, 2, False, 5)
    starts = made.target.starts(50, torch.Generator().manual_seed(0)) - made.target.start
    assert 0.24 < starts.abs().max() <= 0.25
    usual: Any = built(tmp_path, DIGITS)
    assert (usual.target.way_to_start, usual.target.views) == ("apart", None)


# Samplers


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        (
            '[kernel]\nname = "malt"\nstep_size = 0.1\nsteps = [2, 5]\ntemperature = 0.5\n'
            '[guide]\nsize = 10\norder = "epoch"\nseed = 3\nrecut = true',
            ggmc.MALT(0.1, steps=(2, 5), temperature=0.5, guide=ggmc.Minibatch(10, "epoch", seed=3, recut=True)),
        ),
        (
            '[kernel]\nfriction = inf\nscheme = "OBABO"\nmass = "diagonal"\nfresh_momentum = true\n'
            'explain = 0.5\n[guide]\nname = "control-variate"\nsize = 10\ncurvature = "diagonal"',
            ggmc.GGMC(
                None, math.inf, scheme="OBABO", mass="diagonal", fresh_momentum=True, explain=0.5,
                guide=ggmc.ControlVariate(10, curvature="diagonal"),
            ),
        ),
        (
            '[kernel]\nname = "sghmc"\nlearning_rate = 0.01\nmonitor_every = 4\n'
            "[guide]\nsize = 10\naugment = { pad = 2, flip = false }",
            ggmc.SGHMC(
                0.01**0.5 / 40**0.5, monitor_every=4, guide=ggmc.Minibatch(10, augment=ggmc.nets.GuideViews(2, False))
            ),
        ),
        (
            '[kernel]\nname = "sgld"\nstep_size = 0.1\n[kernel.over]\nperiod = 8\ntemperature = "flat"\n'
            'step_size = { shape = "cyclical", cycles = 4, of = { shape = "cosine", low = 0.2 } }',
            ggmc.SGLD(
                0.1,
                over=ggmc.schedule.Over(
                    8, ggmc.schedule.Cyclical(4, ggmc.schedule.Cosine(0.2)), ggmc.schedule.Flat()
                ),
            ),
        ),
        (
            '[kernel]\nstep_size = 0.1\n[kernel.along]\neither_way = true\n'
            'step_size = { shape = "drops", at = [0.25, 0.5], factor = 0.3 }',
            ggmc.GGMC(
                0.1, along=ggmc.schedule.Along(ggmc.schedule.Drops((0.25, 0.5), 0.3), either_way=True)
            ),
        ),
        ("", DEFAULT),
    ],
)  # fmt: skip
def test_kernels_and_guides(text: str, kernel: Any, tmp_path: Path) -> None:
    data = DIGITS if "augment" in text else DIABETES
    assert built(tmp_path, f"{data}{text}").kernel == kernel


def test_a_check_has_as_many_minibatches_as_the_study(tmp_path: Path) -> None:
    def size(text: str) -> tuple[int, int, int | None]:
        parts: Any = small(read(study(tmp_path, text)))
        return parts.target.num_data, parts.field().epoch, parts.num_data

    assert size('[data]\nsource = "digits"\n[guide]\nsize = 100') == (30, 15, 1437)  # 1437 in batches of 100
    assert size('[data]\nsource = "cifar10"\nsubset = 900\n[guide]\nsize = 100') == (18, 9, 900)
    assert size('[data]\nsource = "digits"\n[guide]\nsize = 500') == (8, 4, 1437)
