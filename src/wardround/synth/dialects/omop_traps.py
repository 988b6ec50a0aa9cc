"""Rows of an OMOP conversion that tell the future to whoever reads their dates as times of knowing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wardround.core import parse_time
from wardround.synth.dialects.source import HospitalTables, later

_CLAIM = 32855
_BILLED = {
    "condition_occurrence": "condition_start",
    "procedure_occurrence": "procedure",
    "device_exposure": "device_exposure_start",
    "observation": "observation",
}
"""Tables that hold bills, and how the columns of their dates begin."""
_HISTORY_DAYS = 40


def omop_traps(source: HospitalTables) -> Mapping[str, list[dict[str, object]]]:
    """Return further rows by table, without their running numbers."""
    rows = {table: list(_bills_on_a_day(source, table)) for table in _BILLED}
    rows["procedure_occurrence"] += _ventilations(source)
    rows["observation"] += _histories(source)
    rows["specimen"] = list(_grown(source))
    return rows


def _bills_on_a_day(source: HospitalTables, table: str) -> Iterator[dict[str, object]]:
    """Bill something on a day in the middle of a stay, with neither the visit nor a part of it named."""
    for row in source.admissions.values():
        day = later(row["admittime"], days=1)
        if day < row["dischtime"]:
            yield {
                "person_id": row["subject_id"],
                **_day(_BILLED[table], day),
                **_plain(table.partition("_")[0], f"billed in {row['hadm_id']}"),
                f"{table.partition('_')[0]}_type_concept_id": _CLAIM,
            }


def _histories(source: HospitalTables) -> Iterator[dict[str, object]]:
    """Note at an admission what has been so for weeks, and date it back."""
    for row in source.admissions.values():
        yield {
            "person_id": row["subject_id"],
            **_day("observation", later(row["admittime"], days=-_HISTORY_DAYS)),
            **_plain("observation", "has smoked"),
            "observation_type_concept_id": 32817,
            "visit_occurrence_id": row["hadm_id"],
        }


def _ventilations(source: HospitalTables) -> Iterator[dict[str, object]]:
    """Chart at its start a procedure that ends with the stay, with the minutes that it took."""
    for row in source.admissions.values():
        start = later(row["admittime"], hours=2)
        minutes = (parse_time(row["dischtime"]) - parse_time(start)).total_seconds() / 60
        if minutes > 0:
            yield {
                "person_id": row["subject_id"],
                "procedure_date": start[:10],
                "procedure_datetime": start,
                **_plain("procedure", "invasive ventilation"),
                "procedure_type_concept_id": 32833,
                "quantity": round(minutes),
                "visit_occurrence_id": row["hadm_id"],
            }


def _grown(source: HospitalTables) -> Iterator[dict[str, object]]:
    """Draw blood an hour before a stay ends and write a row for each of the organisms that it grows."""
    for place, row in enumerate(source.admissions.values()):
        drawn = later(row["deathtime"] or row["dischtime"], hours=-1)
        for _ in range(1 + place % 3):
            yield {
                "person_id": row["subject_id"],
                "specimen_date": drawn[:10],
                "specimen_datetime": drawn,
                **_plain("specimen", "blood culture"),
            }


def _day(name: str, time: str) -> dict[str, object]:
    return {f"{name}_date": time[:10], f"{name}_datetime": f"{time[:10]} 00:00:00"}


def _plain(name: str, words: str) -> dict[str, object]:
    return {f"{name}_concept_id": 0, f"{name}_source_value": words}
