"""The kernel that a study describes."""

from __future__ import annotations

from typing import Any

from ggmc.bayes.nets import GuideViews
from ggmc.cli.study import python_code
from ggmc.cli.study.fields import PYTHON
from ggmc.cli.study.read import Study
from ggmc.dynamics import schedule
from ggmc.dynamics.learning_rate import from_learning_rate
from ggmc.errors import BadInput
from ggmc.guides import ControlVariate, CustomOrder, Exact, Guide, Minibatch, Order
from ggmc.kernels import Kernel
from ggmc.kernels.serialise import KERNELS
from ggmc.plain import PlainDict
from ggmc.sampling.sample import DEFAULT

SHAPES: dict[str, type[Any]] = {
    "flat": schedule.Flat,
    "cosine": schedule.Cosine,
    "drops": schedule.Drops,
    "cyclical": schedule.Cyclical,
    "there-and-back": schedule.ThereAndBack,
}

WITHOUT_WARMUP = ("SGHMC", "SGLD", "SGNHT")
"""Kernels whose step size no warm-up finds, since they have no acceptance to tune it by."""


def kernel(study: Study, num_data: int | None, guide: Guide | None = None, adjust: bool | None = None) -> Kernel:
    """The kernel of a study.

    Args:
        study: Its [kernel] and [guide].
        num_data: The number of examples, which a learning rate needs; None for a target without data.
        guide: In place of the study's own.
        adjust: Likewise.
    """
    settings = study.table("kernel")
    guide = guide_of(study) if guide is None else guide
    if not settings and not study.table("guide"):
        return DEFAULT
    name = settings.pop("name", "ggmc").upper()
    with study.about("kernel"):
        settings |= _rates(settings, name, num_data)
        for other in ("learning_rate", "momentum"):
            settings.pop(other, None)
        if isinstance(settings.get("steps"), list):
            settings["steps"] = tuple(settings["steps"])
        if "along" in settings:
            settings["along"] = schedule.Along(**_schedules(settings["along"]))
        if "over" in settings:
            settings["over"] = schedule.Over(**_schedules(settings["over"]))
        if adjust is not None:
            settings["adjust"] = adjust
        if name in WITHOUT_WARMUP and "step_size" not in settings:
            raise BadInput(f"{name.lower()} has no warm-up that finds its step: give step_size or learning_rate")
        made: Any = KERNELS[name]
        return made(guide=guide, **settings)


def guide_of(study: Study) -> Guide:
    """The guide of a study.

    Args:
        study: Its [guide].
    """
    settings = study.table("guide")
    with study.about("guide"):
        if "python" in settings:
            guide = python_code.call(study, settings["python"])
            if not isinstance(guide, Guide):
                raise BadInput(f"the function must return a guide, such as ggmc.Surrogate(log_prob), got {guide!r}")
            return guide
        name = settings.pop("name", "minibatch" if settings else "exact")
        if name == "exact":
            return Exact()
        if "order" in settings:
            settings["order"] = _order(study, settings["order"])
        if name == "control-variate":
            return ControlVariate(**settings)
        augment = settings.pop("augment", False)
        if augment is not False:
            settings["augment"] = GuideViews(**({} if augment is True else augment))
        return Minibatch(**settings)


def _order(study: Study, given: str) -> str | Order:
    if not PYTHON.fullmatch(given):
        return given
    found = python_code.load(study, given)
    return found if isinstance(found, Order) else CustomOrder(found, reversible=True)


def _rates(settings: PlainDict, name: str, num_data: int | None) -> dict[str, float]:
    """Step size and friction from a learning rate and a momentum."""
    rate = settings.get("learning_rate")
    if rate is None:
        return {}
    if num_data is None:
        raise BadInput("a learning rate needs a target with data: give step_size instead")
    momentum = settings.get("momentum")
    step_size, friction = from_learning_rate(
        rate, 0.0 if momentum is None else momentum, num_data, euler=name == "SGHMC"
    )
    return {"step_size": step_size} if momentum is None else {"step_size": step_size, "friction": friction}


def _schedules(settings: PlainDict) -> PlainDict:
    return {
        name: _schedule(value) if name in ("step_size", "temperature") else value for name, value in settings.items()
    }


def _schedule(given: str | PlainDict) -> schedule.Schedule:
    settings: PlainDict = dict(given) if isinstance(given, dict) else {"shape": given}
    made = SHAPES[settings.pop("shape")]
    if "of" in settings:
        settings["of"] = _schedule(settings["of"])
    if "at" in settings:
        settings["at"] = tuple(settings["at"])
    return made(**settings)
