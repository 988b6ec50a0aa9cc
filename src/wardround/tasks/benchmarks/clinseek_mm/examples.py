"""Examples with chest films: manifest lines, converted data sets, the examinations of a subject."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from wardround.core import UserError, parse_time, strict, write_atomically
from wardround.records import ImageRole, Store, unplayed
from wardround.tasks.benchmarks.clinseek.timeline import Timeline

# Examples with pictures: one line of a manifest each, from a user's file or made of a store's own films.
#
# A manifest is JSON lines; ``wardround bench examples`` makes one of EHRXQA's or MedMod's own files (``ehrxqa``,
# ``medmod``). The stand-in (``stand_in``) has the same shape, made of what a store holds of its films.


@dataclass(frozen=True, slots=True, kw_only=True)
class MultimodalExample:
    """One question. ``task`` is its name without the family's; ``cutoff`` the moment it is asked at; ``images`` are the
    ids of the linked pictures, the latest last; ``asked`` is its text where that is not the task's own, ``vocabulary``
    the names that answers are made of where these are not the task's.

    ``row_ids``: rows that hold the answer and that no chart may show by then. ``event_time``: when it comes about.
    """

    task: str
    subject_id: int
    cutoff: str
    answer: tuple[str, ...]
    images: tuple[str, ...] = ()
    asked: str = ""
    vocabulary: tuple[str, ...] = ()
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
            _must_be_times(found[-1], f"{path}, line {number}")
    return found


def _must_be_times(one: MultimodalExample, where: str) -> None:
    for name, text in (("cutoff", one.cutoff), ("event_time", one.event_time)):
        try:
            parse_time("2000-01-01" if text is None else text)
        except ValueError as error:
            raise UserError(
                f'{where}, {name}: {error}; write the record\'s own time, such as "2150-01-01 10:00:00"'
            ) from None


def write_examples(examples: Sequence[MultimodalExample], path: Path) -> None:
    """Write a manifest."""
    write_atomically(path, "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in examples))


# The films of one subject as examinations: when each was taken, when its report was known, what was read in it.


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


# What a converter of a data set's own files makes: examples, and what was left out, by reason.


YES_NO_TASKS = ("finding_presence", "finding_change_yes_no")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Examples of a manifest, and how many rows of the files gave none, by reason."""

    examples: Sequence[MultimodalExample]
    left_out: Counter[str]


def collected(made: Iterable[MultimodalExample | str]) -> Conversion:
    """Sort examples from reasons; each example is kept once."""
    examples: dict[MultimodalExample, None] = {}
    left_out: Counter[str] = Counter()
    for one in made:
        if isinstance(one, str):
            left_out[one] += 1
        else:
            examples[one] = None
    return Conversion(examples=list(examples), left_out=left_out)


def with_vocabulary(examples: Sequence[MultimodalExample]) -> list[MultimodalExample]:
    """Give every example whose answer is names those that answers of its task are made of, in all alike."""
    names: dict[str, set[str]] = {}
    for one in examples:
        names.setdefault(one.task, set()).update(one.answer)
    return [
        one if one.task in YES_NO_TASKS else replace(one, vocabulary=tuple(sorted(names[one.task]))) for one in examples
    ]


class FilmIndex:
    """The films of a store by subject and by study."""

    def __init__(self, store: Store, role: ImageRole) -> None:
        self.store, self.role = store, role
        self._timelines: dict[int, tuple[Timeline, list[Film]]] = {}
        self._subjects = frozenset(store.subjects.tolist())

    def of(self, subject: int) -> tuple[Timeline, list[Film]] | None:
        """A subject's timeline and films; None where the store does not have the subject."""
        if subject not in self._subjects:
            return None
        if subject not in self._timelines:
            timeline = Timeline(self.store, subject, "known_at")
            self._timelines[subject] = timeline, films_of(timeline, self.role)
        return self._timelines[subject]

    def subject_of_study(self) -> dict[int, int]:
        """Whose each study is. Reads every subject's films once."""
        if self.role.study is None:
            raise UserError("the pictures of this store name no study, so nothing can be asked about one")
        found: dict[int, int] = {}
        for subject in sorted(self._subjects):
            _, films = self.of(subject) or (None, [])
            found |= {int(film.study): subject for film in films if film.study is not None}
        return found


def studies(films: Sequence[Film]) -> Iterator[list[Film]]:
    """The films of a subject by study, in the order of their first film."""
    by_study: dict[object, list[Film]] = {}
    for film in films:
        by_study.setdefault(film.study, []).append(film)
    yield from by_study.values()
