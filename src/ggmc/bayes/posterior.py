"""A torch module made Bayesian: its weights' posterior as a target, and what it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from ggmc.bayes import initial_points as ways_to_start
from ggmc.bayes.data_checks import called, in_precision_of, own_copy, posterior_data, sampled_parameters
from ggmc.bayes.likelihoods import as_likelihood
from ggmc.bayes.module_checks import (
    batchnorm_trains,
    changed_buffer,
    evaluating,
    not_exact_because_of,
    settle_batchnorm,
)
from ggmc.bayes.nets import FreeViews, FrozenViews
from ggmc.bayes.priors import assign, total_log_prob
from ggmc.dynamics.mass import Diagonal, Mass
from ggmc.errors import BadInput
from ggmc.targets.batched import OverChains, no_validation
from ggmc.targets.layout import Parameters
from ggmc.targets.data import Data, as_data
from ggmc.targets.data_density import DataDensity

PROBES = 32  # examples whose predictions tell whether the chains have mixed
NORMALISED_OVER = 512  # examples from which BatchNorm, where it was in training mode, has its statistics to predict


class Posterior(DataDensity):
    """The posterior of a module's weights, as a target with data.

    `likelihood` is one of `ggmc.likelihoods`, its name ("categorical", "gaussian", …), or any function of output and
    outcomes that returns one term per example. `prior` is one of `ggmc.priors`, a torch law of every weight, or a dict
    by name pattern or layer type; a tensor without a prior is an error. `x` and `y` are tensors or arrays with one row
    per example, or `x` is a Dataset of pairs and `y` is left out.

    Parameters with `requires_grad=False` stay as they are; `sampled` ("head.*") samples only those that match. `start`
    is "module" (its own values), "prior" (a draw each), or "map" (a short optimisation each, the first chain from the
    module's own values, the others from new initialisations). `views` augments images: `ggmc.nets.FrozenViews`, exact,
    or `FreeViews`, for monitoring. `vectorise` is as in `ggmc.DataDensity`; by default the quicker way is measured, and
    the two round differently: say True or False where a seed shall give the same draws to the last bit.

    The module is copied and left alone. Its mode counts: dropout or BatchNorm in training mode can be monitored
    (`adjust=False`), but not tested.

    Example:
        >>> import torch, ggmc
        >>> x = torch.linspace(-1, 1, 50)[:, None]
        >>> y = torch.sin(3 * x) + 0.1 * torch.randn(50, 1)
        >>> net = ggmc.nets.MLP([1, 10, 1], torch.nn.Tanh)
        >>> posterior = ggmc.Posterior(net, ggmc.likelihoods.Gaussian(0.1), ggmc.priors.Gaussian(1.0), x, y)
        >>> posterior
        Posterior(MLP, 31 weights in 4 tensors; Gaussian(noise=0.1); 50 examples)
        >>> trace = ggmc.sample(posterior, draws=20, warmup=50, chains=2, progress=False)
        >>> trace.predict(x).mean.shape
        (50,)
    """

    def __init__(
        self,
        module: nn.Module,
        likelihood: Any,
        prior: Any,
        x: Any,
        y: Any = None,
        *,
        sampled: str | Sequence[str] | None = None,
        start: str = "module",
        views: FrozenViews | FreeViews | None = None,
        jitter: float = 0.0,
        vectorise: bool | None = None,
    ):
        if start not in ways_to_start.NAMES:
            raise BadInput(f"start must be one of {', '.join(ways_to_start.NAMES)}, got {start!r}")
        self.module = own_copy(module)
        self.likelihood = as_likelihood(likelihood)
        self.start, self.views = start, views
        weights = sampled_parameters(self.module, sampled)
        self.priors = assign(prior, weights, self.module)
        like = next(iter(weights.values()))
        data = posterior_data(x, y, views, like)
        self._check_output(data, like)
        self._normalises = batchnorm_trains(self.module)
        if getattr(self.likelihood, "noise", None) == "learnt":
            noise = self._learnt_noise(module, prior, x, y, sampled, views)
            self.likelihood = self.likelihood.fixed(noise)  # pyright: ignore[reportAttributeAccessIssue]
        self._laws: dict[str, dict[str, Distribution]] = {
            name: self.priors[name].latents(weight.shape) for name, weight in weights.items()
        }
        latent = {f"{name}.{key}": law for name, laws in self._laws.items() for key, law in laws.items()}
        self._latent_laws: dict[str, Distribution] = latent | self.likelihood.latents()
        values = {name: ways_to_start.typical(law).to(like) for name, law in self._latent_laws.items()}
        begin = {name: self._encoded(name, weight, values) for name, weight in weights.items()} | values
        support: Any = {name: law.support for name, law in self._latent_laws.items()}
        reason = not_exact_because_of(self.module) or getattr(views, "not_exact", None)
        y_of = data.slice(0, 1)[1]
        bound = None if reason else self.likelihood.bound(y_of)
        self.module.requires_grad_(False)  # what is not sampled needs no gradient
        super().__init__(
            self._log_prior, self._log_likelihood, data, begin, support, jitter, bound, False if reason else vectorise
        )
        few = in_precision_of(like, self.data.slice(0, min(4, self.num_data))[0])
        self.not_exact = reason or changed_buffer(self.module, few) or self.not_exact
        self._output = OverChains(self._output_of_row, self.layout, (None,), self.vectorise)
        self._score = OverChains(self._score_of_row, self.layout, (None,), self.vectorise)

    # What it is made of

    def weights(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """One row's tensors as the module sees them."""
        return {name: self._decoded(name, values[name], values) for name in self.priors}

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        return self._over_rows(lambda values: values | self.weights(values), super().constrain(position), position)

    def unconstrain(self, values: Parameters) -> Tensor:
        if not isinstance(values, dict):
            raise BadInput("the values of a posterior are a dict of tensors by name")
        values = {name: value.to(self.device, self.dtype) for name, value in values.items()}
        first = next(iter(self.priors))
        leading = values[first].shape[: values[first].dim() - len(self.layout.shapes[first])]

        def encoded(own: dict[str, Tensor]) -> dict[str, Tensor]:
            return own | {name: self._encoded(name, own[name], own) for name in self.priors}

        return super().unconstrain(self._over_rows(encoded, values, torch.empty(*leading, 0)))

    def outputs(self, position: Tensor, x: Any) -> Tensor:
        """What the module gives for each row and example: [rows, n, ...]."""
        with torch.no_grad(), no_validation(), evaluating(self.module):
            return self._output(position, in_precision_of(self.coordinates.start, x))

    def log_likelihoods(self, position: Tensor, data: Any = None) -> Tensor:
        if data is None:
            return super().log_likelihoods(position)
        with evaluating(self.module):  # other data are seen as they are, without views of them
            return self._streamed_terms(self._score, position, as_data(data, self.device))

    def checked(self, x: Any, y: Any) -> Data:
        """New inputs with their outcomes, checked as the first ones were."""
        data = posterior_data(x, y, None, self.coordinates.start)
        self._check_output(data, self.coordinates.start)
        return data

    def watched(self, position: Tensor) -> Tensor:
        """Predictions at some of the training inputs, by which mixing is judged: [rows, features]."""
        from ggmc.bayes.predict import watched

        number = min(PROBES, self.num_data)
        probes = self._take(torch.arange(number) * self.num_data // number)
        return watched(self, position, probes)

    def mass(self) -> Mass:
        """The prior's precision, one number per tensor: the scale of all directions that the data say little about.

        Warm-up takes it for networks of more than a few hundred weights: variances learnt from chains that have not yet
        settled would slow them down.
        """
        return Diagonal(ways_to_start.prior_scales(self).double() ** -2, self.dtype)

    # Where chains begin

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        if self.start == "prior":
            return ways_to_start.finite_prior_draws(self, chains, generator)
        if self.start == "map":
            return ways_to_start.optimised(self, ways_to_start.initialised(self, chains, generator), generator)
        return super().starts(chains, generator)

    def prior_predictive(self, x: Any, draws: int = 100, seed: int = 0) -> Any:
        """What the model predicts before it has seen data: the mixture over draws of the prior.

        Example:
            >>> import torch, ggmc
            >>> x, y = torch.randn(20, 3), torch.randint(4, (20,))
            >>> posterior = ggmc.Posterior(torch.nn.Linear(3, 4), "categorical", ggmc.priors.Gaussian(1.0), x, y)
            >>> posterior.prior_predictive(x).probabilities.shape
            (20, 4)
        """
        from ggmc.bayes.predict import predict

        rows = ways_to_start.prior_draws(self, draws, torch.Generator(self.device).manual_seed(seed))
        return predict(self, rows, x, seed=seed)

    def draw_of_prior(self) -> dict[str, Tensor]:
        """One draw of all unknowns from their prior, by torch's global generator."""
        values = {name: law.sample() for name, law in self._latent_laws.items()}
        shapes = self.layout.shapes
        drawn = {name: prior.sample(shapes[name], self._latents(name, values)) for name, prior in self.priors.items()}
        return drawn | values

    def draw_of(self, name: str) -> Tensor:
        """One draw of one unknown, on the unconstrained scale on which chains move."""
        if name in self._latent_laws:
            return self.coordinates.transforms[name].inv(self._latent_laws[name].sample())
        values = {f"{name}.{key}": law.sample() for key, law in self._laws[name].items()}
        return self.priors[name].sample(self.layout.shapes[name], self._latents(name, values))

    def latents_of(self, position: Tensor) -> dict[str, Tensor]:
        """The likelihood's own unknowns in each row, by name: [rows]."""
        return self._likelihood_latents(super().constrain(position))

    def __repr__(self) -> str:
        size = sum(self.layout.shapes[name].numel() for name in self.priors)
        return (
            f"Posterior({type(self.module).__name__}, {size:,} weights in {len(self.priors)} tensors; "
            f"{self.likelihood}; {self.num_data} examples)"
        )

    # The density, for one row

    def _log_prior(self, values: dict[str, Tensor]) -> Tensor:
        parts = [self.priors[name].log_prob(values[name], self._latents(name, values)) for name in self.priors]
        parts += [total_log_prob(law, values[name]) for name, law in self._latent_laws.items()]
        return torch.stack(parts).sum()

    def _log_likelihood(self, values: dict[str, Tensor], batch: tuple[Any, ...]) -> Tensor:
        x, y, *codes = batch
        if isinstance(self.views, FreeViews):
            x = self.views.apply(x)
        number = 1
        if codes:
            number = codes[0].shape[1]
            x, y = self.views.apply(x, codes[0]).flatten(0, 1), y.repeat_interleave(number, 0)  # pyright: ignore
        output = called(self.module, self.weights(values), in_precision_of(values[next(iter(self.priors))], x))
        terms = self.likelihood.log_prob(output, y, self._likelihood_latents(values))
        return terms if number == 1 else terms.unflatten(0, (-1, number)).mean(1)

    def _output_of_row(self, free: dict[str, Tensor], x: Any) -> Tensor:
        weights = self.weights(self.coordinates.values(free)[0])
        if self._normalises:
            few = self._take(torch.arange(min(NORMALISED_OVER, self.num_data)))
            settle_batchnorm(self.module, lambda: called(self.module, weights, few))
        return called(self.module, weights, x)

    def _score_of_row(self, free: dict[str, Tensor], batch: tuple[Any, ...]) -> Tensor:
        values, _ = self.coordinates.values(free)
        output = self._output_of_row(free, in_precision_of(self.coordinates.start, batch[0]))
        return self.likelihood.log_prob(output, batch[1], self._likelihood_latents(values))

    def _likelihood_latents(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: values[name] for name in self.likelihood.latents()}

    def _take(self, numbers: Tensor) -> Any:
        """Some of the inputs."""
        return in_precision_of(self.coordinates.start, self.data.take(numbers.to(self.device))[0])

    def _latents(self, name: str, values: dict[str, Tensor]) -> dict[str, Tensor]:
        return {key: values[f"{name}.{key}"] for key in self._laws[name]}

    def _decoded(self, name: str, value: Tensor, values: dict[str, Tensor]) -> Tensor:
        return self.priors[name].decode(value, self._latents(name, values))

    def _encoded(self, name: str, weight: Tensor, values: dict[str, Tensor]) -> Tensor:
        return self.priors[name].encode(weight, self._latents(name, values))

    def _over_rows(self, function: Any, values: dict[str, Tensor], position: Tensor) -> dict[str, Tensor]:
        """A function of one row's tensors, for tensors with the leading dimensions of `position`."""
        if not any(self._laws.values()):  # weights are values
            return values
        for _ in position.shape[:-1]:
            function = torch.func.vmap(function)
        return function(values)

    # What is checked, or found, before

    def _check_output(self, data: Any, like: Tensor) -> None:
        few = data.slice(0, min(4, len(data)))
        with torch.no_grad(), evaluating(self.module):
            try:
                output = called(self.module, None, in_precision_of(like, few[0]))
            except Exception as error:
                raise BadInput(f"the module cannot be called on the first rows of x: {error}") from error
        if not isinstance(output, Tensor):
            raise BadInput(f"the module must return a tensor, got {type(output).__name__}")
        if output.dim() == 0 or len(output) != len(few[1]):
            raise BadInput(f"the module must return one row per example, [{len(few[1])}, …], got {list(output.shape)}")
        everything = data.bytes < float("inf")
        self.likelihood.check(output, data.slice(0, len(data))[1] if everything else few[1])

    def _learnt_noise(self, module: nn.Module, prior: Any, x: Any, y: Any, sampled: Any, views: Any) -> float:
        law = self.likelihood.latents()["noise"]
        unknown = self.likelihood.fixed(law)  # pyright: ignore[reportAttributeAccessIssue]
        joint = Posterior(module, unknown, prior, x, y, sampled=sampled, views=views)
        generator = torch.Generator(joint.device).manual_seed(0)
        rows = ways_to_start.optimised(joint, joint.coordinates.start[None], generator)
        return joint.latents_of(rows)["noise"].item()
