"""What the 45 tasks are: read from ``tasks.toml``, and registered under names with the family's own before them.

Three of the paper's names (labevents, prescriptions, transfers) are those of other tasks here, so all are written
``clinseek.labevents``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from wardround.core import strict
from wardround.tasks.answers import AnswerKind, ListedCandidates, ListedServices, OneClass
from wardround.tasks.benchmarks.task import TASKS, QuestionText, Task

FAMILY = "clinseek"
SpanName = Literal["admission", "stay", "emergency"]
Labels = Literal["role", "titles", "atc", "group", "table"]
Anchor = Literal["emergency_begun", "emergency_end", "first_day", "first_unit_day", "discharge"]
Outcome = Literal[
    "admitted",
    "dies_in_stay",
    "intensive_care",
    "returns",
    "dies_or_intensive_care",
    "stays",
    "dies",
    "returns_to_unit",
    "readmitted",
]
_ANSWERS = OneClass(classes=(("0", "no"), ("1", "yes")))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRule:
    """Which event a decision predicts.

    ``role`` of the source, else ``table``; ``column`` names the event, where the role does not. ``labels``: how rows
    become names: by the role (``role``), by the row's own text (``titles``), by ATC name, by the category of the
    table's groups, or by the ``table`` itself (then every event counts). ``spans``: the stays with questions.
    ``leaves_stay``: the event may come after them. ``within_hours``: the time limit. ``offered``: the only possible
    names. ``ending``: the name of the row that ends the hospital stay in its ``stay_column``, even if it is recorded
    some minutes after the stay's own end.
    """

    name: str
    title: str
    description: str
    role: str = ""
    table: str = ""
    column: str = ""
    where: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    drug_code: str = ""
    labels: Labels = "role"
    precision: Literal["moment", "day"] = "moment"
    spans: tuple[SpanName, ...] = ("admission",)
    within_hours: int = 24
    leaves_stay: bool = False
    offered: tuple[str, ...] = ()
    ending: str = ""
    stay_column: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskRule:
    """Which outcome is predicted at which ``moment`` of a stay.

    ``hours`` is the horizon or the length in question.
    """

    name: str
    title: str
    description: str
    moment: Anchor
    outcome: Outcome
    hours: int = 0


Rule = DecisionRule | RiskRule


def _read() -> dict[str, Rule]:
    text = files("wardround.tasks.benchmarks.clinseek").joinpath("tasks.toml").read_text(encoding="utf-8")
    body = tomllib.loads(text)
    decisions = [strict(DecisionRule, one, "tasks.toml [[decision]]") for one in body["decision"]]
    risks = [strict(RiskRule, one, "tasks.toml [[risk]]") for one in body["risk"]]
    rules: tuple[Rule, ...] = (*decisions, *risks)
    return {f"{FAMILY}.{rule.name}": rule for rule in rules}


RULES: Mapping[str, Rule] = _read()
"""Rules by task name."""


def _answer_kind(rule: Rule) -> AnswerKind:
    if isinstance(rule, RiskRule):
        return _ANSWERS
    kind = ListedServices if rule.table == "services" else ListedCandidates
    return kind(tables=(space_name(rule),))


def _task(name: str, rule: Rule) -> Task:
    risk = isinstance(rule, RiskRule)
    return Task(
        name=name,
        title=rule.title,
        answer=_answer_kind(rule),
        role=rule.role if isinstance(rule, DecisionRule) and not rule.column else "",
        about=rule_group(rule),
        template="classification" if risk else "clinseek_decision",
        family=FAMILY,
        words=QuestionText(category="Risk prediction" if risk else "Next event", description=rule.description),
    )


def space_name(rule: Rule) -> str:
    """Return the name of a decision's candidate table."""
    return f"{rule.name}_candidates"


def rule_group(rule: Rule) -> str:
    """Return whether a task is a decision or a risk: the two groups of the paper's tables."""
    return "risk" if isinstance(rule, RiskRule) else "decision"


CLINSEEK_TASKS: Mapping[str, Task] = {name: _task(name, rule) for name, rule in RULES.items()}
"""Tasks by full name."""

for _name, _one in CLINSEEK_TASKS.items():
    TASKS.add(_name, _one)
