"""The verdict: is it exact, may it be trusted, and what to do next, in plain language.

It fails closed: a run is trustworthy only if every check was made and passed. What is not known counts as not passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ggmc.kernels import KernelSettings
from ggmc.report.findings import Findings
from ggmc.report.words import count, number, rhat

LARGEST_RHAT = 1.01
ESS_PER_CHAIN = 100
LEAST_ACCEPTANCE = 0.4  # as in ggmc.trace.diagnostics

TRUSTWORTHY, NOT_YET, NOT_EXACT = "trustworthy", "not-yet", "not-exact"
TITLES = {TRUSTWORTHY: "Trustworthy", NOT_YET: "Not trustworthy yet", NOT_EXACT: "Not exact"}


class Check(NamedTuple):
    """One thing that must hold before draws are trusted."""

    passed: bool | None
    """None where it is not known."""
    what: str
    """What was seen, as a short sentence."""
    remedy: str = ""
    """What to do where it did not pass."""


class Step(NamedTuple):
    """Something to do next."""

    finding: str
    remedy: str


@dataclass(frozen=True)
class Verdict:
    """What a reader should know first.

    Args:
        state: "trustworthy", "not-yet" or "not-exact".
        summary: One sentence.
        exact: The answer to: is it exact?
        checks: The answer to: may it be trusted?
        steps: What to do next.
    """

    state: str
    summary: str
    exact: str
    checks: list[Check]
    steps: list[Step]

    @property
    def title(self) -> str:
        """The state in words."""
        return TITLES[self.state]


def judge(found: Findings) -> Verdict:
    """The verdict on a run.

    Args:
        found: What was measured.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.report.findings import find
        >>> from ggmc.report.verdict import judge
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> judge(find(ggmc.sample(target, progress=False))).title
        'Trustworthy'
        >>> judge(find(ggmc.sample(target, chains=1, progress=False))).title
        'Not trustworthy yet'
    """
    tested, exact = _exactness(found)
    checks = _checks(found, tested)
    warned = [Check(False, warning) for warning in found.warnings]
    if found.trace.kernel.adjust is False:
        state = NOT_EXACT
    elif all(check.passed is True for check in (*checks, *warned)):
        state = TRUSTWORTHY
    else:
        state = NOT_YET
    return Verdict(state, _summary(state, checks, found), exact, checks, _steps(state, checks, found))


# Is it exact?


def _exactness(found: Findings) -> tuple[Check, str]:
    kernel = found.trace.kernel
    name = kernel.name if isinstance(kernel, KernelSettings) else type(kernel).__name__
    if not kernel.adjust:
        return Check(False, "Trajectories were not tested."), _bias(found, name)
    at = "" if kernel.temperature == 1 else f" at temperature {number(kernel.temperature)}"
    if isinstance(kernel, KernelSettings) and name.startswith("ggmc.optim."):
        return Check(True, "Every trajectory was tested."), (
            f"Yes, if the loop gave the right potential. {name} tested every trajectory, with the summed loss that the "
            f"training loop passed to end_trajectory(). The draws then have the target's distribution{at}."
        )
    if isinstance(kernel, KernelSettings):
        remedy = "Load the run with its own library, or sample with a kernel of ggmc."
        return Check(None, "The sampler is not one of this library's, so its test cannot be checked.", remedy), (
            f"Not known. The settings of {name} say that every trajectory is tested, but it is not a kernel of this "
            "library, and a stored run holds no code that could be checked."
        )
    return Check(True, "Every trajectory was tested against the exact potential."), (
        f"Yes. {name} tests every trajectory against the exact potential (adjust=True). Once the chains have reached "
        f"the target{at}, they sample it without bias, whatever the step size and the guide."
    )


def _bias(found: Findings, name: str) -> str:
    mean = found.mean_acceptance
    if found.no_way_back:
        return (
            f"No. {name} does not test its trajectories, and it cannot: it never retraces its steps, so the "
            "acceptance probability is 0 (log α = −∞) at every step size. The draws are biased, and log α does not say "
            "how much."
        )
    if mean is None:
        return (
            f"No. {name} did not test its trajectories (adjust=False), and log α was not computed. The draws are "
            "biased, and nothing says how much."
        )
    return (
        f"No. {name} did not test its trajectories (adjust=False), so the draws are biased. The test would have "
        f"accepted {mean:.2f} on average: the closer to 1, the smaller the bias."
    )


# May it be trusted?


def _checks(found: Findings, tested: Check) -> list[Check]:
    if not found.draws:
        return [tested, Check(None, "There are no draws yet.", "Wait for the first draws, and write the report again.")]
    return [tested, *_complete(found), _several(found), *_agreement(found), _diverged(found), _accepted(found)]


def _complete(found: Findings) -> list[Check]:
    checks: list[Check] = []
    if found.unfinished:
        have = f"{count(found.draws, 'draw')} of {found.asked:,} were made: the run goes on, or was stopped."
        checks.append(Check(False, have, "Let it finish, or continue it with ggmc.resume."))
    if found.problems:
        remedy = "See the messages under “What could not be read or computed”."
        checks.append(Check(None, "Not everything could be read or computed.", remedy))
    return checks


def _several(found: Findings) -> Check:
    if found.chains > 1:
        return Check(True, f"{count(found.chains, 'chain')} can be compared.")
    remedy = "Sample with chains=4: chains that start apart can disagree, and so find what one alone would miss."
    return Check(None, "There is one chain only, and nothing to compare it with.", remedy)


def _agreement(found: Findings) -> list[Check]:
    if found.measured is None:
        remedy = "Draw at least 100 times." if found.draws < ESS_PER_CHAIN else ""
        return [Check(None, "Whether the chains agree is not known: R̂ could not be computed.", remedy)]
    worst, ess, wanted = found.worst_rhat, found.least_ess, ESS_PER_CHAIN * found.chains
    what = f"{len(found.measured.names)} {'predictions' if 'predictions' in found.judged_by else found.judged_by}"
    checks = [Check(None, "R̂ is not known for every number: some do not change, or are not finite.")]
    if worst is not None:
        fits = worst <= LARGEST_RHAT
        word = "agree" if fits else "disagree"
        checks = [
            Check(fits, f"Chains {word}: the worst R̂ of {what} is {rhat(worst)} (limit {LARGEST_RHAT}).", "Run longer.")
        ]
    if ess is None:
        return [*checks, Check(None, "The number of effective draws is not known.")]
    word = "Enough" if ess >= wanted else "Too few"
    checks.append(
        Check(ess >= wanted, f"{word} effective draws: the least is {ess:,.0f} (wanted {wanted:,}).", "Draw more.")
    )
    return checks


def _diverged(found: Findings) -> Check:
    if found.divergences is None:
        return Check(None, "Whether trajectories diverged is not known.")
    total = found.chains * found.draws
    if not found.divergences:
        return Check(True, "No trajectory diverged.")
    return Check(False, f"{found.divergences:,} of {total:,} trajectories diverged.", "Use a smaller step size.")


def _accepted(found: Findings) -> Check:
    mean = found.mean_acceptance
    if not found.trace.kernel.adjust:
        if found.no_way_back or mean is None:
            return Check(None, "There is no acceptance probability that would tell the size of the bias.")
        return Check(None, f"The test would have accepted {mean:.2f} on average, but did not take place.")
    if mean is None:
        return Check(None, "The acceptance probability is not known.")
    fits = mean >= LEAST_ACCEPTANCE
    return Check(fits, f"Acceptance is {mean:.2f} on average.", "Use a smaller step size, or leave it to warm-up.")


# What to do next


def _summary(state: str, checks: list[Check], found: Findings) -> str:
    if state == TRUSTWORTHY:
        return "The sampler is exact, and every check passed."
    if state == NOT_EXACT:
        others = sum(check.passed is not True for check in checks[1:-1]) + len(found.warnings) > 0
        also = " There are other findings too." if others else ""
        return f"The draws come from another distribution than the target, and nothing made sure that it is near.{also}"
    failed = sum(check.passed is False for check in checks)
    unknown = sum(check.passed is None for check in checks)
    parts = [
        f"{count(failed, 'check')} did not pass" if failed else "",
        f"{unknown} could not be made" if unknown else "",
    ]
    said = " and ".join(part for part in parts if part)
    if not said:
        return "The run's own diagnosis has findings that should be cleared up first."
    return f"{said[0].upper()}{said[1:]}. Do not rely on these draws before this is cleared up."


def _steps(state: str, checks: list[Check], found: Findings) -> list[Step]:
    if state == TRUSTWORTHY:
        return [Step("Nothing: use it.", "")]
    steps = [Step(*_split(warning)) for warning in found.warnings]
    own = [check for check in checks if check.passed is not True and check.remedy]
    if found.warnings:  # then R̂, effective draws, divergences and acceptance have been said already
        said = ("Chains disagree", "Too few effective", "Acceptance is", "Whether the chains")
        own = [check for check in own if not check.what.startswith(said) and "diverged" not in check.what]
    steps += [Step(check.what, check.remedy) for check in own]
    if found.judged_by == "weights":
        steps.append(
            Step(
                "Chains were compared by single weights, which may be permuted and yet mean the same.",
                "Give target=..., and they are compared by their predictions.",
            )
        )
    if state == NOT_EXACT and not found.warnings:
        steps.append(Step("The draws are biased.", "Sample with ggmc.GGMC, which tests, or call them approximate."))
    return steps


def _split(warning: str) -> tuple[str, str]:
    """A warning's finding and its remedy, which is its last sentence or what follows a colon."""
    for mark in (". ", ": "):
        finding, found, remedy = warning.partition(mark)
        if found and len(remedy) > 10:
            remedy = remedy[0].upper() + remedy[1:]
            return finding + ".", remedy
    return warning, ""
