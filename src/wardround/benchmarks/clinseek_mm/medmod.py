"""MedMod's own files (Elsharief et al., 2025) as a manifest of examples: its listfiles, beside a store of the records.

A listfile is CSV: ``stay`` (``<subject>_episode<n>_timeseries.csv``), ``period_length`` (hours since the stay in
intensive care began), ``stay_id`` and the answer. In decompensation ``y_true`` says whether a death follows within 24
hours, at every whole hour; in in-hospital mortality ``period_length`` is 0 and the first 48 hours are seen; in
phenotyping it is the length of the stay and 25 columns name conditions. Each is paired with the latest frontal (AP)
film of the stay by then, as MedMod's loader does. Its radiology task is in no listfile: its labels are the store's own.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wardround.benchmarks.clinseek.questions import HOUR
from wardround.benchmarks.clinseek.timeline import Span, Timeline
from wardround.benchmarks.clinseek_mm.conversion import Conversion, FilmIndex, collected
from wardround.benchmarks.clinseek_mm.definitions import PHENOTYPES
from wardround.benchmarks.clinseek_mm.examples import MultimodalExample
from wardround.benchmarks.clinseek_mm.films import Film, image_role
from wardround.benchmarks.clinseek_mm.stand_in import (
    coded_phenotypes,
    death_example,
    died_by,
    phenotype_example,
    stay_around,
)
from wardround.core import UserError
from wardround.records import Store

_COLUMNS = ("stay", "period_length", "stay_id")
_TWO_DAYS = 48.0
_FRONTAL = "AP"
Row = Mapping[str, str]


def convert_medmod(files: Sequence[Path], store: Store) -> Conversion:
    """Make examples of listfiles; UserError names the file that is none. Which task a file is of, its columns say."""
    index = FilmIndex(store, image_role(store))
    return collected(one for path in files for one in _of_file(path, index))


def _of_file(path: Path, index: FilmIndex) -> Iterator[MultimodalExample | str]:
    rows = _rows(path)
    answers = [name for name in rows[0] if name not in _COLUMNS] if rows else []
    if answers == ["y_true"]:
        at_two_days = all(float(row["period_length"]) == 0 for row in rows)
        task = "mortality_inpatient" if at_two_days else "mortality_24h"
    elif set(answers) == set(PHENOTYPES):
        task = "phenotypes"
    else:
        raise UserError(f"{path}: neither `y_true` nor the 25 phenotypes stand beside {', '.join(_COLUMNS)}")
    yield from (_example(row, task, index, path) for row in rows)


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    if not rows or any(name not in rows[0] for name in _COLUMNS):
        raise UserError(f"{path} is no listfile of MedMod: its columns begin with {', '.join(_COLUMNS)}")
    return rows


def _example(row: Row, task: str, index: FilmIndex, path: Path) -> MultimodalExample | str:
    """One line, or why it is left out."""
    try:
        subject, stay_id = int(row["stay"].split("_")[0]), int(float(row["stay_id"]))
        hours = _TWO_DAYS if task == "mortality_inpatient" else float(row["period_length"])
        yes = [name for name, said in row.items() if name not in _COLUMNS and float(said) == 1]
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: a line that is none of MedMod's: {dict(row)}: {error}") from None
    held = index.of(subject)
    if held is None:
        return "subject_not_in_the_store"
    timeline, films = held
    span = _unit_stay(timeline, stay_id)
    stay = None if span is None else stay_around(timeline, span)
    if span is None or stay is None:
        return "stay_not_in_the_store"
    asked = span.end if task == "phenotypes" else span.start + round(hours * HOUR)
    linked = [film for film in films if span.start <= film.taken <= asked and film.view == _FRONTAL][-1:]
    if not linked:
        return "no_frontal_film_by_then"
    return _of_stay(task, timeline, stay, asked, linked, yes)


def _unit_stay(timeline: Timeline, stay_id: int) -> Span | None:
    role = timeline.store.spec.roles.stay
    if role is None or role.table not in timeline.store.table_names:
        return None
    rows = timeline.rows(role.table).to_pylist()
    named = {row["row_id"] for row in rows if row.get("stay_id") == stay_id}
    return next((span for span in timeline.spans("stay") if span.row_id in named), None)


def _of_stay(
    task: str, timeline: Timeline, stay: Span, asked: int, films: Sequence[Film], yes: Sequence[str]
) -> MultimodalExample | str:
    if task == "phenotypes":
        return _phenotypes(timeline, stay, asked, films, yes)
    if died_by(timeline, stay, asked):
        return "died_before"
    return death_example(task, timeline, stay, asked, films, yes=bool(yes))


def _phenotypes(
    timeline: Timeline, stay: Span, asked: int, films: Sequence[Film], yes: Sequence[str]
) -> MultimodalExample | str:
    """A stay that ends with the hospital stay has its codes by then."""
    if not yes:
        return "no_phenotype"
    if asked >= stay.end:
        return "codes_known_by_then"
    _, coded = coded_phenotypes(timeline, stay)
    return phenotype_example(timeline, stay, asked, sorted(yes), coded, films)
