"""EHRXQA's own files (Bae et al., 2023; PhysioNet ehrxqa 1.0.0) as a manifest of examples.

``train|valid|test.json`` are lists of questions with ``question``, ``value``, ``answer`` (a list), ``is_impossible``.
The films of a question are those of the studies that ``value`` names (``study_id``; ``study_id1`` against
``study_id2``, or against the study before). Questions that place a study by a time ("the last one in 2105") or ask
about tables or many patients are left out: their times are of EHRXQA's own database, which moves every patient.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wardround.benchmarks.clinseek_mm.conversion import Conversion, FilmIndex, collected, studies, with_vocabulary
from wardround.benchmarks.clinseek_mm.definitions import NO_CHANGE
from wardround.benchmarks.clinseek_mm.examples import MultimodalExample
from wardround.benchmarks.clinseek_mm.films import Film, image_role
from wardround.benchmarks.clinseek_mm.stand_in import time_text
from wardround.core import UserError
from wardround.records import Store

_YES_NO: Mapping[Any, str] = {0: "0", 1: "1", "0": "0", "1": "1", "no": "0", "yes": "1", "false": "0", "true": "1"}


def convert_ehrxqa(files: Sequence[Path], store: Store) -> Conversion:
    """Make examples of the questions about named studies; UserError names the file that is none."""
    index = FilmIndex(store, image_role(store))
    subjects = index.subject_of_study()
    made = collected(_example(row, index, subjects) for path in files for row in _rows(path))
    return Conversion(examples=with_vocabulary(made.examples), left_out=made.left_out)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "question" in row for row in rows):
        raise UserError(f"{path} is no file of EHRXQA: a list of questions")
    if any("answer" not in row for row in rows):
        raise UserError(f"{path} has no answers: EHRXQA's dataset_builder/generate_answer.py makes the whole file")
    yield from rows


def _example(row: Mapping[str, Any], index: FilmIndex, subjects: Mapping[int, int]) -> MultimodalExample | str:
    """One question, or why it is left out."""
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
    return _asked(row, subject, films, compares="study_id1" in value)


def _linked(index: FilmIndex, subject: int, named: Sequence[int], *, compares: bool) -> list[Film] | str:
    """The films of the studies, the one asked about last."""
    held = index.of(subject)
    every = [] if held is None else list(studies(held[1]))
    place_of = {int(films[0].study): place for place, films in enumerate(every)}
    if any(study not in place_of for study in named):
        return "studies_of_two_subjects"
    places = [place_of[study] for study in named]
    if compares and len(places) == 1:
        if places[0] == 0:
            return "no_study_before"
        places.append(places[0] - 1)
    return [film for place in reversed(places) for film in every[place]]


def _asked(row: Mapping[str, Any], subject: int, films: Sequence[Film], *, compares: bool) -> MultimodalExample | str:
    answers = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
    yes_no = [_YES_NO.get(one.lower() if isinstance(one, str) else one) for one in answers]
    if len(answers) == 1 and yes_no[0] is not None:
        return _made(row, subject, films, "finding_change_yes_no" if compares else "finding_presence", [yes_no[0]])
    if not all(isinstance(one, str) for one in answers):
        return "answer_is_no_list_of_names"
    if compares:
        return _made(row, subject, films, "finding_change", answers or [NO_CHANGE])
    return _made(row, subject, films, "finding_enumeration", answers) if answers else "nothing_to_name"


def _made(
    row: Mapping[str, Any], subject: int, films: Sequence[Film], task: str, answers: Sequence[str]
) -> MultimodalExample:
    """Asked when the last of the films was taken: their labels are not known then."""
    cutoff = max(film.taken for film in films)
    later = [film for film in films if film.reported is not None and film.reported > cutoff]
    return MultimodalExample(
        task=task,
        subject_id=subject,
        cutoff=time_text(cutoff),
        answer=tuple(sorted(set(answers))),
        images=tuple(film.image for film in films),
        asked=str(row["question"]),
        event_time=time_text(min(film.reported or cutoff for film in later)) if later else None,
        row_ids=tuple(dict.fromkeys(one for film in later for one in film.rows)),
    )
