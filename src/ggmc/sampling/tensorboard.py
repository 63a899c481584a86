"""A run shown in TensorBoard while it runs (`pip install ggmc[tensorboard]`)."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from ggmc.errors import BadInput, require_count
from ggmc.sampling.callbacks import Moment
from ggmc.trace.diagnostics import kinetic_temperature, kinetic_temperatures


class Logger:
    """Writes acceptance, energy error, potential, step size and kinetic temperatures; pass it as `callback`.

    All are means over chains; temperatures also by tensor.

    Args:
        folder: Where TensorBoard finds them (`tensorboard --logdir folder`).
        every: Write after every so many trajectories.

    Example:
        >>> import tempfile, torch, ggmc
        >>> from ggmc.sampling.tensorboard import Logger
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(3, dtype=torch.float64))
        >>> with tempfile.TemporaryDirectory() as folder, Logger(folder) as logger:
        ...     _ = ggmc.sample(target, draws=20, warmup=20, progress=False, callback=logger)
    """

    def __init__(self, folder: str | Path, every: int = 1):
        require_count("every", every)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("TensorBoard is an extra: pip install ggmc[tensorboard]") from error
        if not isinstance(folder, str | Path):
            raise BadInput(f"the folder of a Logger must be text or a Path, got {folder!r}")
        try:
            self._writer = SummaryWriter(str(folder))
        except OSError as error:
            raise BadInput(f"the folder {folder} cannot be written to: {error}") from error
        self._every = every

    def __call__(self, moment: Moment) -> None:
        """Write one trajectory's numbers, if it is its turn.

        Args:
            moment: How things stand after the trajectory.
        """
        if moment.iteration % self._every:
            return
        info, state, mass, layout = moment.info, moment.state, moment.mass, moment.layout
        numbers = {
            "acceptance_rate": moment.acceptance,
            "energy_error": info.energy_error.mean().item(),
            "diverging": info.diverging.double().mean().item(),
            "step_size": moment.step_size,
            "kinetic_temperature/all": kinetic_temperature(state.momentum, mass).mean().item(),
        }
        if state.potential is not None:
            numbers["potential"] = state.potential.mean().item()
        by_tensor = kinetic_temperatures(state.momentum, mass, layout).mean(0).tolist()
        numbers |= {f"kinetic_temperature/{n}": t for n, t in zip(layout.shapes, by_tensor, strict=True)}
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, moment.iteration)

    def close(self) -> None:
        """Write what is still held back."""
        self._writer.close()

    def __enter__(self) -> Logger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
