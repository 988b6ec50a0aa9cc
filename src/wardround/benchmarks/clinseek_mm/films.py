"""The films of one subject as examinations: when each was taken, when its report was known, what was read in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wardround.benchmarks.clinseek.timeline import Timeline
from wardround.core import UserError
from wardround.records import ImageRole, Store, unplayed

LABELS = "cxr_labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """One picture. ``findings``: what its report says of each label, empty where no labels are held; ``reported``: when
    these were known (None: never); ``rows``: theirs."""

    image: str
    taken: int
    study: Any = None
    view: str | None = None
    reported: int | None = None
    findings: Mapping[str, bool] = field(default_factory=dict)
    rows: tuple[str, ...] = ()


def image_role(store: Store) -> ImageRole:
    """Return the role that pictures play in a store; UserError where it has none."""
    role = next(iter(store.spec.roles.image), None)
    if role is None or role.table not in store.table_names:
        reason = unplayed("image") if role is None else f"the store has no table {role.table!r}"
        raise UserError(f"no task with pictures can be asked: {reason}; see docs/clinseek-bench.md")
    return role


def films_of(timeline: Timeline, role: ImageRole) -> list[Film]:
    """Every picture of a subject, in the order in which they were taken."""
    read = _readings(timeline)
    rows = timeline.rows(role.table).to_pylist()
    made = [_film(row, taken, role, read) for row, taken in zip(rows, timeline.event(role.table).tolist(), strict=True)]
    return sorted(made, key=lambda one: (one.taken, one.image))


@dataclass(slots=True, kw_only=True)
class _Reading:
    known: int
    findings: dict[str, bool] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)


def _readings(timeline: Timeline) -> dict[Any, _Reading]:
    """What the labels of each study say; uncertain ones say nothing."""
    if LABELS not in timeline.store.table_names:
        return {}
    read: dict[Any, _Reading] = {}
    for row, known in zip(timeline.rows(LABELS).to_pylist(), timeline.known(LABELS).tolist(), strict=True):
        if row["value"] is not None and row["value"] >= 0:
            study = read.setdefault(row["study_id"], _Reading(known=known))
            study.findings[row["finding"]] = row["value"] > 0
            study.rows.append(row["row_id"])
    return read


def _film(row: Mapping[str, Any], taken: int, role: ImageRole, read: Mapping[Any, _Reading]) -> Film:
    study = None if role.study is None else row[role.study]
    said = read.get(study)
    return Film(
        image=row[role.id],
        taken=taken,
        study=study,
        view=None if role.view is None else row[role.view],
        reported=None if said is None else said.known,
        findings={} if said is None else said.findings,
        rows=() if said is None else tuple(said.rows),
    )
