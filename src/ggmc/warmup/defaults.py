"""Before the first trajectory of a warm-up: its sampler, advised mass, wanted acceptance, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

from ggmc.dynamics.mass import Mass, as_mass
from ggmc.errors import BadInput
from ggmc.guides import GradientField
from ggmc.kernels import Kernel, Sampler, WordKernel, WordSampler
from ggmc.targets.base import Target
from ggmc.warmup.low_rank import check_low_rank, is_wanted, prior_diagonal

LARGEST_LEARNT = 256  # with more parameters, a target that knows a mass is believed: chains rarely settle so soon


def tuning_sampler(kernel: Kernel, target: Target, field: GradientField) -> Sampler:
    """The kernel's sampler for warm-up, where every trajectory must tell its log α, and nothing else.

    Args:
        kernel: What is tuned.
        target: What is sampled.
        field: The guide, bound.
    """
    sampler: Sampler
    if isinstance(kernel, WordKernel):
        program = replace(kernel.program(field), monitor_every=1, explain=0.0)
        word_sampler = sampler = kernel.on(program, target, field)
        if program.not_testable is None and word_sampler.scheme.not_reversible is None:
            # Where only a schedule or an order has no way back, the energy error still tells a step too long.
            word_sampler.not_testable = None
    else:
        sampler = kernel.sampler(target, field)
    sampler.early_stop = False
    return sampler


def steps_are_open(sampler: Sampler) -> bool:
    """Whether the length of trajectories is left to warm-up."""
    return isinstance(sampler, WordSampler) and sampler.program.steps is None


def check_tunable(kernel: Kernel, sampler: Sampler, iterations: int) -> None:
    """Refuse what warm-up cannot tune.

    Args:
        kernel: Whose step size is None.
        sampler: From `tuning_sampler`.
        iterations: Trajectories of warm-up.
    """
    if iterations == 0:
        raise BadInput("step_size=None is tuned in warm-up, but warmup is 0: give a step_size or some warm-up")
    if kernel.temperature == 0:
        raise BadInput("temperature 0 has no acceptance to tune a step size by: give a step_size")
    if is_wanted(kernel.mass):
        check_low_rank(sampler.target)
    if not isinstance(sampler, WordSampler):
        return
    if sampler.not_testable is not None:
        raise BadInput(f"the step size cannot be tuned, since log α is −∞: {sampler.not_testable}. Give a step_size")
    if steps_are_open(sampler):
        try:
            _ = sampler.scheme.repeated
        except BadInput as error:
            word = sampler.program.word
            raise BadInput(
                f"steps cannot be tuned for the word {word!r}, whose steps do not move: give steps"
            ) from error


def advised_mass(kernel: Kernel, target: Target, field: GradientField) -> Mass | None:
    """The mass that the guide or, with many parameters, the target advises; None where the chains must tell.

    Where directions are to be added to it, it is the target's diagonal, whatever the number of parameters.
    """
    if is_wanted(kernel.mass):
        return prior_diagonal(target)
    if kernel.mass is not None:
        return None
    advised = field.advice.mass
    if advised is None and target.layout.size > LARGEST_LEARNT:
        advised = target.advice.mass
    found = None if advised is None else advised()
    try:
        return None if found is None else as_mass(found).to(target.start)
    except BadInput:  # not positive definite
        return None


def usual_acceptance(sampler: Sampler) -> float:
    """The acceptance to tune the step size for, where the user gives none."""
    field = sampler.field
    advised = field.advice.acceptance or sampler.target.advice.acceptance
    if advised is not None:
        return advised
    if field.whole_sweeps:
        return 0.65
    if not field.deterministic:  # steps cost little beside the test: more of them rather than a rejection
        return 0.9
    parameters = sampler.parameters
    forgets = parameters.steps == (1, 1) and not steps_are_open(sampler) and bool(parameters.friction.isinf().all())
    return 0.6 if forgets else 0.8


def annealed(hot: float | None, own: float, part: float) -> float:
    """The temperature on the (geometric) way from a hot start to the kernel's own.

    Args:
        hot: Where it starts; None for a run that is not annealed.
        own: Where it ends.
        part: How much of the way is gone.
    """
    return own if hot is None or part >= 1 else hot * (own / hot) ** part
