"""What every target offers: the interface that guides, kernels, warm-up and traces rely on, and nothing else.

One convention, said once: the potential U(θ) = −log density is summed over all data, prior and Jacobian included, and
is float64, even where the user's functions compute in float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from ggmc.errors import BadInput
from ggmc.plain import Tree
from ggmc.targets.data import Data
from ggmc.targets.layout import Layout


@dataclass(frozen=True)
class Advice:
    """What a target or a guide knows that may help warm-up. Every entry is optional.

    Args:
        mass: A function that returns a mass matrix [d] or [d, d] that suits the target, or None.
        starts: A function of the number of chains, the temperature and a generator that returns first positions
            [chains, d].
        acceptance: The acceptance rate to tune the step size for, between 0 and 1.

    Example:
        >>> import torch
        >>> from ggmc.targets import Advice
        >>> Advice(mass=lambda: torch.ones(3)).acceptance is None
        True
    """

    mass: Callable[[], Tensor | None] | None = None
    starts: Callable[[int, float, torch.Generator], Tensor] | None = None
    acceptance: float | None = None


class Target(ABC):
    """A distribution π(θ) ∝ exp(−U(θ)/T) over rows of d numbers.

    A subclass states in `super().__init__` whether a Metropolis test on it is exact; there is no default.

    Args:
        layout: The names and shapes of the tensors in one row.
        start: A typical row [d], unconstrained, of finite potential; its precision and device are the target's.
        not_exact: None where U is a deterministic function of the row alone; else the reason why it is not, with a
            remedy. Then only `adjust=False` is accepted.
        stops_early: Whether `potential` uses its `limit`.
        advice: What warm-up may use.
        untransformed: The names whose values, as `constrain` gives them, are the row's own numbers: a store on disk
            keeps these once only. By default none.
    """

    def __init__(
        self,
        layout: Layout,
        start: Tensor,
        *,
        not_exact: str | None,
        stops_early: bool = False,
        advice: Advice | None = None,
        untransformed: Iterable[str] = (),
    ):
        self.layout = layout
        self.start = start
        self.dtype, self.device = start.dtype, start.device
        self.not_exact = not_exact
        self.stops_early = stops_early
        self.advice = Advice() if advice is None else advice
        self.untransformed = frozenset(untransformed)

    def state_dict(self) -> dict[str, Tree]:
        """What sampling changes in the target itself, as plain values and tensors, for a run that is resumed."""
        return {}

    def load_state_dict(self, stored: dict[str, Tree]) -> None:
        """Restore a saved state.

        Args:
            stored: From `state_dict`.
        """
        if stored:
            raise BadInput(f"{type(self).__name__} has no state to restore, got {sorted(stored)}")

    def check_again(self) -> None:
        """Called where a run begins. A target that keeps a record of its functions' operations compares the two again:
        what a function reads besides its arguments may have been changed since the last run."""
        return

    @abstractmethod
    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        """U of each row.

        Args:
            position: Rows [chains, d].
            limit: Potentials [chains] above which the caller needs no exact value. Where all rows are certain to exceed
                theirs, any value between the limit and U may be returned. It may be ignored.

        Returns:
            [chains], float64.
        """

    @abstractmethod
    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """U and ∇U of each row: [chains, d] -> [chains] float64 and [chains, d]."""

    @abstractmethod
    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        """Rows as the user's named values: [..., d] -> {name: [..., *shape]}."""

    @abstractmethod
    def unconstrain(self, values: Tree) -> Tensor:
        """The user's values as rows: {name: [..., *shape]} -> [..., d]."""

    @abstractmethod
    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        """Where each chain begins: [chains, d], every row of finite potential and gradient."""


def require_target(target: object) -> None:
    """Refuse what is not a target."""
    if not isinstance(target, Target):
        raise BadInput(f"target must be a target such as ggmc.Density(log_prob, start), got {target!r}")


class DataTarget(Target):
    """A target whose potential is a sum over examples, so that guides can use minibatches of them.

    A subclass sets `data` and `num_data`.
    """

    data: Data
    num_data: int

    @abstractmethod
    def batch_gradient(self, position: Tensor, batch: Tree, weights: Tensor) -> Tensor:
        """∇[−log prior − Σ weight · log likelihood] over each chain's own batch: [chains, d].

        Args:
            position: Rows [chains, d].
            batch: One batch for each chain, in the form of the data: leaves [chains, size, ...].
            weights: [chains, size].
        """

    @abstractmethod
    def batch_hessian_products(self, position: Tensor, batch: Tree, weights: Tensor, directions: Tensor) -> Tensor:
        """The Hessian of the same, times one direction for each row: [chains, d]."""

    @abstractmethod
    def log_likelihoods(self, position: Tensor, data: Tree = None) -> Tensor:
        """The log likelihood of each example in each row, [rows, examples] float64; of other data, if given."""

    @abstractmethod
    def rows_at_once(self, examples: int) -> int:
        """How many rows, each with a batch of so many examples, fit in the memory for one chunk."""


class PredictiveTarget(DataTarget):
    """A target that predicts outcomes for new inputs."""

    @abstractmethod
    def predict(self, rows: Tensor, x: Tree, seed: int = 0) -> Tree:
        """The mixture over rows [draws, d] of what is predicted for the inputs x: a `ggmc.Prediction`."""

    @abstractmethod
    def score(self, rows: Tensor, x: Tree, y: Tree) -> dict[str, float]:
        """How good the predictions for x are, given the outcomes y, by name."""

    @abstractmethod
    def prediction_features(self, rows: Tensor, x: Tree = None) -> Tensor:
        """Predictions in each row as numbers, by which mixing is judged: [rows, features].

        Args:
            rows: [rows, d].
            x: Inputs; by default some of the training inputs.
        """

    @abstractmethod
    def watched_latents(self) -> list[str]:
        """Names of unknowns beside the predictions whose mixing is judged too, such as the noise."""
