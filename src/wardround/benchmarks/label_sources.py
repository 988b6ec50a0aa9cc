"""Where the labels of the six AgentEHR tasks come from (appendix B): the rows of a role of the source, one role a task.

Label spaces: CCS categories where the role's codes have them, ATC names (or normalised drug names where no ATC map was
added) for orders, else the names that the rows give. How exactly rows are dated decides what can be asked: what happens
at the next moment, on a day, or what a whole stay is written down as when it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wardround.benchmarks.label_events import LabelSource
from wardround.benchmarks.task import Task
from wardround.codes import read_user_codes
from wardround.records import Policy, RowRole, SourceSpec, TableSpec
from wardround.tools.candidates import role_labels

_ICD9_PROCEDURES = "icd9-procedures"


def is_other_source(spec: SourceSpec) -> bool:
    """Whether this is the paper's second database, on which methods are only tested."""
    return spec.name == "mimiciii"


def label_source(task: Task, role: RowRole, spec: SourceSpec, policy: Policy, user_codes: Path | None) -> LabelSource:
    """Return the source of a task's labels.

    Under ``known_at`` a reflex test (one the laboratory adds because of a result) is no part of what was asked for: the
    spec of the cultures' table names them. Under ``published`` every test of the moment counts, as in the paper. What
    has only a day is asked, under ``known_at``, when the day begins.
    """
    table = spec.tables[role.table]
    labels = role_labels(task.role, role, spec, user_codes)
    reflex = _reflex(table)
    return LabelSource(
        table=role.table,
        columns=labels.columns,
        label=labels.label,
        encounter=table.encounter,
        where=role.where,
        keep_column=table.pending.reflex_column if table.pending else None,
        keep=_not_any(reflex) if reflex and policy == "known_at" else None,
        left_out="row_of_reflex_test",
        clock_column=role.clock if policy == "known_at" else None,
        by_encounter=role.precision != "moment",
        at_stay_end=role.precision == "stay",
        by_session=role.precision == "moment" and task.role != "transfer",
        from_day_start=role.precision == "day",
        prompt=prompt_variant(task, role),
        wants=_wanted_codes(task, role, user_codes),
    )


def prompt_variant(task: Task, role: RowRole) -> str | None:
    """Return the template that asks a task as a role allows, None for the task's own."""
    if task.role == "culture":
        return "microbiology_specimens" if role.asks_specimens else None
    if task.role == "order":
        return "prescriptions_day" if role.precision == "day" else None
    if task.role == "diagnosis":
        return None if role.group else "diagnoses_names"
    if task.role == "procedure" and (role.group is None or role.precision == "stay"):
        return f"procedures{'_stay' if role.precision == 'stay' else ''}{'' if role.group else '_names'}"
    return None


def _wanted_codes(task: Task, role: RowRole, user_codes: Path | None) -> str | None:
    """Procedures that have ICD-9 codes alone have categories only by a table that the user adds."""
    wants = task.role == "procedure" and role.group == "ccs" and role.system == "icd9"
    return _ICD9_PROCEDURES if wants and not read_user_codes(_ICD9_PROCEDURES, user_codes) else None


def _reflex(table: TableSpec) -> tuple[str, ...]:
    return table.pending.reflex_patterns if table.pending else ()


def _not_any(patterns: tuple[str, ...]) -> Callable[[str | None], bool]:
    folded = [pattern.casefold() for pattern in patterns]
    return lambda name: name is None or not any(pattern in name.casefold() for pattern in folded)
