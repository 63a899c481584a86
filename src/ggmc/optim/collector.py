"""Collector: the draws of a training loop as a trace, and a loop that goes on after a crash.

    draws = ggmc.optim.Collector(net, optimiser, posterior, out="runs/net", also={"batches": generator})
    for _ in range(draws.done, 200):
        optimiser.begin_trajectory()
        ...                                              # the batches come from `generator`
        draws.add(optimiser.end_trajectory(total_loss, reject=True))
    trace = draws.trace()

Run again after a crash, the same program goes on from its last checkpoint, bit for bit: parameters, momentum, all
generators and whatever else is named in `also` are put back to where they were, and `done` says how many draws there
are. A checkpoint is written between trajectories only, so that each trajectory must begin with batches of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from ggmc.bayes.posterior import Posterior
from ggmc.dynamics.state import Info
from ggmc.errors import BadInput
from ggmc.kernels import KernelSettings, to_dict
from ggmc.optim.module_values import ModuleValues
from ggmc.optim.sampler import Sampler
from ggmc.optim.trajectory_sampler import TrajectorySampler
from ggmc.plain import PlainDict
from ggmc.sampling.checkpoint import Checkpoints, usable
from ggmc.sampling.lock import locked, new_folder
from ggmc.sampling.provenance import described
from ggmc.trace import diagnostics
from ggmc.trace.run_folder import RunFolder, holds_a_run
from ggmc.trace.save_load import check_predict_at
from ggmc.trace.store import Block, MemoryStore, Store
from ggmc.trace.trace import Trace
from ggmc.trace.zarr_store import ZarrStore


@runtime_checkable
class Stateful(Protocol):
    """What has a state of its own: learning-rate schedulers and gradient scalers do."""

    def state_dict(self) -> PlainDict: ...

    def load_state_dict(self, state_dict: PlainDict, /) -> Any: ...


class Collector:
    """The draws of a training loop, in memory or in a folder.

    Args:
        module: The module whose parameters are sampled.
        optimiser: A sampler of `ggmc.optim` for them.
        posterior: A `ggmc.Posterior` of the same module, with which the trace predicts and scores. By default the trace
            has the parameters alone.
        out: A folder, or a `ggmc.RunFolder`. If it holds a run of this loop, the loop goes on from there: module,
            optimiser and `also` are put back. By default draws are kept in memory.
        also: What else the loop needs to go on, by name: `torch.Generator`s, schedulers, gradient scalers. Torch's own
            generators are always included; those of Python and NumPy are not.

    Example:
        >>> import torch, ggmc
        >>> x, y = torch.linspace(-1, 1, 100)[:, None], torch.linspace(-2, 2, 100)[:, None]
        >>> net = torch.nn.Linear(1, 1)
        >>> posterior = ggmc.Posterior(net, ggmc.likelihoods.Gaussian(noise=1.0), ggmc.priors.Gaussian(1.0), x, y)
        >>> optimiser = ggmc.optim.HMC(net, lr=0.1, num_data=100, weight_decay=0.01, seed=0)
        >>> draws = ggmc.optim.Collector(net, optimiser, posterior)
        >>> def total_loss():
        ...     return ((net(x) - y) ** 2).sum().double() / 2
        >>> for _ in range(draws.done, 50):
        ...     optimiser.begin_trajectory()
        ...     for _ in range(10):
        ...         optimiser.zero_grad()
        ...         (total_loss() / 100).backward()
        ...         optimiser.step()
        ...     draws.add(optimiser.end_trajectory(total_loss, reject=True))
        >>> trace = draws.trace()
        >>> trace.num_draws, trace.predict(x).mean.shape
        (50, (100,))
    """

    def __init__(
        self,
        module: nn.Module,
        optimiser: Sampler,
        posterior: Posterior | None = None,
        out: str | Path | RunFolder | None = None,
        also: Mapping[str, torch.Generator | Stateful] | None = None,
    ):
        if not isinstance(optimiser, Sampler):
            raise BadInput(f"optimiser must be a sampler of ggmc.optim, got {type(optimiser).__name__}")
        if also is not None and not (isinstance(also, Mapping) and all(map(_can_be_stored, also.values()))):
            raise BadInput(f"also must be a dict of generators and of things with a state_dict(), got {also!r}")
        self._module, self._optimiser, self._also = module, optimiser, dict(also or {})
        self._values = ModuleValues.of(module, optimiser.parameters)
        self.target = self._values if posterior is None else self._values.as_in(posterior)
        self.done = 0
        """Draws so far, those of the program before a crash included."""
        self._tested, self._has_potentials = True, False
        self._begun, self._seconds = time.perf_counter(), 0.0
        self._remarks: list[str] = []
        self._given: PlainDict = {}
        """Attributes that the user gave with the folder."""
        self._checkpoints: Checkpoints | None = None
        self._store: Store = MemoryStore()
        self._open = ExitStack()
        if out is not None:
            self._on_disk(out if isinstance(out, RunFolder) else RunFolder(out))

    def add(self, info: Info | None = None) -> None:
        """The present parameters as a draw; at times, a checkpoint. Every draw counts, also one that repeats the last.

        Args:
            info: From `end_trajectory`; None outside trajectories, where nothing is known of log α.
        """
        if isinstance(self._optimiser, TrajectorySampler) and self._optimiser.in_trajectory:
            raise BadInput("a trajectory is under way, and its way is no draw: add the draw after end_trajectory()")
        if info is not None and not isinstance(info, Info):
            raise BadInput(f"add() takes what end_trajectory() returned, got {info!r}")
        row = self.target.unconstrain(self._values.now()).detach().cpu().numpy()
        if not np.isfinite(row).all():
            where = self.target.layout.locate(int(np.argmin(np.isfinite(row))))
            raise BadInput(f"{where} is not finite, so this is no draw: the loop has diverged, use a smaller lr")
        self._store.append(Block(row[None, None], self._stats(info)))
        self.done += 1
        if self._checkpoints is not None and self._checkpoints.due():
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write all draws, and a checkpoint to go on from; `add` calls this at times."""
        if self._checkpoints is None:
            raise BadInput("there is no folder to write a checkpoint to: give out=...")
        self._store.commit(self._settings(), {})
        self._checkpoints.write(self._state() | {"drawn": self.done})

    def trace(self) -> Trace:
        """The draws so far, diagnosed; with a folder, all of it is written there."""
        if not self.done:
            raise BadInput("no draw was added yet: call add() after end_trajectory()")
        if self._checkpoints is not None:
            self.checkpoint()
        remarks = list(dict.fromkeys([*self._remarks, *self._own_remarks()]))
        trace = Trace(self._store, self._kernel(), self.target, self._attributes(), remarks=remarks)
        trace.warnings = diagnostics.check(trace)
        self._store.commit(self._settings() | {"warnings": trace.warnings, "remarks": remarks}, {})
        return trace

    def close(self) -> None:
        """Let other programs write to the folder; the end of the program does so too."""
        self._open.close()

    # What is kept

    def _stats(self, info: Info | None) -> dict[str, np.ndarray]:
        tested = isinstance(self._optimiser, TrajectorySampler) and self._optimiser.tested and info is not None
        potential, kernel = self._optimiser.potential, self._optimiser.kernel
        self._tested &= tested
        self._has_potentials |= info is not None and not bool(info.log_accept.isnan())
        numbers = {
            "lp": np.nan if potential is None else -potential,
            "acceptance_rate": np.nan if info is None else float(info.acceptance()),
            "log_accept": np.nan if info is None else float(info.log_accept),
            "is_accepted": True if info is None else bool(info.accepted),
            "diverging": False if info is None else bool(info.diverging),
            "energy_error": np.nan if info is None else float(info.energy_error),
            "work": np.nan if info is None else float(info.work),
            "n_steps": 0 if info is None else info.steps,
            "step_size": float(kernel.step_size or 0.0),
            "kinetic_temperature": float(self._optimiser.momenta.double().square().mean()),
            "tested": tested,
        }
        return {name: np.full((1, 1), value) for name, value in numbers.items()}

    def _kernel(self) -> KernelSettings:
        kernel = self._optimiser.kernel
        return KernelSettings(kernel.name, {**kernel.settings, "adjust": self._tested})

    def _attributes(self) -> PlainDict:
        seconds = self._seconds + time.perf_counter() - self._begun
        return self._given | {"sampling_time": seconds, "dtype": str(self.target.dtype).removeprefix("torch.")}

    def _settings(self) -> PlainDict:
        return {"kernel": to_dict(self._kernel()), "drawn": self.done, "attributes": self._attributes()}

    def _own_remarks(self) -> list[str]:
        reason = self._optimiser.not_testable if isinstance(self._optimiser, TrajectorySampler) else None
        if reason is not None:
            return [f"Trajectories have no valid test, so log α is −∞: {reason}."]
        if not self._has_potentials:
            return [
                "Nothing says how far the draws are from the posterior: no trajectory was given its potential. Mark "
                "trajectories, and give end_trajectory() the loss summed over all data."
            ]
        return []

    # On disk

    def _on_disk(self, folder: RunFolder) -> None:
        path = Path(folder.path)
        self._checkpoints = Checkpoints(path, folder.checkpoint_every)
        goes_on = holds_a_run(path)
        self._given = dict(folder.attributes)
        if goes_on:
            self._require_same_loop(folder)
        with ExitStack() as opened:  # the folder is let go of if something fails here
            opened.enter_context(locked(path) if goes_on else new_folder(path))
            if goes_on:
                self._go_on(folder, self._checkpoints)
            else:
                self._begin(folder, self._checkpoints)
            self._open = opened.pop_all()

    def _begin(self, folder: RunFolder, checkpoints: Checkpoints) -> None:
        checkpoints.write(self._state() | {"drawn": 0})
        settings = {"training_loop": self._optimiser.kernel.name, "checkpoint_every": folder.checkpoint_every}
        facts = described(self.target, to_dict(self._kernel()), settings, self._attributes())
        self._store = ZarrStore.create(folder, self.target, facts, {})

    def _require_same_loop(self, folder: RunFolder) -> None:
        path = Path(folder.path)
        stored = ZarrStore.read(path)
        plan, name = stored.settings["settings"], self._optimiser.kernel.name
        if plan is None:
            raise BadInput(f"{path} holds a saved trace, not a loop that could go on: give another folder")
        before = plan.get("training_loop")
        if before != name:
            raise BadInput(f"{path} holds a run of {before or 'ggmc.sample'}, not of {name}: give another folder")
        shapes = {name: list(shape) for name, shape in self.target.layout.shapes.items()}
        if stored.settings["layout"] != shapes:
            raise BadInput(f"{path} holds draws of {stored.settings['layout']}, but the module has {shapes}")
        check_predict_at(stored.settings, folder.predict_at, path)

    def _go_on(self, folder: RunFolder, checkpoints: Checkpoints) -> None:
        path = Path(folder.path)
        stored = ZarrStore.read(path)
        chosen = usable(checkpoints.newest(), stored)
        self._restore(chosen.state)
        self._remarks = [*stored.settings["remarks"], *chosen.remarks]
        self.done = chosen.state["drawn"]
        self._given = stored.settings["attributes"]
        self._store = ZarrStore.reopen(path, self.target, self.done, folder.predict_at)

    def _state(self) -> PlainDict:
        others = {name: _state_of(thing) for name, thing in self._also.items()}
        return {
            "module": dict(self._module.state_dict()),
            "optimiser": self._optimiser.state_dict(),
            "also": others,
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "tested": self._tested,
            "has_potentials": self._has_potentials,
            "seconds": self._attributes()["sampling_time"],
        }

    def _restore(self, state: PlainDict) -> None:
        if set(state["also"]) != set(self._also):
            raise BadInput(f"the run was begun with also={sorted(state['also'])}, got {sorted(self._also)}")
        self._module.load_state_dict(state["module"])
        self._optimiser.load_state_dict(state["optimiser"])
        for name, thing in self._also.items():
            _restore(thing, state["also"][name])
        torch.set_rng_state(state["torch"])
        if state["cuda"]:
            torch.cuda.set_rng_state_all(state["cuda"])
        self._tested, self._has_potentials = state["tested"], state["has_potentials"]
        self._seconds = state["seconds"]


def _can_be_stored(thing: object) -> bool:
    return isinstance(thing, torch.Generator | Stateful)


def _state_of(thing: torch.Generator | Stateful) -> Tensor | PlainDict:
    return thing.get_state() if isinstance(thing, torch.Generator) else thing.state_dict()


def _restore(thing: torch.Generator | Stateful, state: Any) -> None:
    if isinstance(thing, torch.Generator):
        thing.set_state(state.cpu())
    else:
        thing.load_state_dict(state)
