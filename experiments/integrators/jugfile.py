"""The study as a graph of tasks: `jug execute jugfile.py`, by as many workers as there are processors.

What it is told comes from the environment: GGMC_SIZE names the size, GGMC_OUT the folder of its runs, and GGMC_CIFAR10
says where CIFAR-10 is. `ggmc reproduce integrators` sets them and starts the workers.
"""

from __future__ import annotations

import os
from pathlib import Path

from jug import Task

import ggmc
from experiments.integrators import cells, figures, rates
from experiments.integrators.settings import Size, posterior

size = Size.named(os.environ.get("GGMC_SIZE", "tiny"))
out = Path(os.environ.get("GGMC_OUT", f"out/integrators/{size.name}"))
data = os.environ.get("GGMC_CIFAR10", "")


def run(cell: cells.Cell) -> Task:
    """One run of the study."""
    arguments = {
        "data": size.data, "images_used": size.images, "path": data, "seed": size.seed,
        "form": cell.form, "views": cell.views,
    }  # fmt: skip
    folder = ggmc.RunFolder(out / "runs" / cell.name, precision="float32")
    return ggmc.jug.run(
        posterior, cell.kernel, arguments, out=folder, draws=cell.draws, warmup=cell.warmup, chains=1, seed=size.seed
    )


runs = {cell.name: run(cell) for cell in (*cells.paper(size), *cells.beyond(size))}
burnt = {form: run(cells.burn_in(size, form)) for form in ("batchnorm", "frn-swish")}
half = [Task(rates.half_accepted, size, data, burnt[rates.form_of(arm)], arm) for arm in rates.ARMS]
finished = Task(figures.draw_all, size, runs, half, str(out))
