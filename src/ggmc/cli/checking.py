"""Is a study exact? If not, which condition breaks, and what to change. The library's own refusals are the answer."""

from __future__ import annotations

from dataclasses import dataclass

from ggmc.cli import output
from ggmc.cli.build import Small, small
from ggmc.cli.study.fields import PYTHON
from ggmc.cli.study.kernel import kernel
from ggmc.cli.study.read import Study
from ggmc.errors import Condition, NotExact
from ggmc.plain import PlainDict

UNTESTED = "adjust = false, with which nothing is rejected and the draws are biased"


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Args:
        study: The study's name.
        summary: The target and the sampler, in a few words.
        broken: Conditions that do not hold; none where the study is exact.
        reason: Why, as the library says it.
        change: What to change in the file.
        where: The place in the file.
        if_tested: Of a study that tests nothing: what would break if it did; None where nothing would.
        untested: Whether it tests nothing.
    """

    study: str
    summary: str
    broken: tuple[Condition, ...] = ()
    reason: str | None = None
    change: str | None = None
    where: str | None = None
    if_tested: str | None = None
    untested: bool = False

    @property
    def exact(self) -> bool:
        """Whether all six conditions hold."""
        return not self.broken

    def to_dict(self) -> PlainDict:
        """As plain values."""
        conditions = [
            {"number": each.number, "name": each.name.lower(), "holds": self._holds(each), "says": each.sentence}
            for each in Condition
        ]
        return {
            "study": self.study,
            "exact": self.exact,
            "summary": self.summary,
            "broken": [each.number for each in self.broken],
            "conditions": conditions,
            "reason": self.reason,
            "change": self.change,
            "where": self.where,
            "if_tested": self.if_tested,
        }

    def _holds(self, condition: Condition) -> bool | None:
        """None where it was not looked at, since another one is broken."""
        return False if condition in self.broken else True if self.exact else None

    def __str__(self) -> str:
        short = "exact" if self.exact else "not exact: nothing is rejected" if self.untested else "not exact"
        lines = [f"{self.study}: {short}", f"  {self.summary}", ""]
        for each in Condition:
            mark = {False: "BROKEN", True: "ok", None: "-"}[self._holds(each)]
            lines.append(output.paragraph(each.sentence, " " * 30, f"  {each.number} {each.title:16} {mark:8} "))
        if self.exact:
            return "\n".join(lines)
        named = "; and ".join(f"{each.number}, {each.title}" for each in self.broken)
        lines += ["", f"Broken: condition{'' if len(self.broken) == 1 else 's'} {named}"]
        for name, text in (("Why", self.reason), ("Where", self.where), ("Change", self.change)):
            lines.append(output.paragraph(text or "", " " * 10, f"  {name + ':':8}"))
        if self.if_tested:
            lines.append(output.paragraph(f"With adjust = true: {self.if_tested}", " " * 10, "  And:    "))
        return "\n".join(lines)


def judge(study: Study) -> Verdict:
    """Whether a study is exact.

    Args:
        study: The study.
    """
    summary = f"{_sampler(study)} on {_target(study)}"
    try:
        parts = small(study)
        tested = _bound(study, parts)
    except NotExact as error:
        keys, change = _remedy(study, error.conditions)
        return Verdict(study.name, summary, error.conditions, str(error), change, study.where(*keys))
    if tested:
        return Verdict(study.name, summary)
    also = None
    try:
        _bound(study, parts, adjust=True)
    except NotExact as error:
        also = str(error)
    keys = ("kernel", "adjust") if "adjust" in study.table("kernel") else ("kernel", "name")
    change = "set adjust = true" if also is None else f"{_remedy(study, (Condition.WORD,))[1].split(';')[0]}"
    if also is not None and _name(study) not in ("sghmc", "sgnht", "sgld"):
        change = "set adjust = true, after changing what is said below"
    reason = "nothing is rejected (adjust = false), so the draws have the bias of their step size and guide"
    return Verdict(study.name, summary, (Condition.TEST,), reason, change, study.where(*keys), also, True)


def _bound(study: Study, parts: Small, adjust: bool | None = None) -> bool:
    """Whether the kernel tests its trajectories; refuses, as the library does, a test that would not be exact."""
    made = kernel(study, parts.num_data, parts.guide, adjust)
    made.sampler(parts.target, parts.field())
    return made.adjust


def _name(study: Study) -> str:
    return study.table("kernel").get("name", "ggmc").lower()


def _sampler(study: Study) -> str:
    settings = {key: value for key, value in study.table("kernel").items() if key in ("scheme", "steps")}
    inside = ", ".join(f"{key} {value}" for key, value in settings.items())
    guide = study.table("guide")
    how = guide.get("name", "python" if "python" in guide else "minibatch") if guide else "exact gradients"
    order = guide.get("order", "palindrome") if "size" in guide else None
    parts = [inside, how if order is None else f"{how} in {order} order"]
    return f"{_name(study).upper()} ({', '.join(part for part in parts if part)})"


def _target(study: Study) -> str:
    table = study.table("data")
    if "python" in table:
        return f"the target of {table['python']}"
    return f"{study.table('model').get('net', 'mlp')}, {table['source']}"


def _remedy(study: Study, conditions: tuple[Condition, ...]) -> tuple[tuple[str, ...], str]:
    """Where in the file, and what to change there."""
    kernel_table, model = study.table("kernel"), study.table("model")
    condition, name = conditions[0], _name(study)
    if condition is Condition.WORD:
        others = {"sghmc": '"amagold", whose positions it shares, or "ggmc"', "sgnht": '"ggmc"', "sgld": '"mala"'}
        if name in others:
            return ("kernel", "name"), f"use name = {others[name]}; or {UNTESTED}"
        return ("kernel", "scheme"), f'use scheme = "OBABO", "O(BAB)O" or "O(ABA)O"; or {UNTESTED}'
    if condition is Condition.STEPS:
        return (
            ("kernel", "along"),
            'use { shape = "there-and-back", of = ... }, or either_way = true, with which a trajectory follows the '
            f"schedule forwards or backwards; or {UNTESTED}",
        )
    if condition is Condition.TAPE:
        return ("guide", "order"), f'use order = "palindrome", "epoch" or "iid"; or {UNTESTED}'
    if condition is Condition.TEST:
        if name == "sgld":
            return ("kernel", "name"), f'use name = "mala", which is SGLD with the test; or {UNTESTED}'
        if "temperature" in kernel_table.get("over", {}):
            return ("kernel", "over"), f"leave temperature out of [kernel.over]; or {UNTESTED}"
        return ("kernel",), f"see the reason; or {UNTESTED}"
    if condition is Condition.GRADIENT:
        return ("guide",), "make the guide a function of the position and of what an order draws"
    views = model.get("views", "none")
    if (views["kind"] if isinstance(views, dict) else views) == "free":
        exact = 'use views = "frozen", or views = "none" with augment = true in [guide]'
        return ("model", "views"), f"{exact}; or {UNTESTED}"
    if model.get("dropout"):
        return ("model", "dropout"), f"leave dropout out; or {UNTESTED}"
    if model.get("form") == "batchnorm":
        return ("model", "form"), f'use form = "frn" or "frn-swish"; or {UNTESTED}'
    change = "make the target a function of the parameters alone (module.eval(), no random draws)"
    if PYTHON.fullmatch(model.get("net", "")):
        return ("model", "net"), f"{change}; or {UNTESTED}"
    return ("data", "python"), change
