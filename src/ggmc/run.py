"""sample(): chains, warm-up, progress, and what happens when something stops them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ggmc import diagnostics
from ggmc.errors import BadInput, require_count
from ggmc.kernels import GGMC, Kernel
from ggmc.metropolis import Info
from ggmc.scheme import State
from ggmc.target import Target
from ggmc.trace import Block, Trace
from ggmc.warmup import Warmup

log = logging.getLogger("ggmc")

BLOCK = 50  # draws handed out at a time

# Chosen by measuring, with `python -m benchmarks.effective_draws --kernels`: over real posteriors, a momentum kept in
# part from one trajectory to the next gives more effective draws per gradient than one drawn afresh (HMC, MALT).
DEFAULT = GGMC(scheme="O(BAB)O", friction=1.0)


def sample(
    target: Target,
    kernel: Kernel | None = None,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    seed: int = 0,
    progress: bool = True,
    target_accept: float | None = None,
) -> Trace:
    """Draw from the target: `chains` chains, vectorised, each with `warmup` trajectories thrown away and `draws` kept.

    Without a kernel, or with one whose `step_size` is None, warm-up tunes what is open (see `ggmc.warmup`), towards the
    acceptance `target_accept` (0.8; 0.6 for MALA), and then freezes it: `trace.kernel` shows what it found. The same
    seed gives the same draws. Ctrl-C returns what was drawn so far; an exception from the target carries it as its
    `trace` attribute. Findings that should worry you are logged and kept in `trace.warnings`.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=torch.float64))
        >>> trace = ggmc.sample(target, progress=False)
        >>> bool(abs(trace["theta"].mean() + 0.6224) < 0.1)            # the truth is −0.6224
        True
    """
    if not hasattr(target, "potential_and_gradient"):
        raise BadInput(f"target must be a target such as ggmc.Density(log_prob, start), got {target!r}")
    if kernel is not None and (isinstance(kernel, type) or not hasattr(kernel, "as_ggmc")):
        raise BadInput(f"kernel must be a kernel such as ggmc.HMC(), got {kernel!r}")
    require_count("draws", draws)
    require_count("warmup", warmup, least=0)
    require_count("chains", chains)
    if target_accept is not None and not 0 < target_accept < 1:
        raise BadInput(f"target_accept must lie between 0 and 1, got {target_accept!r}")
    kernel = DEFAULT if kernel is None else kernel
    run = Chains(target, kernel, chains, warmup, seed, target_accept)
    begun = time.perf_counter()

    def trace_of(blocks: list[Block]) -> Trace:
        attributes = {
            "created_at": datetime.now(UTC).isoformat(),
            "sampling_time": time.perf_counter() - begun,
            "seed": seed,
            "tuning_steps": warmup,
            "dtype": str(target.dtype),
        }
        return Trace.of(blocks, run.kernel, attributes)

    blocks: list[Block] = []
    with _Progress(run, draws, progress) as bar:
        try:
            for block in run.blocks(draws, bar.update):
                blocks.append(block)
        except KeyboardInterrupt:
            if not blocks:
                raise
            log.warning("Interrupted: returning the %d draws per chain made so far, of %d.", run.drawn, draws)
        except Exception as error:
            if blocks:
                setattr(error, "trace", trace_of(blocks))  # noqa: B010
                error.add_note(f"The {run.drawn} draws per chain made before this are in the exception's `trace`.")
            raise
    trace = trace_of(blocks)
    trace.warnings = diagnostics.check(trace, run.warmup.wanted if run.warmup.tuning else None)
    for message in trace.warnings:
        log.warning("%s", message)
    return trace


class Chains:
    """Everything the chains of a run are: positions, momenta, potentials, generator, adaptation, counters.

    `state_dict()` is all of it as plain tensors and numbers; another `Chains` that loads it goes on bit for bit.
    """

    def __init__(
        self, target: Target, kernel: Kernel, chains: int, warmup: int, seed: int, target_accept: float | None = None
    ):
        self.target = target
        self.kernel: Any = kernel
        self.warmup = Warmup(kernel, target, warmup, target_accept)
        self.generator = torch.Generator(target.device).manual_seed(seed)
        self.drawn = 0
        self.divergences = 0
        settings = kernel.as_ggmc()
        init, self._step = replace(settings, step_size=settings.step_size or 1.0).bind(target)
        self.state = init(target.starts(chains, self.generator), self.generator)
        self._freeze_when_warm()

    def advance(self) -> Info:
        """One trajectory of every chain: of warm-up while there is any left, then one draw each."""
        if self.warmup.iteration < self.warmup.iterations:
            self.state, info = self.warmup.step(self.state, self.generator)
            self._freeze_when_warm()
        else:
            self.state, info = self._step(self.state, self.generator)
            self.drawn += 1
            self.divergences += int(info.diverging.sum())
        return info

    def blocks(self, draws: int, watch: Callable[[Info], None] = lambda info: None) -> Iterator[Block]:
        """Go on until there are `draws` draws, handing them out a block at a time.

        What stops the chains half-way comes through after the draws made so far have been handed out.
        """
        kept: list[tuple[State, Info]] = []
        try:
            while self.drawn < draws:
                before = self.drawn
                info = self.advance()
                if self.drawn > before:
                    kept.append((self.state, info))
                watch(info)
                if len(kept) == BLOCK:
                    yield self._block(kept)
                    kept = []
        except (Exception, KeyboardInterrupt):
            if kept:
                yield self._block(kept)
            raise
        if kept:
            yield self._block(kept)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on, as plain tensors and numbers."""
        return {
            "state": dict(self.state._asdict()),
            "generator": self.generator.get_state(),
            "warmup": self.warmup.state_dict(),
            "drawn": self.drawn,
            "divergences": self.divergences,
        }

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Become what was stored."""
        self.state = State(**stored["state"])
        self.generator.set_state(stored["generator"])
        self.warmup.load_state_dict(stored["warmup"])
        self.drawn, self.divergences = stored["drawn"], stored["divergences"]
        self._freeze_when_warm()

    def _freeze_when_warm(self) -> None:
        if self.warmup.iteration == self.warmup.iterations:
            self.kernel = self.warmup.tuned()
            _, self._step = self.kernel.bind(self.target)

    def _block(self, kept: list[tuple[State, Info]]) -> Block:
        mass = self.kernel.as_ggmc().fixed_mass(self.target)

        def stacked(rows: list[Tensor]) -> Any:
            return torch.stack(rows, dim=1).detach().cpu().numpy()

        positions = torch.stack([state.position for state, _ in kept], dim=1)
        draws = {name: value.detach().cpu().numpy() for name, value in self.target.constrain(positions).items()}
        infos = [info for _, info in kept]
        like = infos[0].log_accept
        stats = {
            "lp": stacked([-state.potential for state, _ in kept if state.potential is not None]),
            "acceptance_rate": stacked([info.log_accept.clamp_max(0.0).exp() for info in infos]),
            "log_accept": stacked([info.log_accept for info in infos]),
            "is_accepted": stacked([info.accepted for info in infos]),
            "diverging": stacked([info.diverging for info in infos]),
            "energy_error": stacked([info.energy_error for info in infos]),
            "work": stacked([info.work for info in infos]),
            "n_steps": stacked([torch.full_like(like, info.steps, dtype=torch.int64) for info in infos]),
            "step_size": stacked([torch.full_like(like, self.kernel.step_size) for _ in infos]),
            "kinetic_temperature": stacked([diagnostics.kinetic_temperature(state, mass) for state, _ in kept]),
            "configurational_temperature": stacked([diagnostics.configurational_temperature(s) for s, _ in kept]),
        }
        return Block(draws, stats)


class _Progress:
    """A tqdm bar that says what the chains are doing."""

    def __init__(self, run: Chains, draws: int, shown: bool):
        self._run = run
        self._bar = tqdm(total=run.warmup.iterations + draws, disable=not shown, dynamic_ncols=True, desc="warm-up")
        self._accepted = 0.0
        self._seen = 0
        self._sampling = False

    def update(self, info: Info) -> None:
        if self._bar.disable:
            return
        if self._run.drawn and not self._sampling:
            self._sampling, self._accepted, self._seen = True, 0.0, 0
            self._bar.set_description("sampling")
        self._accepted += info.log_accept.clamp_max(0.0).exp().mean().item()
        self._seen += 1
        self._bar.set_postfix_str(
            f"acceptance {self._accepted / self._seen:.2f}, {self._run.divergences} divergences", refresh=False
        )
        self._bar.update()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
