"""EHRXQA's and MedMod's own files as manifests of examples."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wardround.core import UserError
from wardround.records import Store
from wardround.tasks.benchmarks.clinseek.timeline import HOUR, Span, Timeline
from wardround.tasks.benchmarks.clinseek_mm.build import (
    coded_phenotypes,
    death_example,
    died_by,
    phenotype_example,
    stay_around,
    time_text,
)
from wardround.tasks.benchmarks.clinseek_mm.examples import (
    NO_CHANGE,
    PHENOTYPES,
    Conversion,
    Film,
    FilmIndex,
    MultimodalExample,
    collected,
    image_role,
    studies,
    with_vocabulary,
)

# ``train|valid|test.json`` are lists of questions with ``question``, ``value``, ``answer`` (a list), ``is_impossible``.
# The films of a question are those of the studies that ``value`` names (``study_id``; ``study_id1`` against
# ``study_id2``, or against the study before). Questions that place a study by a time ("the last one in 2105") or ask
# about tables or many patients are left out: their times are of EHRXQA's own database, which moves every patient.


_YES_NO: Mapping[Any, str] = {0: "0", 1: "1", "0": "0", "1": "1", "no": "0", "yes": "1", "false": "0", "true": "1"}


def convert_ehrxqa(files: Sequence[Path], store: Store) -> Conversion:
    """Convert the questions about named studies to examples. UserError names an invalid file."""
    index = FilmIndex(store, image_role(store))
    subjects = index.subject_of_study()
    conversion = collected(_ehrxqa_example(row, index, subjects) for path in files for row in _ehrxqa_rows(path))
    return Conversion(examples=with_vocabulary(conversion.examples), left_out=conversion.left_out)


def _ehrxqa_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "question" in row for row in rows):
        raise UserError(f"{path} is not an EHRXQA file: it must be a list of questions")
    if any("answer" not in row for row in rows):
        raise UserError(f"{path} has no answers: EHRXQA's dataset_builder/generate_answer.py writes the complete file")
    yield from rows


def _ehrxqa_example(row: Mapping[str, Any], index: FilmIndex, subjects: Mapping[int, int]) -> MultimodalExample | str:
    """Convert one question, or return why it is left out."""
    value = row.get("value") or {}
    named = [value[name] for name in ("study_id", "study_id1", "study_id2") if value.get(name) is not None]
    if row.get("is_impossible"):
        return "impossible"
    if not named:
        return "no_study_named"
    if any(int(study) not in subjects for study in named):
        return "study_not_in_the_store"
    subject = subjects[int(named[0])]
    films = _linked(index, subject, [int(study) for study in named], compares="study_id1" in value)
    if isinstance(films, str):
        return films
    return _answered_example(row, subject, films, compares="study_id1" in value)


def _linked(index: FilmIndex, subject: int, named: Sequence[int], *, compares: bool) -> list[Film] | str:
    """Return the films of the studies, the one in question last."""
    subject_films = index.of(subject)
    all_studies = [] if subject_films is None else list(studies(subject_films[1]))
    index_of_study = {int(films[0].study): index for index, films in enumerate(all_studies)}
    if any(study not in index_of_study for study in named):
        return "studies_of_two_subjects"
    indices = [index_of_study[study] for study in named]
    if compares and len(indices) == 1:
        if indices[0] == 0:
            return "no_study_before"
        indices.append(indices[0] - 1)
    return [film for index in reversed(indices) for film in all_studies[index]]


def _answered_example(
    row: Mapping[str, Any], subject: int, films: Sequence[Film], *, compares: bool
) -> MultimodalExample | str:
    answers = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
    yes_no = [_YES_NO.get(answer.lower() if isinstance(answer, str) else answer) for answer in answers]
    if len(answers) == 1 and yes_no[0] is not None:
        return _example(row, subject, films, "finding_change_yes_no" if compares else "finding_presence", [yes_no[0]])
    if not all(isinstance(answer, str) for answer in answers):
        return "answer_is_no_list_of_names"
    if compares:
        return _example(row, subject, films, "finding_change", answers or [NO_CHANGE])
    return _example(row, subject, films, "finding_enumeration", answers) if answers else "nothing_to_name"


def _example(
    row: Mapping[str, Any], subject: int, films: Sequence[Film], task: str, answers: Sequence[str]
) -> MultimodalExample:
    """Build an example at the time of its last film: the labels of the films are not known then."""
    cutoff = max(film.taken_us for film in films)
    later = [film for film in films if film.reported is not None and film.reported > cutoff]
    return MultimodalExample(
        task=task,
        subject_id=subject,
        cutoff=time_text(cutoff),
        answer=tuple(sorted(set(answers))),
        images=tuple(film.image for film in films),
        asked=str(row["question"]),
        event_time=time_text(min(film.reported or cutoff for film in later)) if later else None,
        row_ids=tuple(dict.fromkeys(row for film in later for row in film.rows)),
    )


# MedMod's own files (Elsharief et al., 2025) as a manifest of examples: its listfiles and a store of the records.
#
# A listfile is CSV: ``stay`` (``<subject>_episode<n>_timeseries.csv``), ``period_length`` (hours since the stay in
# intensive care began), ``stay_id`` and the answer. In decompensation ``y_true`` says whether a death follows within 24
# hours, at every whole hour; in in-hospital mortality ``period_length`` is 0 and the first 48 hours are seen; in
# phenotyping it is the length of the stay and 25 columns name conditions. Each is paired with the latest frontal (AP)
# film of the stay by then, as MedMod's loader does. Its radiology task is in no listfile: its labels are the store's
# own.


_COLUMNS = ("stay", "period_length", "stay_id")
_TWO_DAYS = 48.0
_FRONTAL = "AP"
Row = Mapping[str, str]


def convert_medmod(files: Sequence[Path], store: Store) -> Conversion:
    """Convert listfiles to examples; the columns decide the task. UserError names an invalid file."""
    index = FilmIndex(store, image_role(store))
    return collected(one for path in files for one in _of_file(path, index))


def _of_file(path: Path, index: FilmIndex) -> Iterator[MultimodalExample | str]:
    rows = _medmod_rows(path)
    answers = [name for name in rows[0] if name not in _COLUMNS] if rows else []
    if answers == ["y_true"]:
        at_two_days = all(float(row["period_length"]) == 0 for row in rows)
        task = "mortality_inpatient" if at_two_days else "mortality_24h"
    elif set(answers) == set(PHENOTYPES):
        task = "phenotypes"
    else:
        raise UserError(f"{path}: expected the column `y_true` or the 25 phenotypes besides {', '.join(_COLUMNS)}")
    yield from (_medmod_example(row, task, index, path) for row in rows)


def _medmod_rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    if not rows or any(name not in rows[0] for name in _COLUMNS):
        raise UserError(f"{path} is not a MedMod listfile: its columns must begin with {', '.join(_COLUMNS)}")
    return rows


def _medmod_example(row: Row, task: str, index: FilmIndex, path: Path) -> MultimodalExample | str:
    """Convert one line, or return why it is left out."""
    try:
        subject, stay_id = int(row["stay"].split("_")[0]), int(float(row["stay_id"]))
        hours = _TWO_DAYS if task == "mortality_inpatient" else float(row["period_length"])
        yes = [name for name, value in row.items() if name not in _COLUMNS and float(value) == 1]
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: not a line of MedMod: {dict(row)}: {error}") from None
    subject_films = index.of(subject)
    if subject_films is None:
        return "subject_not_in_the_store"
    timeline, films = subject_films
    span = _unit_stay(timeline, stay_id)
    stay = None if span is None else stay_around(timeline, span)
    if span is None or stay is None:
        return "stay_not_in_the_store"
    prediction_us = span.end if task == "phenotypes" else span.start + round(hours * HOUR)
    linked = [film for film in films if span.start <= film.taken_us <= prediction_us and film.view == _FRONTAL][-1:]
    if not linked:
        return "no_frontal_film_by_then"
    return _of_stay(task, timeline, stay, prediction_us, linked, yes)


def _unit_stay(timeline: Timeline, stay_id: int) -> Span | None:
    role = timeline.store.spec.roles.stay
    if role is None or role.table not in timeline.store.table_names:
        return None
    rows = timeline.rows(role.table).to_pylist()
    named = {row["row_id"] for row in rows if row.get("stay_id") == stay_id}
    return next((span for span in timeline.spans("stay") if span.row_id in named), None)


def _of_stay(
    task: str, timeline: Timeline, stay: Span, prediction_us: int, films: Sequence[Film], yes: Sequence[str]
) -> MultimodalExample | str:
    if task == "phenotypes":
        return _phenotypes(timeline, stay, prediction_us, films, yes)
    if died_by(timeline, stay, prediction_us):
        return "died_before"
    return death_example(task, timeline, stay, prediction_us, films, yes=bool(yes))


def _phenotypes(
    timeline: Timeline, stay: Span, prediction_us: int, films: Sequence[Film], yes: Sequence[str]
) -> MultimodalExample | str:
    """Build a phenotype example; a stay that ends with the hospital stay has its codes by then."""
    if not yes:
        return "no_phenotype"
    if prediction_us >= stay.end:
        return "codes_known_by_then"
    _, code_rows = coded_phenotypes(timeline, stay)
    return phenotype_example(timeline, stay, prediction_us, sorted(yes), code_rows, films)
