"""Each finding of the leak survey again, on three invented people with a row a table: one cell is changed by hand.

Run: python benchmarks/leak_by_hand.py --raw mimic-iv-demo-2.2 --concepts mimic-code-concepts-duckdb \\
         --environments leak-survey-environments [--only charlson]

Of the demo only headers and dictionaries are read. Everybody is asked about 24 hours after intensive care began,
2150-03-02 09:00. The second person's cell is changed; what an outside package makes of all three is printed before and
after. Ends with status 1 where a finding does not show, or where the first or third person's results differ.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from leak_survey import SURVEYED, Survey, Surveyed, environment, prepared
from wardround.audits.pipeline import PipelineSample
from wardround.audits.pipeline.compare import Change, differences
from wardround.audits.swap.files import files_below

PEOPLE = (1, 2, 3)
SECOND = "10000002"
_KEYS = {
    "subject_id": "1000000{n}",
    "hadm_id": "2000000{n}",
    "stay_id": "3000000{n}",
    "pharmacy_id": "6000000{n}",
    "poe_id": "1000000{n}-7",
    "emar_id": "1000000{n}-8",
}
ROWS: Mapping[str, Mapping[str, str]] = {
    "hosp/patients": {"gender": "F", "anchor_age": "60", "anchor_year": "2150", "anchor_year_group": "2011 - 2013"},
    "hosp/admissions": {
        "admittime": "2150-03-01 08:00:00",
        "dischtime": "2150-03-05 10:00:00",
        "admission_type": "EW EMER.",
        "admission_location": "EMERGENCY ROOM",
        "discharge_location": "HOME",
        "insurance": "Other",
        "language": "ENGLISH",
        "race": "WHITE",
        "hospital_expire_flag": "0",
    },
    "icu/icustays": {
        "first_careunit": "Medical Intensive Care Unit (MICU)",
        "last_careunit": "Medical Intensive Care Unit (MICU)",
        "intime": "2150-03-01 09:00:00",
        "outtime": "2150-03-04 09:00:00",
        "los": "3",
    },
    "hosp/transfers": {
        "transfer_id": "4000000{n}",
        "eventtype": "admit",
        "careunit": "Medical Intensive Care Unit (MICU)",
        "intime": "2150-03-01 09:00:00",
        "outtime": "2150-03-04 09:00:00",
    },
    "hosp/diagnoses_icd": {"seq_num": "1", "icd_code": "I500", "icd_version": "10"},
    "hosp/labevents": {
        "labevent_id": "{n}",
        "specimen_id": "5000000{n}",
        "itemid": "50862",
        "charttime": "2150-03-02 08:00:00",
        "storetime": "2150-03-02 11:00:00",
        "value": "3.1",
        "valuenum": "3.1",
        "valueuom": "g/dL",
    },
    "hosp/poe": {
        "poe_seq": "7",
        "ordertime": "2150-03-04 12:00:00",
        "order_type": "Medications",
        "transaction_type": "New",
        "order_status": "Inactive",
    },
    "hosp/pharmacy": {
        "starttime": "2150-03-02 08:00:00",
        "stoptime": "2150-03-03 08:00:00",
        "medication": "Furosemide",
        "proc_type": "Unit Dose",
        "status": "Discontinued",
        "entertime": "2150-03-02 08:00:00",
        "route": "IV",
        "frequency": "BID",
    },
    "hosp/omr": {"chartdate": "2150-03-02", "seq_num": "1", "result_name": "Blood Pressure", "result_value": "120/80"},
    "icu/procedureevents": {
        "starttime": "2150-03-02 08:00:00",
        "endtime": "2150-03-02 08:01:00",
        "storetime": "2150-03-02 12:00:00",
        "itemid": "225401",
        "value": "1",
        "orderid": "7000000{n}",
        "linkorderid": "7000000{n}",
        "statusdescription": "FinishedRunning",
    },
    "icu/inputevents": {
        "starttime": "2150-03-02 08:00:00",
        "endtime": "2150-03-02 08:30:00",
        "storetime": "2150-03-02 10:00:00",
        "itemid": "225158",
        "amount": "100",
        "amountuom": "ml",
        "rate": "200",
        "rateuom": "mL/hour",
        "orderid": "8000000{n}",
        "linkorderid": "8000000{n}",
        "statusdescription": "FinishedRunning",
    },
    "icu/outputevents": {
        "charttime": "2150-03-02 08:00:00",
        "storetime": "2150-03-02 10:00:00",
        "itemid": "226559",
        "value": "50",
        "valueuom": "ml",
    },
}
"""A row a person; ``{n}`` is the person's number. Nothing of it is anybody's. Other tables hold their keys alone, so
that a reader that guesses types takes keys for numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A cell of the second person that could not be known when asked, what it becomes, and what then differs."""

    pipeline: str
    file: str
    column: str
    becomes: str
    feature: str


EDITS = (
    Edit(pipeline="concept charlson", file="hosp/diagnoses_icd", column="icd_code", becomes="I10", feature="charlson"),
    Edit(
        pipeline="concept icustay_detail",
        file="icu/icustays",
        column="outtime",
        becomes="2150-03-02 15:00:00",
        feature="los_icu",
    ),
    Edit(
        pipeline="concept icustay_detail",
        file="hosp/admissions",
        column="dischtime",
        becomes="2150-03-02 20:00:00",
        feature="los_hospital",
    ),
    Edit(pipeline="concept chemistry", file="hosp/labevents", column="valuenum", becomes="2.2", feature="albumin"),
    Edit(
        pipeline="es-aces",
        file="hosp/admissions",
        column="dischtime",
        becomes="2150-03-02 20:00:00",
        feature="index_timestamp",
    ),
    Edit(pipeline="MIMIC-IV-MEDS", file="hosp/pharmacy", column="poe_id", becomes="10000002-9", feature="MEDICATION"),
    Edit(pipeline="MIMIC-IV-MEDS", file="hosp/omr", column="result_value", becomes="90/50", feature="BLOOD"),
    Edit(pipeline="MIMIC-IV-MEDS", file="icu/procedureevents", column="itemid", becomes="225432", feature="PROCEDURE"),
    Edit(pipeline="MIMIC-IV-MEDS", file="icu/inputevents", column="rate", becomes="300", feature="INFUSION"),
    Edit(pipeline="MIMIC-IV-MEDS", file="icu/outputevents", column="value", becomes="800", feature="SUBJECT_FLUID"),
)


def write_people(empty: Path, into: Path, edit: Edit | None = None) -> None:
    """Write raw files with the three people below the headers of some files; dictionaries whole."""
    for path in files_below(empty):
        target = into / path.relative_to(empty)
        target.parent.mkdir(parents=True, exist_ok=True)
        name = path.relative_to(empty).as_posix().removesuffix(".csv.gz")
        if not path.name.endswith(".csv.gz") or path.name.startswith("d_"):
            target.write_bytes(path.read_bytes())
            continue
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            header = next(csv.reader(lines))
        with gzip.open(target, "wt", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, header, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            for number in PEOPLE if "subject_id" in header else ():
                row = {column: text.format(n=number) for column, text in {**_KEYS, **ROWS.get(name, {})}.items()}
                if edit is not None and name == edit.file and row["subject_id"] == SECOND:
                    row[edit.column] = edit.becomes
                writer.writerow(row)


def needed(name: str) -> list[Surveyed]:
    """Return a pipeline behind the one whose results it reads."""
    (one,) = (each for each in SURVEYED if each.name == name)
    return [*(needed(one.needs) if one.needs else []), one]


def main(arguments: Sequence[str] | None = None) -> int:
    """Reproduce every finding; print each with its three people."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--concepts", type=Path, required=True)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--python", default="python3.12", help="makes the environments (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=[], help="pipelines whose name holds one of these words")
    given = parser.parse_args(arguments)
    asked = datetime(2150, 3, 2, 9)
    samples = [
        PipelineSample(subject=f"1000000{n}", time=asked, keys={name: text.format(n=n) for name, text in _KEYS.items()})
        for n in PEOPLE
    ]
    failed = 0
    with TemporaryDirectory(prefix="wardround-by-hand-") as folder:
        empty = prepared(given.raw, Path(folder) / "empty")
        for name in dict.fromkeys(edit.pipeline for edit in EDITS):
            if given.only and not any(word in name for word in given.only):
                continue
            chosen = needed(name)
            programs = {one.name: environment(one, given.environments, given.python) for one in chosen}
            survey = Survey(
                pipelines=chosen,
                programs={key: text for key, text in programs.items() if text},
                samples=samples,
                concepts=given.concepts,
            )
            edits = [None, *(edit for edit in EDITS if edit.pipeline == name)]
            outputs = []
            for number, edit in enumerate(edits):
                place = Path(folder) / f"{name.replace(' ', '-')}-{number}"
                write_people(empty, place / "raw", edit)
                (place / "out").mkdir()
                survey.run(place / "raw", place / "out")
                outputs.append(survey.read(place / "out", samples))
            for edit, output in zip(edits[1:], outputs[1:], strict=True):
                assert edit is not None
                found = differences(outputs[0], output).places
                failed += not _shown(edit, {place: found[place] for place in found if place[1].startswith(name)})
    return 1 if failed else 0


def _shown(edit: Edit, found: Mapping[tuple[PipelineSample, str], Change]) -> bool:
    """Print what differs; say whether it is the finding, and of the second person alone."""
    cell = {**_KEYS, **ROWS[edit.file]}[edit.column].format(n=2)
    print(f"\n{edit.pipeline}: {edit.file}.{edit.column} of subject {SECOND}: {cell} -> {edit.becomes}")
    for (sample, name), change in sorted(found.items(), key=lambda item: item[0][1]):
        before, after = (", ".join(map(str, value or ("nothing",))) for value in (change.before, change.after))
        print(f"  {sample.subject} {name.removeprefix(edit.pipeline + ': ')}: {before} -> {after}")
    whose = {sample.subject for sample, _ in found}
    others = ", ".join(f"1000000{n}" for n in PEOPLE if f"1000000{n}" not in whose)
    print(f"  the same in both: {others or 'nobody'}")
    return whose == {SECOND} and any(edit.feature in name for _, name in found)


if __name__ == "__main__":
    sys.exit(main())
