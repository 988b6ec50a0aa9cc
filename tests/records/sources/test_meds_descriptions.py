"""Words for MEDS codes out of invented dictionaries of every kind, and on the open demo."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wardround.core import UserError
from wardround.records import Store, ingest
from wardround.records.sources.meds import describe_codes

WORDS = {
    "LAB//900//mg/dL": "Unobtainium (mg/dL)",
    "LAB//RESULT//900//UNK": "Unobtainium",
    "INFUSION_START//901": "Moon dust, start",
    "PROCEDURE//END//901": "Moon dust, end",
    "DIAGNOSIS//ICD//10//X01": "Ten at breakfast",
    "DIAGNOSIS//ICD//9//X01": "Nine at breakfast",
    "PROCEDURE//ICD//9//X01": "Nine stitches",
    "DIAGNOSIS//ICD//10//900": None,
    "MOON/7": 'Full "moon"',
    "MEDICATION//Tea//Administered": None,
    "KEPT": "said before",
}


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "metadata").mkdir(parents=True)
    held = ["said before" if code == "KEPT" else None for code in WORDS]
    table = pa.table(
        {"code": list(WORDS), "description": pa.array(held, pa.string()), "parent_codes": [[]] * len(WORDS)}
    )
    pq.write_table(table, folder / "metadata" / "codes.parquet")
    return folder


@pytest.fixture
def dictionaries(tmp_path: Path) -> list[Path]:
    files = {
        "d_items.csv.gz": "itemid,label,category\n900,Unobtainium,Blood\n901,Moon dust,Other\n",
        "d_icd_diagnoses.csv.gz": "icd_code,icd_version,long_title\nX01,9,Nine at breakfast\nX01,10,Ten at breakfast\n",
        "d_icd_procedures.csv.gz": "icd_code,icd_version,long_title\nX01  ,9,Nine stitches\n",
        "CONCEPT.csv": 'concept_id\tconcept_name\tvocabulary_id\tconcept_code\n1\tFull "moon"\tMOON\t7\n',
        "own.csv": "CODE,DESCRIPTION\nKEPT,not this\n",
    }
    for name, text in files.items():
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return [tmp_path / name for name in files]


def test_every_kind_of_dictionary_says_its_codes(data_set: Path, dictionaries: list[Path], tmp_path: Path) -> None:
    found = describe_codes(data_set, dictionaries, tmp_path / "words")
    rows = pq.read_table(found.path).to_pylist()
    assert {row["code"]: row["description"] for row in rows} == WORDS
    assert (found.codes, found.before, found.after) == (11, 1, 9)
    assert [row["parent_codes"] for row in rows] == [[]] * 11


def test_a_line_without_words_says_nothing_of_its_code(data_set: Path, tmp_path: Path) -> None:
    """The next line that has words is taken, in any form of file."""
    table = pa.table({"code": ["MOON/7", "MOON/7", None], "description": [None, "Half moon", "nobody's"]})
    pq.write_table(table, tmp_path / "own.parquet")
    found = describe_codes(data_set, [tmp_path / "own.parquet"], tmp_path / "words")
    said = {row["code"]: row["description"] for row in pq.read_table(found.path).to_pylist()}
    assert said["MOON/7"] == "Half moon"
    assert (found.before, found.after) == (1, 2)


@pytest.mark.parametrize("name", ["words.csv", "words.parquet"])
def test_a_concept_with_an_empty_cell_takes_no_word_away(data_set: Path, tmp_path: Path, name: str) -> None:
    lines = [("MOON", "7", "Full"), ("MOON", "7", ""), ("", "7", "no vocabulary"), ("KEPT", "", "no code")]
    columns = dict(zip(("vocabulary_id", "concept_code", "concept_name"), zip(*lines, strict=True), strict=True))
    if name.endswith(".parquet"):
        pq.write_table(
            pa.table({key: [cell or None for cell in cells] for key, cells in columns.items()}), tmp_path / name
        )
    else:
        (tmp_path / name).write_text("\n".join(",".join(line) for line in [tuple(columns), *lines]) + "\n")
    found = describe_codes(data_set, [tmp_path / name], tmp_path / "words")
    said = {row["code"]: row["description"] for row in pq.read_table(found.path).to_pylist()}
    assert said == {**dict.fromkeys(WORDS), "MOON/7": "Full", "KEPT": "said before"}
    assert (found.before, found.after) == (1, 2)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("d_other.csv", "a,b\n1,2\n", "not a dictionary of codes; expected columns"),
        (
            "titles.csv",
            "icd_code,icd_version,long_title\nX,9,x\n",
            "must say whether these are diagnoses or procedures",
        ),
        ("items.csv", "itemid,label\n1\n2,3,4\n", "not a readable CSV file"),
    ],
)
def test_what_is_no_dictionary_is_one_clear_line(
    data_set: Path, tmp_path: Path, name: str, text: str, problem: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=problem):
        describe_codes(data_set, [tmp_path / name], tmp_path / "words")
    assert not (tmp_path / "words").exists()


def test_what_is_missing_or_in_use_is_said(data_set: Path, dictionaries: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give the folder of a MEDS data set"):
        describe_codes(tmp_path, dictionaries, tmp_path / "words")
    with pytest.raises(UserError, match="no such file"):
        describe_codes(data_set, [tmp_path / "nowhere.csv"], tmp_path / "words")
    describe_codes(data_set, dictionaries, tmp_path / "words")
    with pytest.raises(UserError, match="exists already"):
        describe_codes(data_set, dictionaries, tmp_path / "words")


def test_the_words_reach_the_chart_of_the_open_demo(shared_data: Path, tmp_path: Path) -> None:
    meds, mimic = shared_data / "mimic-iv-demo-meds" / "meds", shared_data / "mimic-iv-demo-2.2"
    if not meds.is_dir() or not mimic.is_dir():
        pytest.skip("the open demos are not here")
    files = [mimic / "hosp" / f"{name}.csv.gz" for name in ("d_labitems", "d_icd_diagnoses", "d_icd_procedures")]
    described = describe_codes(meds, [*files, mimic / "icu" / "d_items.csv.gz"], tmp_path / "words")
    assert described.before == 0
    assert described.after > 4_000
    ingest("meds", [tmp_path / "words", meds], tmp_path / "store")
    store = Store.open(tmp_path / "store")
    columns = store.chart(int(store.subjects[0]), datetime(2300, 1, 1)).event_columns()
    words = dict(zip(columns.codes, columns.descriptions, strict=True))
    assert all(text.startswith("Hemoglobin") for code, text in words.items() if code.startswith("LAB//51222//"))
