"""Examples from a store's own films: what a user's manifest would hold, and when each became possible.

Death is predicted on MedMod's grid (every whole hour after the fourth in intensive care, and at 48 hours), at one hour
that is drawn before anything is known of the rest of the stay.
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
"""MedMod predicts death at every whole hour after the fourth; here within the first two days."""
_DAY = 24 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleExample:
    """An example, and when it became possible.

    ``settled_us``: when everything is known that makes it an example. With ``kind_is_late`` the row of its ``stay``
    must also show its end.
    """

    example: MultimodalExample
    settled_us: int
    stay: str = ""
    kind_is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """Builds examples from a subject's own films.

    ``reports``: the question comes after the latest film's report.
    """

    role: ImageRole
    reports: bool
    seed: int = 0

    def examples(self, timeline: Timeline) -> Iterator[PossibleExample]:
        """Yield every example of a subject, in no order."""
        films = films_of(timeline, self.role)
        read = [film for film in films if film.findings]
        for index in range(len(read)):
            yield from self._of_film(timeline.subject, read[: index + 1])
        for span in timeline.spans("stay"):
            yield from self._of_stay(timeline, span, films)

    def _of_film(self, subject: int, films: Sequence[Film]) -> Iterator[PossibleExample]:
        latest = films[-1]
        present = sorted(name for name, yes in latest.findings.items() if yes)
        for name, yes in sorted(latest.findings.items()):
            text = f"Does the latest linked chest radiograph show {name}?"
            yield self._finding("finding_presence", subject, films[-1:], ("1" if yes else "0",), text)
        if present:
            yield self._finding("finding_enumeration", subject, films[-1:], present)
        earlier = {name for film in films for name, yes in film.findings.items() if yes}
        if len(films) > 1:
            yield self._finding("finding_enumeration_stay", subject, films, sorted(earlier) or present)
            before = films[-2].findings
            new = [name for name in present if not before.get(name, False)]
            yield self._finding("finding_change", subject, films[-2:], new or [NO_CHANGE])

    def _finding(
        self, task: str, subject: int, films: Sequence[Film], answer: Sequence[str], text: str = ""
    ) -> PossibleExample:
        """Build a question about films.

        With ``reports`` the latest report is on the chart; else the latest film's labels must not be on the chart yet.
        """
        latest = films[-1]
        reported = max(film.reported or film.taken_us for film in films)
        prediction_us = latest.reported if self.reports and latest.reported is not None else latest.taken_us
        example = MultimodalExample(
            task=task,
            subject_id=subject,
            cutoff=time_text(prediction_us),
            answer=tuple(answer),
            images=tuple(film.image for film in films),
            asked=text,
            event_time=time_text(latest.reported)
            if latest.reported is not None and latest.reported > prediction_us
            else None,
            row_ids=() if self.reports else latest.rows,
        )
        return PossibleExample(example=example, settled_us=reported)

    def _of_stay(self, timeline: Timeline, span: Span, films: Sequence[Film]) -> Iterator[PossibleExample]:
        """Yield the death questions of a stay and its phenotype question at the end."""
        stay = stay_around(timeline, span)
        if span.end == NO_TIME or stay is None:
            return
        hour = FIRST_HOUR + derive_seed(self.seed, "hour", timeline.subject, span.start) % (LAST_HOUR - FIRST_HOUR + 1)
        for task, prediction_us in (
            ("mortality_24h", span.start + hour * HOUR),
            ("mortality_inpatient", span.start + 2 * _DAY),
        ):
            linked = [film for film in films if span.start <= film.taken_us <= prediction_us]
            if linked and prediction_us < span.end and not died_by(timeline, stay, prediction_us):
                example = death_example(task, timeline, stay, prediction_us, linked)
                yield _span_example(example, span, prediction_us)
        linked = [film for film in films if span.start <= film.taken_us <= span.end]
        answer, coded = coded_phenotypes(timeline, stay)
        if linked and answer and span.end < stay.end:
            example = phenotype_example(timeline, stay, span.end, answer, coded, linked)
            yield _span_example(example, span, stay.end)


def _span_example(example: MultimodalExample, span: Span, until: int) -> PossibleExample:
    settled_us = max(until + 1, span.known)
    return PossibleExample(example=example, settled_us=settled_us, stay=span.row_id, kind_is_late=span.kind_is_late)


def stay_around(timeline: Timeline, span: Span) -> Span | None:
    """Return the hospital stay in which a stay in intensive care began."""
    return next((stay for stay in timeline.spans("admission") if stay.start <= span.start <= stay.end), None)


def died_by(timeline: Timeline, stay: Span, moment: int) -> bool:
    """Return whether a death in a stay happened by a moment."""
    return any(stay.start <= time <= moment for time in timeline.deaths.tolist())


def death_example(
    task: str, timeline: Timeline, stay: Span, prediction_us: int, films: Sequence[Film], *, yes: bool | None = None
) -> MultimodalExample:
    """Build a question about death within 24 hours, or in the stay.

    ``yes``: a data set's own answer, used instead of the record's.
    """
    last = prediction_us + _DAY if task == "mortality_24h" else stay.end
    deaths = [time for time in timeline.deaths.tolist() if prediction_us < time <= last]
    return MultimodalExample(
        task=task,
        subject_id=timeline.subject,
        cutoff=time_text(prediction_us),
        answer=("1" if (bool(deaths) if yes is None else yes) else "0",),
        images=tuple(film.image for film in films),
        event_time=time_text(deaths[0]) if deaths else None,
    )


def phenotype_example(
    timeline: Timeline,
    stay: Span,
    prediction_us: int,
    answer: Sequence[str],
    code_rows: tuple[str, ...],
    films: Sequence[Film],
) -> MultimodalExample:
    """Build a question about the codes of a stay; ``code_rows`` are the rows of its codes."""
    return MultimodalExample(
        task="phenotypes",
        subject_id=timeline.subject,
        cutoff=time_text(prediction_us),
        answer=tuple(answer),
        images=tuple(film.image for film in films),
        event_time=time_text(stay.end),
        row_ids=code_rows,
    )


def coded_phenotypes(timeline: Timeline, stay: Span) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of the 25 categories the codes of a hospital stay belong to, and the rows of its codes."""
    store = timeline.store
    role = store.spec.roles.first("diagnosis")
    if role is None or role.group != "ccs" or role.table not in store.table_names:
        return (), ()
    code_labels = role_labels("diagnosis", role, store.spec, None)
    encounter: Any = store.spec.tables[role.table].encounter
    labels = load_ccs("diagnoses", None).label_set()
    wanted = {labels.resolve(name): name for name in PHENOTYPES}
    rows = [row for row in timeline.rows(role.table).to_pylist() if row[encounter] == stay.names]
    categories = {
        code_labels.label(*(None if row[name] is None else str(row[name]) for name in code_labels.columns))
        for row in rows
    }
    return tuple(sorted(wanted[name] for name in categories if name in wanted)), tuple(row["row_id"] for row in rows)


def time_text(time: int) -> str:
    """Format a moment for manifests."""
    moment: datetime = from_microseconds(time)
    return moment.isoformat(sep=" ")
