"""From a study to what is run: the target, the kernel, the data held out; and small stand-ins to check it by."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from ggmc.cli.study import data, target
from ggmc.cli.study.fields import PYTHON
from ggmc.cli.study.kernel import guide_of, kernel
from ggmc.cli.study.read import Study
from ggmc.guides import ControlVariate, GradientField, Guide
from ggmc.guides.base import BatchGuide
from ggmc.kernels import Kernel
from ggmc.targets.base import DataTarget, Target

FEW = 8  # examples that a check needs, without minibatches
EACH = 2  # examples of a minibatch in a check
MOST_BATCHES = 1000


class Built(NamedTuple):
    """What a study describes."""

    target: Target
    kernel: Kernel
    x_test: Tensor | None
    """Inputs held out; None for a target of the user's own."""
    y_test: Tensor | None


def build(study: Study) -> Built:
    """The target and kernel of a study, with its data.

    Args:
        study: The study.
    """
    own = "python" in study.table("data")
    if own:
        made, x_test, y_test = target.own_target(study), None, None
    else:
        with study.about("data"):
            examples = data.load(study)
        made, x_test, y_test = target.posterior(study, examples), examples.x_test, examples.y_test
        if not len(y_test):
            x_test = y_test = None
    number = made.num_data if isinstance(made, DataTarget) else None
    return Built(made, kernel(study, number), x_test, y_test)


class Small(NamedTuple):
    """As much of a study as a check needs: a few made-up examples in as many minibatches as there are."""

    target: Target
    guide: Guide
    num_data: int | None
    """Of the study itself."""

    def field(self) -> GradientField:
        """The guide, bound. An anchor is not searched for: any other one is as exact."""
        if isinstance(self.guide, ControlVariate):
            return self.guide.bind_again(self.target, {"anchor": self.target.start})
        return self.guide.bind(self.target)


def small(study: Study) -> Small:
    """What a check needs of a study.

    Args:
        study: The study.
    """
    guide = guide_of(study)
    if isinstance(guide, ControlVariate):
        guide = replace(guide, curvature="none")  # which costs much, and changes nothing here
    if "python" in study.table("data"):
        made = target.own_target(study)
        if isinstance(guide, BatchGuide) and guide.size == "auto":
            guide = guide.with_size(EACH)
        return Small(made, guide, made.num_data if isinstance(made, DataTarget) else None)
    number = data.expected_number(study)
    examples = FEW
    if isinstance(guide, BatchGuide):
        size = EACH if isinstance(guide.size, str) else guide.size
        examples = max(FEW, EACH * min(MOST_BATCHES, math.ceil(number / size)))
        guide = guide.with_size(EACH)
    model = study.table("model")
    if PYTHON.fullmatch(model.get("net", "")) and study.table("data")["source"] == "uci":
        with study.about("data"):
            found = data.load(study)  # only the data know how many inputs the user's own net must have
    else:
        found = data.stand_in(study, examples)
    model |= {"vectorise": False} | ({"noise": 1.0} if model.get("noise") == "learnt" else {})
    quick = Study({**study.tables, "model": model}, study.folder, study.name, study.lines)
    return Small(target.posterior(quick, found), guide, number)
