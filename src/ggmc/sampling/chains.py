"""The chains of a run: one trajectory after another, warm-up first, then draws."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ggmc.dynamics.state import Info, State
from ggmc.kernels import Kernel, Sampler, WordSampler, to_dict
from ggmc.plain import PlainDict
from ggmc.sampling.callbacks import Moment
from ggmc.sampling.compiled_draws import CompiledDraws, Draws, compiled_draws
from ggmc.sampling.compiling import Choice, is_there_a_compiler, work_of
from ggmc.sampling.stored_state import check_stored
from ggmc.targets.base import Target
from ggmc.trace.diagnostics import configurational_temperature, kinetic_temperature, kinetic_temperatures
from ggmc.trace.store import Block
from ggmc.warmup import Warmup


class Chains:
    """Everything the chains of a run are: positions, momenta, potentials, generator, adaptation, counters.

    `state_dict()` is all of it as plain tensors and numbers; another `Chains` that loads it goes on bit for bit.

    Args:
        target: What is sampled.
        kernel: How.
        chains: How many chains there are in all.
        warmup: Trajectories of warm-up.
        seed: Of all random numbers.
        target_accept: The acceptance to tune for; by default what suits the guide.
        start: First positions [chains, d]; by default where the guide or the target says.
        anneal: The temperature that warm-up starts from; by default the kernel's own.
        stored: The `state_dict` of an earlier run with these settings, to go on from bit for bit; by default a new run.
            That of a run with other settings is refused.
        compile: Whether trajectories are compiled; "auto" decides by the size of the work.
        draws: How many are wanted, of each chain, for that decision.
        own: Which of the chains these are, where other ranks have the others, and the seed of their random numbers; by
            default all, with the seed of the run.
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
        stored: PlainDict | None = None,
        own: tuple[slice, int] | None = None,
        compile: Choice = "auto",
        draws: int = 0,
    ):
        target.check_again()
        self.target = target
        self.generator = torch.Generator(target.device).manual_seed(seed)
        self.drawn = 0
        rows, own_seed = (slice(0, chains), None) if own is None else own
        if stored is None:
            self.warmup = Warmup(kernel, target, warmup, target_accept, anneal)
            starts = self.warmup.starts(chains, self.generator) if start is None else start
            if own_seed is not None:
                self.generator.manual_seed(own_seed)
            self.state = self.warmup.init(starts[rows], self.generator)
        else:
            given = {"kernel": to_dict(kernel), "warmup_iterations": warmup, "anneal": anneal}
            check_stored(stored, given, rows.stop - rows.start, target, self.generator)
            target.load_state_dict(stored["target"])
            self.warmup = Warmup(kernel, target, warmup, target_accept, anneal, stored["warmup"])
            self.state = State(**stored["state"]).map(lambda tensor: tensor.to(target.device, copy=True))
            self.generator.set_state(stored["generator"].cpu())
            self.drawn = stored["drawn"]
        self.kernel: Kernel = kernel
        self.compiled = stored.get("compiled", False) if stored is not None else compile is not False
        work = work_of(self.warmup.sampler, self.state.position) if self.compiled else None
        if stored is None and compile == "auto":
            self.compiled = work is not None and work.is_worth_compiling(warmup + draws)
        self.compiled = self.compiled and is_there_a_compiler()
        if self.compiled:
            self.warmup.compile(0.0 if work is None else work.per_draw)
        self._sampler: Sampler | None = None
        self._draws: CompiledDraws | None = None
        self._last: Draws | None = None
        self._freeze_when_warm()

    @property
    def warming(self) -> bool:
        """Whether the next trajectory belongs to warm-up."""
        return self._sampler is None

    def advance(self) -> Info:
        """One trajectory of every chain: of warm-up while there is any left, then one draw each."""
        if self._sampler is None:
            self.state, info = self.warmup.step(self.state, self.generator)
            self._freeze_when_warm()
            return info
        if self._draws is not None:
            self._last = self.several(1)
            return info_of(self._last, 0)
        self.state, info = self._sampler.step(self.state, self._sampler.parameters, self.generator)
        self.drawn += 1
        return info

    def draw(self, info: Info) -> Draws:
        """What is kept of the trajectory just made.

        Args:
            info: What it did.
        """
        if self._draws is not None and self._last is not None:
            return self._last
        stats = self._described(self.state, info)
        return Draws(self.state.position[None], {name: stat[None] for name, stat in stats.items()})

    @property
    def several_at_once(self) -> bool:
        """Whether draws are compiled, so that `several` makes many of them by one call."""
        return self._draws is not None

    def several(self, number: int) -> Draws:
        """Some draws of every chain: the same ones, however they are put together.

        Args:
            number: How many.
        """
        assert self._draws is not None
        self.state, draws = self._draws(self.state, number, self.generator)
        self.drawn += number
        return draws

    def moment(self, info: Info, warming: bool) -> Moment:
        """How things stand, for a callback.

        Args:
            info: What the last trajectory did.
            warming: Whether it belonged to warm-up.
        """
        mass = self.warmup.mass if self._sampler is None else self._sampler.parameters.mass
        iteration = self.warmup.iteration + self.drawn
        return Moment(iteration, warming, info, self.state, self._step_size(info), mass, self.target.layout)

    def remarks(self) -> list[str]:
        """What a reader of the draws should know about how they were made."""
        return [*self.warmup.learnt.remarks, *(self.warmup.sampler if self._sampler is None else self._sampler).remarks]

    def state_dict(self) -> PlainDict:
        """A snapshot of everything needed to go on, as plain tensors and numbers."""
        return {
            "kernel": to_dict(self.warmup.kernel),
            "warmup_iterations": self.warmup.iterations,
            "anneal": self.warmup.anneal,
            "state": dict(self.state._asdict()) | {"extra": dict(self.state.extra)},
            "generator": self.generator.get_state(),
            "warmup": self.warmup.state_dict(),
            "target": self.target.state_dict(),
            "drawn": self.drawn,
            "compiled": self.compiled,
        }

    def _freeze_when_warm(self) -> None:
        """Fix the kernel once warm-up is over: from then on nothing adapts."""
        if self.warmup.iteration < self.warmup.iterations:
            return
        self.kernel = self.warmup.tuned()
        self._sampler = self.kernel.sampler(self.target, self.warmup.field)
        if isinstance(self._sampler, WordSampler) and isinstance(self.warmup.sampler, WordSampler):
            self._sampler.compiled = self.warmup.sampler.compiled
        if self.drawn == 0 and self.state.untested_work is not None:
            # The first report of the draws is about them alone.
            potential = self.target.potential(self.state.position)
            self.state = self.state._replace(potential=potential, untested_work=None)
        self._draws = compiled_draws(self._sampler, self._described, self.state)

    def _step_size(self, info: Info) -> float:
        if "step_size" in info.statistics:
            return info.statistics["step_size"].mean().item()
        return (
            self.warmup.current_step_size if self._sampler is None else self._sampler.parameters.step_size.mean().item()
        )

    def _described(self, state: State, info: Info) -> dict[str, Tensor]:
        """What is kept of a trajectory."""
        assert self._sampler is not None
        layout, parameters = self.target.layout, self._sampler.parameters
        mass, unknown = parameters.mass, torch.full_like(info.log_accept, torch.nan)
        known_gradient = state.gradient if self._sampler.field.exact else None
        stats = {
            "lp": unknown if state.potential is None or state.untested_work is not None else -state.potential,
            "acceptance_rate": info.acceptance(),
            "log_accept": info.log_accept,
            "is_accepted": info.accepted,
            "diverging": info.diverging,
            "energy_error": info.energy_error,
            "work": info.work,
            "n_steps": torch.full_like(info.accepted, info.steps, dtype=torch.int64),
            "step_size": parameters.step_size.expand_as(info.log_accept),
            "kinetic_temperature": kinetic_temperature(state.momentum, mass),
            "configurational_temperature": configurational_temperature(state.position, known_gradient),
        }
        if len(layout.shapes) > 1:  # one tensor is all there is
            stats["kinetic_temperatures"] = kinetic_temperatures(state.momentum, mass, layout)
        return stats | dict(info.statistics)


def info_of(draws: Draws, number: int | slice) -> Info:
    """What the trajectories of some draws did.

    Args:
        draws: The draws.
        number: Which of them: one, or several, whose numbers then have a first dimension.
    """
    stats = {name: stat[number] for name, stat in draws.stats.items()}
    return Info(
        stats["log_accept"],
        stats["is_accepted"],
        stats["diverging"],
        stats["energy_error"],
        stats["work"],
        int(stats["n_steps"].flatten()[0]),
        {name: stat for name, stat in stats.items() if name == "acceptance_rate"},
    )


def as_block(kept: list[Draws]) -> Block:
    """Consecutive draws as a block for a store."""

    def put(tensors: list[Tensor]) -> np.ndarray:
        return torch.cat(tensors).transpose(0, 1).contiguous().cpu().numpy()

    names = kept[0].stats
    return Block(put([draws.position for draws in kept]), {n: put([draws.stats[n] for draws in kept]) for n in names})
