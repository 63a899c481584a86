"""sample(): chains, warm-up, progress, and what happens when something stops them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ggmc import kernels
from ggmc.dynamics.exactness import refuse_if_not_exact
from ggmc.dynamics.metropolis import Info
from ggmc.dynamics.scheme import Dynamics, State
from ggmc.errors import BadInput, require_count
from ggmc.kernels import GGMC, Kernel
from ggmc.kernels.ggmc import Step, fixed_mass, start_state
from ggmc.progress import wanted as bars_wanted
from ggmc.sampling.callbacks import Moment, Progress
from ggmc.targets.base import Target
from ggmc.trace import diagnostics
from ggmc.trace.trace import Block, Trace
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
    *,
    start: Tensor | None = None,
    anneal: float | None = None,
    watch: Callable[[Moment], None] | None = None,
) -> Trace:
    """Draw from the target: `chains` chains, vectorised, each with `warmup` trajectories thrown away and `draws` kept.

    Without a kernel, or with one whose `step_size` is None, warm-up tunes what is open (see `ggmc.warmup`), towards the
    acceptance `target_accept` (0.8; 0.6 for MALA, 0.65 for minibatches, 0.9 for control variates), and then freezes it:
    `trace.kernel` shows what it found. The same seed gives the same draws (of a `ggmc.Posterior`, to the last bit only
    with its `vectorise` given). Ctrl-C returns what was drawn so far; an exception from the target carries it as its
    `trace` attribute. A chain that early warm-up finds trapped far above the others goes on from the best of them, and
    the log says so. Findings that should worry you are logged and kept in `trace.warnings`.

    `start` gives the chains' first positions, unconstrained, [chains, d] (`trace.rows()[:, -1]` goes on from another
    run). `anneal` is a temperature for the beginning of warm-up, from where it goes to the kernel's own, which it
    reaches half-way: hot starts leave shallow modes. `watch` is called with a `Moment` after every trajectory, as
    `ggmc.tensorboard.Logger` is.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=torch.float64))
        >>> trace = ggmc.sample(target, progress=False)
        >>> bool(abs(trace["theta"].mean() + 0.6224) < 0.1)            # the truth is −0.6224
        True
    """
    if not hasattr(target, "potential_and_gradient"):
        raise BadInput(f"target must be a target such as ggmc.Density(log_prob, start), got {target!r}")
    if kernel is not None and (isinstance(kernel, type) or not hasattr(kernel, "on")):
        raise BadInput(f"kernel must be a kernel such as ggmc.HMC(), got {kernel!r}")
    require_count("draws", draws)
    require_count("warmup", warmup, least=0)
    require_count("chains", chains)
    if target_accept is not None and not 0 < target_accept < 1:
        raise BadInput(f"target_accept must lie between 0 and 1, got {target_accept!r}")
    kernel = DEFAULT if kernel is None else kernel
    begun = time.perf_counter()
    with bars_wanted(progress):
        run = Chains(target, kernel, chains, warmup, seed, target_accept, start, anneal)

    def trace_of(blocks: list[Block]) -> Trace:
        attributes = {
            "created_at": datetime.now(UTC).isoformat(),
            "sampling_time": time.perf_counter() - begun,
            "seed": seed,
            "tuning_steps": warmup,
            "dtype": str(target.dtype).removeprefix("torch."),
        } | run.warmup.notes
        return Trace.of(blocks, run.kernel, attributes, target)

    blocks: list[Block] = []
    with bars_wanted(False), Progress(run, draws, progress) as bar:
        try:
            for block in run.blocks(draws, bar.update if watch is None else _both(bar.update, watch, run)):
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
    try:
        with bars_wanted(progress):
            trace.warnings = diagnostics.check(trace, run.warmup.wanted if run.warmup.tuning else None)
    except (Exception, KeyboardInterrupt) as error:  # draws are not lost for want of their diagnosis
        trace.warnings = [f"The draws could not be diagnosed: {error!r}. Look at trace.summary()."]
    for message in trace.warnings:
        log.warning("%s", message)
    return trace


class Chains:
    """Everything the chains of a run are: positions, momenta, potentials, generator, adaptation, counters.

    `state_dict()` is all of it as plain tensors and numbers; another `Chains` that loads it goes on bit for bit.
    """

    def __init__(
        self,
        target: Target,
        kernel: Kernel,
        chains: int,
        warmup: int,
        seed: int,
        target_accept: float | None = None,
        start: Tensor | None = None,
        anneal: float | None = None,
    ):
        self.target = target
        self.warmup = Warmup(kernel, target, warmup, target_accept, anneal)
        self.generator = torch.Generator(target.device).manual_seed(seed)
        self.drawn = 0
        at_rest = Dynamics(0.0, 0.0, self.warmup.settings.temperature, self.warmup.mass)
        starts = self.warmup.starts(chains, self.generator) if start is None else _given(start, chains)
        self.state = start_state(target, self.warmup.field, starts, at_rest, self.generator)
        self._freeze_when_warm()

    def advance(self) -> Info:
        """One trajectory of every chain: of warm-up while there is any left, then one draw each."""
        if self._step is None:
            self.state, info = self.warmup.step(self.state, self.generator)
            self._freeze_when_warm()
        else:
            self.state, info = self._step(self.state, self.generator)
            self.drawn += 1
        return info

    def blocks(self, draws: int, watch: Callable[[Info], None] = lambda info: None) -> Iterator[Block]:
        """Go on until there are `draws` draws, handing them out a block at a time.

        What stops the chains half-way comes through after the draws made so far have been handed out.
        """
        kept: list[_Draw] = []
        try:
            while self.drawn < draws:
                before = self.drawn
                info = self.advance()
                if self.drawn > before:
                    kept.append(self._draw(info))
                watch(info)
                if len(kept) == BLOCK:
                    full, kept = kept, []
                    yield self._block(full)
        except (Exception, KeyboardInterrupt):
            if kept:
                yield self._block(kept)
            raise
        if kept:
            yield self._block(kept)

    def moment(self, info: Info) -> Moment:
        """How things stand."""
        warming = self._step is None
        step_size = self.warmup.current_step_size if warming else self._step_size_used()
        mass = self.warmup.mass if warming else self._mass
        iteration = self.warmup.iteration + self.drawn
        return Moment(iteration, warming, info, self.state, step_size, mass, self.target.layout)

    def state_dict(self) -> dict[str, Any]:
        """A snapshot of everything needed to go on, as plain tensors and numbers."""
        return {
            "kernel": kernels.to_dict(self.warmup.kernel),
            "warmup_iterations": self.warmup.iterations,
            "anneal": self.warmup.anneal,
            "state": dict(self.state._asdict()),
            "generator": self.generator.get_state(),
            "warmup": self.warmup.state_dict(),
            "drawn": self.drawn,
        }

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Become what was stored; refuses the state of a run with other settings."""
        own = self.state_dict()
        for name in ("kernel", "warmup_iterations", "anneal"):
            if stored[name] != own[name]:
                raise BadInput(f"the stored run has {name} {stored[name]!r}, but this one has {own[name]!r}")
        if stored["state"]["position"].shape != self.state.position.shape:
            shapes = [list(x["state"]["position"].shape) for x in (stored, own)]
            raise BadInput(f"the stored run has [chains, parameters] {shapes[0]}, but this one has {shapes[1]}")
        device = self.target.device
        moved: dict[str, Any] = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in stored["state"].items()}
        self.state = State(**moved)
        self.generator.set_state(stored["generator"].cpu())
        self.warmup.load_state_dict(stored["warmup"])
        self.drawn = stored["drawn"]
        self._freeze_when_warm()

    def _freeze_when_warm(self) -> None:
        """Fix the kernel once warm-up is over: from then on nothing adapts."""
        self.kernel: Any = self.warmup.kernel
        self._step: Step | None = None
        if self.warmup.iteration == self.warmup.iterations:
            self.kernel = self.warmup.tuned()
            settings = self.kernel.as_ggmc() if hasattr(self.kernel, "as_ggmc") else self.kernel
            refuse_if_not_exact(settings, self.target, self.warmup.field)
            self._mass = fixed_mass(self.kernel.mass, self.target)
            _, self._step = self.kernel.on(self.target, self.warmup.field)

    def _draw(self, info: Info) -> _Draw:
        state = self.state
        assert state.potential is not None
        # A sum that stopped early knows only that log α was too small: then the decision itself stands for the rate.
        stopping = self.kernel.adjust and getattr(self.target, "bound", None) is not None
        rate = info.accepted.double() if stopping else info.log_accept.clamp_max(0.0).exp()
        known_gradient = state.gradient if self.warmup.field.exact else None
        stats = {
            "lp": -state.potential if state.owed is None else torch.full_like(state.potential, torch.nan),
            "acceptance_rate": rate,
            "log_accept": info.log_accept,
            "is_accepted": info.accepted,
            "diverging": info.diverging,
            "energy_error": info.energy_error,
            "work": info.work,
            "n_steps": torch.full_like(info.accepted, info.steps, dtype=torch.int64),
            "step_size": torch.full_like(info.log_accept, self._step_size_used()),
            "kinetic_temperature": diagnostics.kinetic_temperature(state, self._mass),
            "kinetic_temperatures": diagnostics.kinetic_temperatures(state, self._mass, self.target.layout),
            "configurational_temperature": diagnostics.configurational_temperature(state.position, known_gradient),
        }
        if len(self.target.layout.shapes) == 1:  # one tensor is all there is
            del stats["kinetic_temperatures"]
        if info.noise_error is not None:
            stats["noise_error"] = info.noise_error
        return _Draw(state.position, stats)

    def _step_size_used(self) -> float:
        over = getattr(self.kernel, "over", None)
        return self.kernel.step_size * (1.0 if over is None else over.at(self.state.trajectories - 1)[0])

    def _block(self, kept: list[_Draw]) -> Block:
        positions = torch.stack([draw.position for draw in kept], dim=1)
        draws = {name: value.detach().cpu().numpy() for name, value in self.target.constrain(positions).items()}
        stats = {name: torch.stack([draw.stats[name] for draw in kept], 1).cpu().numpy() for name in kept[0].stats}
        return Block(draws, stats)


def _both(shown: Callable[[Info], None], watch: Callable[[Moment], None], run: Chains) -> Callable[[Info], None]:
    def call(info: Info) -> None:
        shown(info)
        watch(run.moment(info))

    return call


def _given(start: Any, chains: int) -> Tensor:
    if not isinstance(start, Tensor) or start.dim() != 2 or len(start) != chains:
        shape = list(start.shape) if isinstance(start, Tensor) else type(start).__name__
        raise BadInput(f"start must be a tensor [chains, d] with {chains} rows, one for each chain, got {shape}")
    return start.detach().clone()


class _Draw(NamedTuple):
    position: Tensor  # [chains, d]
    stats: dict[str, Tensor]  # [chains] each
