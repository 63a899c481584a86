"""A torch module made Bayesian: the posterior of its weights as a target, and what it predicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from ggmc.bayes import initial_points
from ggmc.bayes.data_checks import (
    called,
    check_form,
    check_views,
    in_precision_of,
    own_copy,
    posterior_data,
    sampled_parameters,
    shapes_of,
)
from ggmc.bayes.likelihoods import Likelihood, as_likelihood
from ggmc.bayes.module_checks import (
    batchnorm_trains,
    changed_buffer,
    evaluating,
    first_output,
    not_exact_because_of,
    settle_batchnorm,
)
from ggmc.bayes.nets import FreeViews, FrozenViews
from ggmc.bayes.predict import Prediction, features, predict
from ggmc.bayes.priors import Prior, assign
from ggmc.bayes.private_random import global_states, set_global_states
from ggmc.bayes.score import score
from ggmc.bayes.unknowns import Unknowns
from ggmc.errors import BadInput, require_count, require_seed
from ggmc.plain import Tree
from ggmc.targets.base import Advice, PredictiveTarget
from ggmc.targets.batched import OverChains, no_validation
from ggmc.targets.data import Data, InMemory
from ggmc.targets.data_density import DataDensity
from ggmc.targets.layout import Parameters, as_tensors
from ggmc.targets.potential import Row

PROBES = 32  # examples whose predictions tell whether the chains have mixed
NORMALISED_OVER = 512  # examples from which BatchNorm, where it was in training mode, has its statistics to predict


class Posterior(DataDensity, PredictiveTarget):
    """The posterior of a module's weights, as a target with data.

    The module is copied and left alone. Its mode counts: with dropout or BatchNorm in training mode the posterior can
    be sampled with `adjust=False`, but not tested.

    Args:
        module: Gives the outputs for a batch of inputs, one row per example. Parameters with `requires_grad=False` stay
            as they are.
        likelihood: One of `ggmc.likelihoods`, its name ("categorical", "gaussian", …), or a function of output and
            outcomes that returns one term per example.
        prior: One of `ggmc.priors`, a scalar torch distribution of every weight, or a dict of these by name pattern or
            layer type. A tensor without a prior is an error.
        x: Inputs: a tensor or array with one row per example, or a tuple or dict of them; or a Dataset of pairs (x, y).
        y: Outcomes, one row per example; left out where `x` is a Dataset.
        sampled: A pattern, or several, of the names of parameters to sample, such as "head.*". Default: all.
        start: Where chains begin. "apart" (default): the first at the module's own values, the others at new
            initialisations of its layers; "module": all at the module's own values; "prior": at draws of the prior;
            "map": as "apart", each followed by a short optimisation.
        views: How images are augmented: `ggmc.nets.FrozenViews`, exact, or `FreeViews`, for `adjust=False` only. To
            augment what drives the chain, but not what is sampled, see `ggmc.nets.GuideViews`.
        jitter: Uniform noise of at most this size is added to starts "apart" and "module". Default: 0.
        vectorise: As in `ggmc.DataDensity`. By default decided by the size of the network and the batch.

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
        likelihood: Likelihood | str | Callable[[Tensor, Tensor], Tensor],
        prior: Prior | Distribution | Mapping[Tree, Prior | Distribution],
        x: Tree,
        y: Tree = None,
        *,
        sampled: str | Sequence[str] | None = None,
        start: str = "apart",
        views: FrozenViews | FreeViews | None = None,
        jitter: float = 0.0,
        vectorise: bool | None = None,
    ):
        if start not in initial_points.NAMES:
            raise BadInput(f"start must be one of {', '.join(initial_points.NAMES)}, got {start!r}")
        check_views(views)
        self.module = own_copy(module)
        self.likelihood = as_likelihood(likelihood)
        self.way_to_start, self.views = start, views
        weights = sampled_parameters(self.module, sampled)
        self.priors = assign(prior, weights, self.module)
        like = next(iter(weights.values()))
        data = posterior_data(x, y, views, like)
        self.input_shapes = shapes_of(data.slice(0, 1)[0])
        self._check_output(data, like)
        self._normalises = batchnorm_trains(self.module)
        to_learn = self.likelihood.noise_to_learn()
        if to_learn is not None:
            joint = self.likelihood.with_noise(to_learn)
            found = _learnt_noise(Posterior(module, joint, prior, x, y, sampled=sampled, views=views))
            self.likelihood = self.likelihood.with_noise(found)
        shapes = {name: weight.shape for name, weight in weights.items()}
        self.unknowns = Unknowns(self.priors, shapes, self.likelihood.latents())
        latents = self.unknowns.latents
        begin = weights | {name: initial_points.typical(latent, like) for name, latent in latents.items()}
        support: Tree = {name: latent.support for name, latent in latents.items()}
        reason = not_exact_because_of(self.module) or (None if views is None else views.not_exact)
        self.module.requires_grad_(False)  # what is not sampled needs no gradient
        super().__init__(
            self.unknowns.log_prob,
            self._log_likelihood,
            data,
            self.unknowns.encoded(begin),
            support,
            jitter,
            bound=None if reason else self.likelihood.bound(data.slice(0, 1)[1]),
            vectorise=False if reason else vectorise,
            advice=Advice(mass=self._prior_precision),
        )
        few = in_precision_of(like, self.data.slice(0, min(4, self.num_data))[0])
        self.not_exact = reason or changed_buffer(self.module, few) or self.not_exact
        if self.unknowns.scaled:  # then weights are computed from several values
            self.untransformed = frozenset()
        self._output = OverChains(self._output_of_row, self.layout, (None,), self.vectorise)
        self._score = OverChains(self._score_of_row, self.layout, (None,), self.vectorise)

    def state_dict(self) -> dict[str, Tree]:
        found = {"views": self.views.generator.get_state()} if isinstance(self.views, FreeViews) else {}
        if self.not_exact is not None:  # layers may draw from torch's own generators, and change their buffers
            found |= {"buffers": dict(self.module.named_buffers()), "generators": global_states(self.device)}
        return found

    def load_state_dict(self, stored: dict[str, Tree]) -> None:
        if isinstance(self.views, FreeViews):
            self.views.generator.set_state(stored["views"])
        if self.not_exact is not None:
            for name, buffer in self.module.named_buffers():
                buffer.copy_(stored["buffers"][name])
            set_global_states(self.device, stored["generators"])

    # Rows and values

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        def seen(values: Row) -> Row:
            return values | self.unknowns.weights(values)

        return self.unknowns.over_rows(seen, super().constrain(position), position.dim() - 1)

    def unconstrain(self, values: Parameters) -> Tensor:
        if not isinstance(values, Mapping):
            raise BadInput(f"the values of a posterior are a dict of tensors by name, got {type(values).__name__}")
        named = {name: v.to(self.device, self.dtype) for name, v in as_tensors("values", values, self.start).items()}
        missing = sorted(set(self.priors) - set(named))
        if missing:
            raise BadInput(f"the values of a posterior must have all of its weights, but lack {', '.join(missing)}")
        first = next(iter(self.priors))
        leading = named[first].dim() - len(self.layout.shapes[first])
        return super().unconstrain(self.unknowns.over_rows(self.unknowns.encoded, named, leading))

    def latents_of(self, position: Tensor) -> dict[str, Tensor]:
        """The likelihood's own unknowns in each row, by name: [rows]."""
        return self.unknowns.noise(super().constrain(position))

    # Predictions

    def outputs(self, position: Tensor, x: Tree) -> Tensor:
        """What the module gives for each row and example: [rows, n, ...]."""
        with torch.no_grad(), no_validation(), evaluating(self.module):
            return self._output(position, in_precision_of(self.start, x))

    def predict(self, rows: Tensor, x: Tree, seed: int = 0) -> Prediction:
        return predict(self, rows, x, seed)

    def score(self, rows: Tensor, x: Tree, y: Tree) -> dict[str, float]:
        return score(self, rows, x, y)

    def prediction_features(self, rows: Tensor, x: Tree = None) -> Tensor:
        if x is None:
            number = min(PROBES, self.num_data)
            x = self._inputs(torch.arange(number, device=self.device) * self.num_data // number)
        return features(self, rows, x)

    def watched_latents(self) -> list[str]:
        return list(self.likelihood.latents())

    def log_likelihoods(self, position: Tensor, data: Tree = None) -> Tensor:
        if data is None:
            return super().log_likelihoods(position)
        if not isinstance(data, Data):
            data = self.checked(*(data if isinstance(data, tuple | list) and len(data) == 2 else (data, None)))
        with evaluating(self.module):  # other data are seen as they are, without views of them
            return self.data_sum.terms(position, data, self._score)

    def checked(self, x: Tree, y: Tree) -> Data:
        """New inputs with their outcomes, checked as the first ones were."""
        data = posterior_data(x, y, None, self.start)
        check_form(data.slice(0, len(data) if isinstance(data, InMemory) else 1)[0], self.input_shapes)
        self._check_output(data, self.start)
        return data

    def prior_predictive(self, x: Tree, draws: int = 100, seed: int = 0) -> Prediction:
        """What the model predicts before it has seen data: the mixture over draws of the prior.

        Args:
            x: Inputs in the form of the training inputs.
            draws: How many draws of the prior, unknown scales included.
            seed: The seed of the draws, of weights and outcomes.

        Example:
            >>> import torch, ggmc
            >>> x, y = torch.randn(20, 3), torch.randint(4, (20,))
            >>> posterior = ggmc.Posterior(torch.nn.Linear(3, 4), "categorical", ggmc.priors.Gaussian(1.0), x, y)
            >>> posterior.prior_predictive(x).probabilities.shape
            (20, 4)
        """
        require_count("draws", draws)
        require_seed("seed", seed)
        rows = initial_points.prior_draws(self, draws, torch.Generator(self.device).manual_seed(seed))
        return predict(self, rows, x, seed)

    # Where chains begin

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        return initial_points.starts(self, self.way_to_start, chains, generator)

    def _prior_precision(self) -> Tensor:
        """One number per tensor, [d]: the scale of all directions that the data say little about."""
        return initial_points.prior_scales(self).double() ** -2

    def __repr__(self) -> str:
        size = sum(self.layout.shapes[name].numel() for name in self.priors)
        return (
            f"Posterior({type(self.module).__name__}, {size:,} weights in {len(self.priors)} tensors; "
            f"{self.likelihood}; {self.num_data} examples)"
        )

    # The density, for one row

    def _log_likelihood(self, values: Row, batch: tuple[Tree, ...]) -> Tensor:
        x, y, *codes = batch
        number = 1
        if isinstance(self.views, FreeViews):
            x = self.views.apply(x)
        elif isinstance(self.views, FrozenViews):
            number = codes[0].shape[1]
            x, y = self.views.apply(x, codes[0]).flatten(0, 1), y.repeat_interleave(number, 0)
        output = called(self.module, self.unknowns.weights(values), in_precision_of(self.start, x))
        terms = self._terms(output, y, values)
        return terms if number == 1 else terms.unflatten(0, (-1, number)).mean(1)

    def _terms(self, output: Tensor, y: Tree, values: Row) -> Tensor:
        return self.likelihood.log_prob(output, in_precision_of(self.start, y), self.unknowns.noise(values))

    def _output_of_row(self, free: Row, x: Tree) -> Tensor:
        weights = self.unknowns.weights(self.coordinates.values(free)[0])
        if self._normalises:
            few = self._inputs(torch.arange(min(NORMALISED_OVER, self.num_data), device=self.device))
            settle_batchnorm(self.module, lambda: called(self.module, weights, few))
        return called(self.module, weights, x)

    def _score_of_row(self, free: Row, batch: tuple[Tree, ...]) -> Tensor:
        output = self._output_of_row(free, in_precision_of(self.start, batch[0]))
        return self._terms(output, batch[1], self.coordinates.values(free)[0])

    def _inputs(self, numbers: Tensor) -> Tree:
        """Some of the training inputs."""
        return in_precision_of(self.start, self.data.take(numbers)[0])

    def _check_output(self, data: Data, like: Tensor) -> None:
        few = data.slice(0, min(4, len(data)))
        output: object = first_output(self.module, few[0], like)
        if not isinstance(output, Tensor):
            raise BadInput(f"the module must return a tensor, got {type(output).__name__}")
        if output.dim() == 0 or len(output) != len(few[1]):
            raise BadInput(f"the module must return one row per example, [{len(few[1])}, …], got {list(output.shape)}")
        self.likelihood.check(output, data.slice(0, len(data))[1] if isinstance(data, InMemory) else few[1])


def _learnt_noise(joint: Posterior) -> float:
    """The noise at a mode of the joint density of weights and noise."""
    generator = torch.Generator(joint.device).manual_seed(0)
    return joint.latents_of(initial_points.optimised(joint, joint.start[None], generator))["noise"].item()
