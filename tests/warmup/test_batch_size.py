"""The batch size: chosen in warm-up, and the choice explained."""

from __future__ import annotations

import torch

import ggmc
from tests.support.logistic import logistic

F64 = torch.float64


def test_the_batch_size_is_chosen_and_the_choice_explained() -> None:
    trace = ggmc.sample(logistic(400), ggmc.GGMC(guide=ggmc.Minibatch("auto")), draws=10, warmup=200, progress=False)
    size = trace.kernel.guide.size
    assert isinstance(size, int)
    why = trace.attributes["batch_size"]
    assert why.startswith(f"{size} examples")
    assert "farthest per pass over the data times acceptance" in why
    assert why.count("batches ") >= 3
    assert "batch_size" in trace.to_datatree()["posterior"].attrs
