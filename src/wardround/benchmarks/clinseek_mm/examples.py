"""Examples with pictures: one line of a manifest each, from a user's file or made of a store's own films.

A manifest is JSON lines; whoever has the data sets' licences makes one of MIMIC-CXR, EHRXQA and MedMod. The stand-in
has the same shape, made of the labels that a store holds of its films.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from wardround.benchmarks.clinseek.timeline import Span, Timeline
from wardround.benchmarks.clinseek_mm.definitions import NO_CHANGE, PHENOTYPES
from wardround.benchmarks.columns import NO_TIME
from wardround.codes import load_ccs
from wardround.core import UserError, from_microseconds, parse_time, strict
from wardround.records import ImageRole
from wardround.tools.candidates import role_labels

_DAY = timedelta(days=1)
_DAY_US = 86_400_000_000
_LABELS = "cxr_labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class MultimodalExample:
    """One question. ``task`` is its name without the family's; ``cutoff`` the moment it is asked at; ``images`` are the
    ids of the linked pictures, the latest last; ``asked`` is its text where that is not the task's own.

    ``row_ids``: rows that hold the answer and that no chart may show by then. ``event_time``: when it comes about.
    """

    task: str
    subject_id: int
    cutoff: str
    answer: tuple[str, ...]
    images: tuple[str, ...] = ()
    asked: str = ""
    event_time: str | None = None
    row_ids: tuple[str, ...] = ()


def read_examples(path: Path) -> list[MultimodalExample]:
    """Read a manifest; UserError names the line that is none."""
    if not path.is_file():
        raise UserError(f"no file {str(path)!r}; docs/clinseek-bench.md says what a manifest of examples holds")
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                body = json.loads(line)
            except ValueError as error:
                raise UserError(f"{path}, line {number}: no JSON: {error}") from None
            found.append(strict(MultimodalExample, body, f"{path}, line {number}"))
            parse_time(found[-1].cutoff)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """One examination: the id of its picture, when it was taken and when its report was known, what was read in it."""

    image: str
    taken: int
    reported: int
    findings: Mapping[str, bool]
    rows: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class StandIn:
    """Makes examples of a subject's own films. ``reports``: asked when the report of the latest is there too."""

    role: ImageRole
    reports: bool
    dropped: Counter[str] = field(default_factory=Counter)

    def examples(self, timeline: Timeline) -> Iterator[MultimodalExample]:
        """Yield every example of a subject, in no order."""
        films = self._films(timeline)
        for place, film in enumerate(films):
            yield from self._of_film(timeline.subject, films[: place + 1], film)
        for span in timeline.spans("stay"):
            yield from self._of_stay(timeline, span, films)

    def _films(self, timeline: Timeline) -> list[Film]:
        """The examinations whose report has labels, in order."""
        if _LABELS not in timeline.store.table_names or self.role.study is None:
            return []
        known = dict(
            zip(*(timeline.rows(_LABELS).column("study_id").to_pylist(), timeline.known(_LABELS).tolist()), strict=True)
        )
        found: dict[int, dict[str, bool]] = {}
        rows: dict[int, list[str]] = {}
        for row in timeline.rows(_LABELS).to_pylist():
            if row["value"] is not None and row["value"] >= 0:
                found.setdefault(row["study_id"], {})[row["finding"]] = row["value"] > 0
                rows.setdefault(row["study_id"], []).append(row["row_id"])
        films = timeline.rows(self.role.table).to_pylist()
        made = [
            Film(
                image=film[self.role.id],
                taken=taken,
                reported=known[study],
                findings=found[study],
                rows=tuple(rows[study]),
            )
            for film, taken in zip(films, timeline.event(self.role.table).tolist(), strict=True)
            if (study := film[self.role.study]) in found
        ]
        return sorted(made, key=lambda one: (one.taken, one.image))

    def _of_film(self, subject: int, films: Sequence[Film], film: Film) -> Iterator[MultimodalExample]:
        asked = film.reported if self.reports else film.taken
        present = sorted(name for name, yes in film.findings.items() if yes)
        for name, yes in sorted(film.findings.items()):
            text = f"Does the latest linked chest radiograph show {name}?"
            yield self._example("finding_presence", subject, asked, films[-1:], ("1" if yes else "0",), text)
        if present:
            yield self._example("finding_enumeration", subject, asked, films[-1:], present)
        earlier = {name for one in films for name, yes in one.findings.items() if yes}
        if len(films) > 1:
            yield self._example("finding_enumeration_stay", subject, asked, films, sorted(earlier) or present)
            before = films[-2].findings
            new = [name for name in present if not before.get(name, False)]
            yield self._example("finding_change", subject, asked, films[-2:], new or [NO_CHANGE])

    def _example(
        self, task: str, subject: int, asked: int, films: Sequence[Film], answer: Sequence[str], text: str = ""
    ) -> MultimodalExample:
        """With its report there, what is asked can be read; else the latest film's labels must not be there yet."""
        hidden = () if self.reports else films[-1].rows
        return MultimodalExample(
            task=task,
            subject_id=subject,
            cutoff=_text(asked),
            answer=tuple(answer),
            images=tuple(film.image for film in films),
            asked=text,
            event_time=None if self.reports or films[-1].reported <= asked else _text(films[-1].reported),
            row_ids=hidden,
        )

    def _of_stay(self, timeline: Timeline, span: Span, films: Sequence[Film]) -> Iterator[MultimodalExample]:
        """Deaths asked at the latest film of a stay's first two days, phenotypes when it ends."""
        if span.end == NO_TIME:
            return
        until = min(span.start + 2 * _DAY_US, span.end)
        early = [film for film in films if span.start <= film.taken < until]
        stay = next((one for one in timeline.spans("admission") if one.start <= span.start <= one.end), None)
        if early and stay is not None:
            yield from _deaths(timeline, early, stay)
        within = [film for film in films if span.start <= film.taken <= span.end]
        target, coded = _phenotypes(timeline, stay)
        if within and target and stay is not None and span.end < stay.end:
            yield MultimodalExample(
                task="phenotypes",
                subject_id=timeline.subject,
                cutoff=_text(span.end),
                answer=target,
                images=tuple(film.image for film in within),
                event_time=_text(stay.end),
                row_ids=coded,
            )


def _deaths(timeline: Timeline, films: Sequence[Film], stay: Span) -> Iterator[MultimodalExample]:
    asked = films[-1].taken
    deaths = [time for time in timeline.deaths.tolist() if stay.start <= time]
    if deaths and deaths[0] <= asked:
        return
    images = tuple(film.image for film in films)
    for task, last in (("mortality_24h", asked + _DAY_US), ("mortality_inpatient", stay.end)):
        found = [time for time in deaths if time <= last]
        yield MultimodalExample(
            task=task,
            subject_id=timeline.subject,
            cutoff=_text(asked),
            answer=("1" if found else "0",),
            images=images,
            event_time=_text(found[0]) if found else None,
        )


def _phenotypes(timeline: Timeline, stay: Span | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which of the 25 categories the codes of a hospital stay fall into, and the rows of its codes."""
    store = timeline.store
    role = store.spec.roles.first("diagnosis")
    if stay is None or role is None or role.group != "ccs" or role.table not in store.table_names:
        return (), ()
    named = role_labels("diagnosis", role, store.spec, None)
    encounter: Any = store.spec.tables[role.table].encounter
    labels = load_ccs("diagnoses", None).label_set()
    wanted = {labels.resolve(name): name for name in PHENOTYPES}
    rows = [row for row in timeline.rows(role.table).to_pylist() if row[encounter] == stay.names]
    found = {named.label(*(None if row[name] is None else str(row[name]) for name in named.columns)) for row in rows}
    return tuple(sorted(wanted[name] for name in found if name in wanted)), tuple(row["row_id"] for row in rows)


def _text(time: int) -> str:
    moment: datetime = from_microseconds(time)
    return moment.isoformat(sep=" ")
