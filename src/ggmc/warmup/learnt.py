"""What warm-up has learnt so far: plain data, which can be stored and restored."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from torch import Tensor

from ggmc.dynamics.mass import Mass, restored_mass
from ggmc.plain import PlainDict
from ggmc.warmup.mass import longer
from ggmc.warmup.step_size import DualAveraging
from ggmc.warmup.windows import Window


@dataclass
class Learnt:
    """What has been found, and what the present window has gathered.

    Args:
        mass: M as far as it is known.
        reach: The largest length of the paths that are explored, in units of the trajectory.
        iteration: Trajectories of warm-up so far.
        time: The best length of a trajectory in units of time; None while it is not known.
        lowest_potential: Of any chain at the end of the last window; None before that.
        dual: The average that the step size follows; None before the first trajectory.
        window: The present window; None before the first trajectory.
        notes: What was chosen, and why, by name.
        remarks: Sentences that a reader of the draws should know.
    """

    mass: Mass
    reach: int
    iteration: int = 0
    time: float | None = None
    lowest_potential: float | None = None
    dual: DualAveraging | None = None
    window: Window | None = None
    notes: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def change_mass(self, found: Mass | None) -> None:
        """Another mass, with which the same way takes another time.

        Args:
            found: The mass; None keeps the one before.
        """
        if found is not None:
            self.time = None if self.time is None else self.time * longer(found, self.mass)
            self.mass = found

    def state_dict(self) -> PlainDict:
        """A snapshot as plain tensors and numbers."""
        return {
            "mass": self.mass.stored(),
            "reach": self.reach,
            "iteration": self.iteration,
            "time": self.time,
            "lowest_potential": self.lowest_potential,
            "dual": None if self.dual is None else asdict(self.dual),
            "window": None if self.window is None else self.window.state_dict(),
            "notes": dict(self.notes),
            "remarks": list(self.remarks),
        }

    @classmethod
    def restored(cls, stored: PlainDict, like: Tensor) -> Learnt:
        """From a `state_dict`, in memory of its own.

        Args:
            stored: From `state_dict`.
            like: A row in the precision and on the device of the chains.
        """
        mass, dual, window = stored["mass"], stored["dual"], stored["window"]
        return cls(
            restored_mass(mass).to(like),
            stored["reach"],
            stored["iteration"],
            stored["time"],
            stored["lowest_potential"],
            None if dual is None else DualAveraging(**dual),
            None if window is None else Window.restored(window, like.device),
            dict(stored["notes"]),
            list(stored["remarks"]),
        )
