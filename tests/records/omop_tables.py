"""Hand-made tables of OMOP shape: a few concepts that exist and people that do not."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wardround.records import IngestSettings, Store, ingest, load_source_spec

SPEC = load_source_spec("omop")
Row = Mapping[str, Any]

CONCEPTS = """concept_id,concept_name,domain_id,vocabulary_id,concept_class_id,standard_concept,concept_code
0,No matching concept,Metadata,None,Undefined,,No matching concept
8532,FEMALE,Gender,Gender,Gender,S,F
9201,Inpatient Visit,Visit,Visit,Visit,S,IP
9203,Emergency Room Visit,Visit,Visit,Visit,S,ER
262,Emergency Room and Inpatient Visit,Visit,Visit,Visit,S,ERIP
8536,Home,Visit,CMS Place of Service,Visit,S,12
3023103,Potassium in Serum,Measurement,LOINC,Lab Test,S,2823-3
3027018,Heart rate,Measurement,LOINC,Clinical Observation,S,8867-4
8753,millimole per liter,Unit,UCUM,Unit,S,mmol/L
9191,Positive,Meas Value,SNOMED,Qualifier Value,S,10828004
312327,Acute myocardial infarction,Condition,SNOMED,Disorder,S,57054005
1112807,aspirin,Drug,RxNorm,Ingredient,S,1191
4336464,Coronary artery bypass graft,Procedure,SNOMED,Procedure,S,232717009
"""
VISIT = {
    "visit_occurrence_id": 10,
    "visit_concept_id": 9201,
    "visit_start_date": "2150-01-02",
    "visit_start_datetime": "2150-01-02 08:00:00",
    "visit_end_date": "2150-01-06",
    "visit_end_datetime": "2150-01-06 11:00:00",
    "visit_source_value": "inpatient",
}
PERSON = {"person_id": 1, "gender_concept_id": 8532, "year_of_birth": 2100, "month_of_birth": 6, "day_of_birth": 15}


def write_omop(
    folder: Path, tables: Mapping[str, Sequence[Row]], *, upper: bool = False, concepts: bool = True
) -> Path:
    """Write tables as CSV with the columns their rows have, every row of person 1 unless it says otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        filled = [{"person_id": 1, **row} for row in rows]
        required = (*SPEC.tables[name].required, *SPEC.tables[name].key, "person_id")
        columns = list(dict.fromkeys([*required, *(column for row in filled for column in row)]))
        path = folder / f"{name.upper() if upper else name}.csv"
        with path.open("w", newline="") as target:
            writer = csv.writer(target)
            writer.writerow([column.upper() if upper else column for column in columns])
            writer.writerows([row.get(column, "") for column in columns] for row in filled)
    if concepts:
        header, _, body = CONCEPTS.partition("\n")
        text = f"{header.upper() if upper else header}\n{body}"
        (folder / ("CONCEPT.csv" if upper else "concept.csv")).write_text(text)
    return folder


def omop_store(folder: Path, tables: Mapping[str, Sequence[Row]], **settings: Any) -> Store:
    """Ingest hand-made tables; person 1 and visit 10 are there unless given."""
    raw = write_omop(folder / "raw", {"person": [PERSON], "visit_occurrence": [VISIT], **tables})
    ingest("omop", raw, folder / "store", settings=IngestSettings(**settings))
    return Store.open(folder / "store")
