"""A source of a few small tables that has every clock the engine knows, and the CSV files to go with it."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from wardround.records import IngestSettings, SourceSpec, Store, ingest, load_source_spec

SPEC = """
[source]
name = "small"
module = "hosp"

[tables.patients]
path = "hosp/patients"
key = ["subject_id"]
event_time = "always"
available_at = "always"
age = { anchor_age = "anchor_age", anchor_year = "anchor_year" }
[tables.patients.columns]
subject_id = "int"
gender = "text"
anchor_age = "int"
anchor_year = "int"
dod = "date"
[tables.patients.late]
dod = "dod"

[tables.admissions]
path = "hosp/admissions"
key = ["hadm_id"]
event_time = "admittime"
available_at = "admittime"
[tables.admissions.columns]
subject_id = "int"
hadm_id = "int"
admittime = "time"
dischtime = "time"
discharge_location = "text"
[tables.admissions.late]
"dischtime, discharge_location" = "dischtime"
[tables.admissions.published]
time = "admittime"
hide = ["discharge_location"]

[tables.labs]
path = "hosp/labs"
key = ["lab_id"]
event_time = "charttime"
available_at = "first(storetime, median_delay(charttime, storetime))"
median_minutes = { "charttime.storetime" = 60 }
code = "itemid"
code_system = "small-lab"
value = "valuenum"
text = "value"
unit = "unit"
default_columns = ["charttime", "label"]
[tables.labs.columns]
lab_id = "int"
subject_id = "int"
hadm_id = "int"
itemid = "int"
charttime = "time"
storetime = "time"
value = "text"
valuenum = "float"
unit = "text"
[tables.labs.late]
hadm_id = "known(hadm_id, admissions)"
[tables.labs.dictionary]
table = "d_labs"
on = ["itemid"]
add = { label = "label" }
[tables.labs.published]
time = "charttime"
operator = "<"

[tables.orders]
path = "hosp/orders"
key = ["order_id"]
event_time = "ordertime"
available_at = "ordertime"
[tables.orders.columns]
subject_id = "int"
order_id = "text"
ordertime = "time"
stopped_by = "text"
[tables.orders.late]
stopped_by = "known(stopped_by, orders)"

[tables.drugs]
path = "hosp/drugs"
event_time = "starttime"
available_at = "known(order_id, orders)"
[tables.drugs.columns]
subject_id = "int"
order_id = "text"
drug = "text"
starttime = "time"
stoptime = "time"
[tables.drugs.late]
stoptime = "stoptime"

[tables.diagnoses]
path = "hosp/diagnoses"
key = ["hadm_id", "seq_num"]
event_time = "ref(hadm_id, admissions, dischtime)"
available_at = "lag(ref(hadm_id, admissions, dischtime), coding_lag)"
[tables.diagnoses.columns]
subject_id = "int"
hadm_id = "int"
seq_num = "int"
icd_code = "text"
icd_version = "int"
[tables.diagnoses.group]
system = "ccs-diagnoses"
code = "icd_code"

[tables.cultures]
path = "hosp/cultures"
id_columns = ["specimen_id", "test_name", "organism"]
event_time = "first(charttime, min(chartdate, storetime), chartdate)"
available_at = "storetime"
withhold = ["test_seq"]
[tables.cultures.columns]
subject_id = "int"
specimen_id = "int"
test_seq = "int"
chartdate = "date"
charttime = "time"
storetime = "time"
test_name = "text"
organism = "text"
[tables.cultures.pending]
group = ["specimen_id", "test_seq"]
columns = ["subject_id", "specimen_id", "chartdate", "charttime", "test_name"]
at = "first(charttime, min(chartdate, storetime), chartdate)"
until = "storetime"
[tables.cultures.pending.reflex]
column = "test_name"
patterns = ["gram stain"]

[tables.triage]
path = "ed/triage"
key = ["lab_id"]
subject_from = { key = "lab_id", table = "labs" }
event_time = "ref(lab_id, labs, charttime)"
available_at = "known(lab_id, labs)"
[tables.triage.columns]
lab_id = "int"
complaint = "text"

[dictionaries.d_labs]
path = "hosp/d_labs"
key = ["itemid"]
[dictionaries.d_labs.columns]
itemid = "int"
label = "text"
"""

FILES: Mapping[str, str] = {
    "hosp/patients.csv": """subject_id,gender,anchor_age,anchor_year,dod
1,F,60,2150,2150-03-01
2,M,91,2150,
""",
    "hosp/admissions.csv": """subject_id,hadm_id,admittime,dischtime,discharge_location
1,10,2150-01-01 08:00:00,2150-01-05 12:00:00,HOME
1,11,2150-02-01 00:00:00,2150-03-01 10:00:00,DIED
2,20,2150-01-02 08:00:00,,
""",
    "hosp/labs.csv": """lab_id,subject_id,hadm_id,itemid,charttime,storetime,value,valuenum,unit
100,1,10,501,2150-01-01 07:00:00,2150-01-01 09:00:00,7.1,7.1,mg/dL
101,1,10,502,2150-01-01 07:00:00,2150-01-01 07:30:00,NEG,,
102,1,,501,2150-01-10 07:00:00,,6.5,6.5,mg/dL
103,1,11,501,2150-02-01 07:00:00,2150-02-01 08:00:00,___,,mg/dL
104,2,20,503,2150-01-02 09:00:00,2150-01-02 10:00:00,1,1,
""",
    "hosp/d_labs.csv": "itemid,label\n501,Glucose\n502,Ketone\n",
    "hosp/orders.csv": """subject_id,order_id,ordertime,stopped_by
1,1-1,2150-01-01 09:00:00,1-2
1,1-2,2150-01-03 09:00:00,
1,1-3,2150-01-03 10:00:00,1-9
""",
    "hosp/drugs.csv": """subject_id,order_id,drug,starttime,stoptime
1,1-1,Aspirin,2150-01-01 10:00:00,2150-01-03 09:00:00
1,1-1,Aspirin,2150-01-01 10:00:00,2150-01-04 09:00:00
1,1-1,Heparin,2150-01-02 10:00:00,
1,1-7,Lost,2150-01-02 10:00:00,
""",
    "hosp/diagnoses.csv": """subject_id,hadm_id,seq_num,icd_code,icd_version
1,10,1,4019,9
1,10,2,I10,10
1,11,1,A419,10
2,20,1,I10,10
""",
    "hosp/cultures.csv": """subject_id,specimen_id,test_seq,chartdate,charttime,storetime,test_name,organism
1,7,1,2150-01-02 00:00:00,2150-01-02 06:00:00,2150-01-04 06:00:00,BLOOD CULTURE,E. COLI
1,7,1,2150-01-02 00:00:00,2150-01-02 06:00:00,2150-01-04 06:00:00,BLOOD CULTURE,KLEBSIELLA
1,7,2,2150-01-02 00:00:00,2150-01-02 06:00:00,2150-01-03 06:00:00,Aerobic Bottle Gram Stain,
1,8,1,2150-01-02 00:00:00,,2150-01-02 18:00:00,URINE CULTURE,NONE
1,9,1,2150-01-02 00:00:00,,,SWAB,
""",
    "ed/triage.csv": "lab_id,complaint\n101,cough\n",
}


def small_spec(folder: Path, text: str = SPEC) -> SourceSpec:
    """Write the spec, or another small one, to a folder and load it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.toml").write_text(text)
    return load_source_spec(folder)


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write raw files; a name that ends in .gz is compressed."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return folder


def small_store(folder: Path, changes: Mapping[str, str] | None = None, **settings: object) -> Store:
    """Ingest the small files, some of them changed, and open the store."""
    raw = write_files(folder / "raw", {**FILES, **(changes or {})})
    ingest(small_spec(folder / "spec"), raw, folder / "store", settings=IngestSettings(**settings))  # type: ignore[arg-type]
    return Store.open(folder / "store")


def moment(text: str) -> datetime:
    """Read a time of January 2150 from ``day hour:minute``, or a full one."""
    return datetime.fromisoformat(text if len(text) > 10 else f"2150-01-{text}")
