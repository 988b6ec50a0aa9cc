"""Examples made of a store's own films: what a user's manifest would hold, and when each came to be askable.

Deaths are asked on MedMod's grid (every whole hour after the fourth in intensive care; at 48 hours), at one hour of a
stay that is drawn before anything is known of how the stay goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wardround.clinical.codes import load_ccs
from wardround.core import derive_seed, from_microseconds
from wardround.records import ImageRole
from wardround.tasks.benchmarks.clinseek.timeline import HOUR, Span, Timeline
from wardround.tasks.benchmarks.clinseek_mm.definitions import NO_CHANGE, PHENOTYPES
from wardround.tasks.benchmarks.clinseek_mm.examples import Film, MultimodalExample, films_of
from wardround.tasks.benchmarks.encounters import NO_TIME
from wardround.tools.candidates import role_labels

FIRST_HOUR, LAST_HOUR = 5, 48
"""MedMod asks whether a death is near at every whole hour after the fourth; here of the first two days."""
_DAY = 24 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Askable:
    """An example; ``settled``: when all is known that makes it be asked; where ``told_late``, the row of its ``stay``
    must show its end too."""

    example: MultimodalExample
    settled: int
    stay: str = ""
    told_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """Makes examples of a subject's own films. ``reports``: asked when the report of the latest is there too."""

    role: ImageRole
    reports: bool
    seed: int = 0

    def examples(self, timeline: Timeline) -> Iterator[Askable]:
        """Yield every example of a subject, in no order."""
        films = films_of(timeline, self.role)
        read = [film for film in films if film.findings]
        for place in range(len(read)):
            yield from self._of_film(timeline.subject, read[: place + 1])
        for span in timeline.spans("stay"):
            yield from self._of_stay(timeline, span, films)

    def _of_film(self, subject: int, films: Sequence[Film]) -> Iterator[Askable]:
        latest = films[-1]
        present = sorted(name for name, yes in latest.findings.items() if yes)
        for name, yes in sorted(latest.findings.items()):
            text = f"Does the latest linked chest radiograph show {name}?"
            yield self._finding("finding_presence", subject, films[-1:], ("1" if yes else "0",), text)
        if present:
            yield self._finding("finding_enumeration", subject, films[-1:], present)
        earlier = {name for one in films for name, yes in one.findings.items() if yes}
        if len(films) > 1:
            yield self._finding("finding_enumeration_stay", subject, films, sorted(earlier) or present)
            before = films[-2].findings
            new = [name for name in present if not before.get(name, False)]
            yield self._finding("finding_change", subject, films[-2:], new or [NO_CHANGE])

    def _finding(
        self, task: str, subject: int, films: Sequence[Film], answer: Sequence[str], text: str = ""
    ) -> Askable:
        """With its report there, what is asked can be read; else the latest film's labels must not be there yet."""
        latest = films[-1]
        reported = max(film.reported or film.taken for film in films)
        asked = latest.reported if self.reports and latest.reported is not None else latest.taken
        example = MultimodalExample(
            task=task,
            subject_id=subject,
            cutoff=time_text(asked),
            answer=tuple(answer),
            images=tuple(film.image for film in films),
            asked=text,
            event_time=time_text(latest.reported) if latest.reported is not None and latest.reported > asked else None,
            row_ids=() if self.reports else latest.rows,
        )
        return Askable(example=example, settled=reported)

    def _of_stay(self, timeline: Timeline, span: Span, films: Sequence[Film]) -> Iterator[Askable]:
        """Deaths asked by the hour, phenotypes when the stay ends."""
        stay = stay_around(timeline, span)
        if span.end == NO_TIME or stay is None:
            return
        hour = FIRST_HOUR + derive_seed(self.seed, "hour", timeline.subject, span.start) % (LAST_HOUR - FIRST_HOUR + 1)
        for task, asked in (
            ("mortality_24h", span.start + hour * HOUR),
            ("mortality_inpatient", span.start + 2 * _DAY),
        ):
            linked = [film for film in films if span.start <= film.taken <= asked]
            if linked and asked < span.end and not died_by(timeline, stay, asked):
                example = death_example(task, timeline, stay, asked, linked)
                yield _of_span(example, span, asked)
        linked = [film for film in films if span.start <= film.taken <= span.end]
        answer, coded = coded_phenotypes(timeline, stay)
        if linked and answer and span.end < stay.end:
            example = phenotype_example(timeline, stay, span.end, answer, coded, linked)
            yield _of_span(example, span, stay.end)


def _of_span(example: MultimodalExample, span: Span, until: int) -> Askable:
    settled = max(until + 1, span.known)
    return Askable(example=example, settled=settled, stay=span.row_id, told_late=span.told_late)


def stay_around(timeline: Timeline, span: Span) -> Span | None:
    """The stay in hospital in which a stay in intensive care began."""
    return next((one for one in timeline.spans("admission") if one.start <= span.start <= one.end), None)


def died_by(timeline: Timeline, stay: Span, moment: int) -> bool:
    """Whether a death in a stay came about by then."""
    return any(stay.start <= time <= moment for time in timeline.deaths.tolist())


def death_example(
    task: str, timeline: Timeline, stay: Span, asked: int, films: Sequence[Film], *, yes: bool | None = None
) -> MultimodalExample:
    """Ask for a death within 24 hours, or in the stay. ``yes``: a data set's own answer, instead of the record's."""
    last = asked + _DAY if task == "mortality_24h" else stay.end
    deaths = [time for time in timeline.deaths.tolist() if asked < time <= last]
    return MultimodalExample(
        task=task,
        subject_id=timeline.subject,
        cutoff=time_text(asked),
        answer=("1" if (bool(deaths) if yes is None else yes) else "0",),
        images=tuple(film.image for film in films),
        event_time=time_text(deaths[0]) if deaths else None,
    )


def phenotype_example(
    timeline: Timeline,
    stay: Span,
    asked: int,
    answer: Sequence[str],
    coded: tuple[str, ...],
    films: Sequence[Film],
) -> MultimodalExample:
    """Ask what a stay will be coded with; ``coded`` are the rows of its codes."""
    return MultimodalExample(
        task="phenotypes",
        subject_id=timeline.subject,
        cutoff=time_text(asked),
        answer=tuple(answer),
        images=tuple(film.image for film in films),
        event_time=time_text(stay.end),
        row_ids=coded,
    )


def coded_phenotypes(timeline: Timeline, stay: Span) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which of the 25 categories the codes of a hospital stay fall into, and the rows of its codes."""
    store = timeline.store
    role = store.spec.roles.first("diagnosis")
    if role is None or role.group != "ccs" or role.table not in store.table_names:
        return (), ()
    named = role_labels("diagnosis", role, store.spec, None)
    encounter: Any = store.spec.tables[role.table].encounter
    labels = load_ccs("diagnoses", None).label_set()
    wanted = {labels.resolve(name): name for name in PHENOTYPES}
    rows = [row for row in timeline.rows(role.table).to_pylist() if row[encounter] == stay.names]
    found = {named.label(*(None if row[name] is None else str(row[name]) for name in named.columns)) for row in rows}
    return tuple(sorted(wanted[name] for name in found if name in wanted)), tuple(row["row_id"] for row in rows)


def time_text(time: int) -> str:
    """A moment as manifests have it."""
    moment: datetime = from_microseconds(time)
    return moment.isoformat(sep=" ")
