"""Indications and contraindications by rules, where there is no language model: a floor, and named so.

An attempt's success tells which tables named what was right; a failure, which tables the success most like it read and
it did not. Nothing of the right answer itself is written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wardround.memory.construction.attempts import Attempt, Case, evidence_of, nearest_success
from wardround.memory.entities import Entity, RoleEdge, TaskType
from wardround.memory.experience import Experience, Polarity
from wardround.memory.reflector import tables_naming_answers, tables_read

CONSTRUCTION_RULES = "construction-rules-1"
_MOST_TABLES = 3
_TASK_WORDS: Sequence[tuple[str, TaskType]] = (
    ("diagnos", "diagnosis"),
    ("prescription", "medication"),
    ("medication", "medication"),
    ("procedure", "procedure"),
    ("lab", "test"),
    ("microbio", "test"),
    ("transfer", "transfer"),
    ("disposition", "disposition"),
    ("hospitalization", "disposition"),
    ("discharge", "disposition"),
    ("mortality", "prognosis"),
    ("readmission", "prognosis"),
)
_OUTCOME = Entity(name="right answer", role="outcome")


def draw_by_rules(case: Case) -> tuple[Experience, ...]:
    """One indication where an attempt succeeded, one contraindication of each failure that tells something."""
    found = [_indication(case, one) for one in case.successes[:1]]
    found += [_contraindication(case, one) for one in case.failures]
    unique = {one.content: one for one in found if one is not None}
    return tuple(unique.values())


def _indication(case: Case, success: Attempt) -> Experience | None:
    tables = tables_naming_answers(success.material)[:_MOST_TABLES]
    if not tables:
        return None
    listed = ", ".join(tables)
    content = f"Read {listed} early: in this case rows of {listed} led to the right answer."
    return _experience(case, success, "indication", f"Start from {listed}", content, tables)


def _contraindication(case: Case, failure: Attempt) -> Experience | None:
    success = nearest_success(failure, case.successes)
    read = tables_read(failure.material)
    known = tables_naming_answers(success.material) if success is not None else ()
    missed = [table for table in known if table not in read][:_MOST_TABLES]
    if missed:
        listed = ", ".join(missed)
        content = f"Do not finish before reading {listed}: rows of {listed} led to the right answer elsewhere."
        return _experience(case, failure, "contraindication", f"Finishing without {listed}", content, missed)
    if not read:
        return None
    listed = ", ".join(read[:_MOST_TABLES])
    content = f"Do not settle after reading only {listed}: in this case that did not lead to the right answer."
    return _experience(case, failure, "contraindication", f"Settling after {listed}", content, read[:_MOST_TABLES])


def _experience(
    case: Case, attempt: Attempt, kind: Polarity, title: str, content: str, tables: Sequence[str]
) -> Experience:
    task = attempt.material.task
    actions = [Entity(name=table, role="action") for table in tables[:2]]
    question = Entity(name=f"{task} question", role="condition")
    entities = (question, *actions, _OUTCOME)
    edges = [RoleEdge(source=question.name, target=one.name) for one in actions]
    edges += [RoleEdge(source=one.name, target=_OUTCOME.name) for one in actions]
    return Experience(
        kind=kind,
        title=title,
        description="",
        content=content,
        condition="; ".join((question.name, *case.setting)),
        task=task,
        task_type=next((named for word, named in _TASK_WORDS if word in task.casefold()), "other"),
        score=attempt.material.score,
        provenance=replace(case.provenance, episode=attempt.episode, model=CONSTRUCTION_RULES),
        entities=entities,
        role_edges=tuple(edges),
        evidence=evidence_of((attempt, *case.successes)),
        facts={"names_answer": False, "successes": len(case.successes)},
    )
