"""A plug-in in one file: a tool, an agent that uses it, a task, its kind of answers and the scorer of that kind.

    wardround bench build tasks --plugin examples/own_parts.py --store store --out bench --task kidney_soon
    wardround run --plugin examples/own_parts.py --store store --benchmark bench --agent lookback \\
        --set agent.lookback.hours=48 --workers 2 --out run
    wardround report --plugin examples/own_parts.py run

Nothing of it is known to wardround before the file is named. It is imported once in every worker process; its hash is
in the run's manifest, and a run goes on only with the same file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, ClassVar

import pyarrow.compute as pc

from wardround.agents import AGENTS, AgentSpec, Method, get_agent
from wardround.clinical.codes import LabelSet
from wardround.core import add_prompt, check_settings, setting
from wardround.tasks.answers import ANSWER_KINDS, OneClass
from wardround.tasks.benchmarks.own import add_task
from wardround.tasks.scoring import SCORERS, Scorer
from wardround.tools import TOOLS, Session, tool


@tool("record")
def count_recent_rows(session: Session, *, hours: Annotated[int, "How far back to look."]) -> str:
    """Number of rows of each table in the last hours before the time of the question."""
    since = session.chart.as_of - timedelta(hours=hours)
    lines = [f"rows since {since}:"]
    for name in session.chart.table_names:
        times = session.chart.table(name).event_time
        recent = 0 if times is None else pc.sum(pc.greater_equal(times, since)).as_py() or 0
        lines.append(f"{name}: {recent}")
    return "\n".join(lines)


TOOLS.add(count_recent_rows.name, count_recent_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookbackSettings:
    """What may be set of the agent: ``[agent.lookback]`` in a file, ``--set agent.lookback.hours=48``."""

    hours: int = setting(24, "how far back it is told to look first", unit="hours", least=1)

    def __post_init__(self) -> None:
        check_settings(self)


def make_lookback(settings: LookbackSettings) -> AgentSpec:
    """ReAct with one more tool and a system prompt of its own."""
    add_prompt(
        __name__,
        "lookback_system",
        "{# version: 1 #}\nYou read one patient's record with tools. Begin with count_recent_rows for the last "
        f"{settings.hours} hours; then read what is there.\n"
        '{{ answers.explain(part="finish") }}\nYou have {{ turns }} turns.',
    )
    return replace(get_agent("react"), package=__name__, system="lookback_system", more_tools=(count_recent_rows.name,))


AGENTS.add(
    "lookback",
    Method(name="lookback", title="Recent rows first, then ReAct", make=make_lookback, settings=LookbackSettings),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning(OneClass):
    """One class, of which all but the first are warnings."""

    name: ClassVar[str] = "warning"


class WarningScorer(Scorer):
    """A right answer is worth 1; a warning in vain one half; a missing one nothing."""

    metric = pooled = "value of warning"

    def figures(
        self, answer: Iterable[str] | None, target: Iterable[str], labels: LabelSet | None
    ) -> Mapping[str, float]:
        given, wanted = set(answer or ()), set(target)
        quiet = set(labels.labels[:1]) if labels else set()
        worth = 1.0 if given == wanted else 0.5 if given and wanted == quiet else 0.0
        return {self.metric: worth}


ANSWER_KINDS.add(Warning.name, Warning)
SCORERS.add(Warning.name, WarningScorer())

add_task(
    """
name = "kidney_soon"
title = "Creatinine above 1.2 within two days"

[question]
category = "Laboratory"
description = "Will a creatinine result above 1.2 mg/dL follow within 48 hours?"
factual_query = "kidney function"
counterfactual_query = "stable kidney function"

[answer]
kind = "warning"
classes = [["0", "no"], ["1", "yes"]]

[asked]
role = "admission"
after = "24h"
empty = "dischtime"

[label.rule]
role = "lab"
where = { label = "Creatinine" }
column = "valuenum"
above = 1.2
within = "48h"
"""
)
