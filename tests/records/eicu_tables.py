"""Hand-made raw files of eICU shape: invented people, offsets in minutes since unit admission."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wardround.records import IngestSettings, Store, ingest, load_source_spec

SPEC = load_source_spec("eicu")
Row = Mapping[str, Any]

PATIENT = {
    "patientunitstayid": 100,
    "patienthealthsystemstayid": 10,
    "uniquepid": "002-1",
    "gender": "Female",
    "age": "64",
    "ethnicity": "Caucasian",
    "hospitalid": 7,
    "apacheadmissiondx": "Sepsis, pulmonary",
    "hospitaladmittime24": "08:00:00",
    "hospitaladmitoffset": -120,
    "hospitaladmitsource": "Floor",
    "hospitaldischargeyear": 2014,
    "hospitaldischargeoffset": 7080,
    "hospitaldischargelocation": "Home",
    "hospitaldischargestatus": "Alive",
    "unittype": "MICU",
    "unitvisitnumber": 1,
    "unitstaytype": "admit",
    "admissionweight": 80,
    "dischargeweight": 78,
    "unitdischargeoffset": 2880,
    "unitdischargelocation": "Floor",
    "unitdischargestatus": "Alive",
}
"""Hospital admission on 2014-01-01 08:00, unit 10:00, out of the unit 01-03 10:00, home 01-06 08:00."""
LATER_UNIT = {
    **PATIENT,
    "patientunitstayid": 101,
    "unitvisitnumber": 2,
    "hospitaladmitoffset": -4320,
    "hospitaldischargeoffset": 2880,
    "unitdischargeoffset": 1440,
}
"""The same hospital stay: back in the unit on 2014-01-04 08:00."""
HOSPITAL = "hospitalid,numbedscategory,teachingstatus,region\n7,100 - 249,t,South\n"


def write_eicu(folder: Path, tables: Mapping[str, Sequence[Row]]) -> Path:
    """Write raw files with the columns their rows have, every row of unit stay 100 unless it says otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        filled = [{"patientunitstayid": 100, **row} for row in rows]
        columns = list(dict.fromkeys(column for row in filled for column in row))
        with (folder / f"{name}.csv").open("w", newline="") as target:
            writer = csv.writer(target)
            writer.writerow(columns)
            writer.writerows([row.get(column, "") for column in columns] for row in filled)
    (folder / "hospital.csv").write_text(HOSPITAL)
    return folder


def eicu_store(folder: Path, tables: Mapping[str, Sequence[Row]], **settings: Any) -> Store:
    """Ingest hand-made files; unit stay 100 is there unless given."""
    raw = write_eicu(folder / "raw", {"patient": [PATIENT], **tables})
    ingest("eicu", raw, folder / "store", settings=IngestSettings(**settings))
    return Store.open(folder / "store")
