"""The files: columns, determinism, independence of workers, flat memory, refusals."""

from __future__ import annotations

import csv
import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from synth_rows import PATIENTS, Reader

import wardround.synth.hospital
from wardround.core import Progress, UserError
from wardround.synth import COLUMNS, MODULES, SynthManifest, synthesize
from wardround.synth.output import quoted

_FILES = {table: f"{module}/{table}.csv.gz" for table, module in MODULES.items()}


def _bytes(folder: Path) -> dict[str, bytes]:
    return {table: (folder / path).read_bytes() for table, path in _FILES.items() if (folder / path).exists()}


def _subject_rows(folder: Path, table: str, below: int) -> list[str]:
    with gzip.open(folder / _FILES[table], "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        where = next(rows).index("subject_id")
        return ["|".join(row) for row in rows if int(row[where]) < below]


def test_public_names_are_exact_and_sorted() -> None:
    assert wardround.synth.__all__ == sorted(wardround.synth.__all__)
    assert set(wardround.synth.__all__) == {
        "COLUMNS",
        "DIALECTS",
        "MODULES",
        "PlantedRule",
        "SynthManifest",
        "plant_rules",
        "plant_traps",
        "planted_rules",
        "synthesize",
        "synthesize_as",
        "time_zone_of",
        "write_dialect",
    }
    assert all(hasattr(wardround.synth, name) for name in wardround.synth.__all__)


def test_every_row_has_its_columns_and_every_table_has_rows(hospital: Path) -> None:
    for table, path in _FILES.items():
        with gzip.open(hospital / path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            assert tuple(next(reader)) == COLUMNS[table]
            widths = {len(row) for row in reader}
        assert widths == {len(COLUMNS[table])}, table


def test_columns_equal_the_real_headers(shared_data: Path) -> None:
    """The demo's own files, where they are here; pyxis lost two columns when it was rebuilt from FHIR."""
    folders = ("mimic-iv-demo-2.2", "mimic-iv-demo-2.2-derived", "mimic-iv-ed-demo-2.2-rebuilt")
    compared = 0
    for folder in folders:
        for path in sorted((shared_data / folder).glob("*/*.csv.gz")):
            table = path.name.removesuffix(".csv.gz")
            with gzip.open(path, "rt", encoding="utf-8") as file:
                real = tuple(file.readline().strip().split(","))
            ours = COLUMNS[table]
            if table == "pyxis":
                ours = tuple(name for name in ours if name not in ("med_rn", "gsn_rn"))
            assert ours == real, table
            compared += 1
    assert compared >= 30


def test_same_seed_same_bytes_whatever_the_workers(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    first = synthesize(one, patients=90, seed=5)
    second = synthesize(two, patients=90, seed=5, workers=2)
    assert first == second
    assert _bytes(one) == _bytes(two)
    assert first.rows["patients"] == 90


def test_another_seed_is_another_hospital(tmp_path: Path) -> None:
    one = synthesize(tmp_path / "one", patients=5, seed=1, icu=False, notes=False)
    two = synthesize(tmp_path / "two", patients=5, seed=2, icu=False, notes=False)
    assert one.crc32["admissions"] != two.crc32["admissions"]


def test_a_subject_does_not_depend_on_how_many_there_are(tmp_path: Path) -> None:
    synthesize(tmp_path / "small", patients=12, seed=9)
    synthesize(tmp_path / "large", patients=55, seed=9)
    for table in ("admissions", "labevents", "emar_detail", "chartevents", "microbiologyevents", "discharge"):
        small = _subject_rows(tmp_path / "small", table, 90_000_012)
        assert small
        assert small == _subject_rows(tmp_path / "large", table, 90_000_012), table


def test_leaving_modules_out_changes_nothing_else(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    synthesize(whole, patients=30, seed=4)
    manifest = synthesize(part, patients=30, seed=4, icu=False, ed=False, notes=False)
    assert manifest.modules == ("decoys", "hosp")
    assert sorted(path.name for path in part.iterdir()) == ["hosp", "synth_manifest.json"]
    complete = _bytes(whole)
    assert all(body == complete[table] for table, body in _bytes(part).items())


def test_uncompressed_files_hold_the_same_text(tmp_path: Path) -> None:
    synthesize(tmp_path / "plain", patients=8, seed=2, films=True, compress=False)
    synthesize(tmp_path / "packed", patients=8, seed=2, films=True)
    for table, path in _FILES.items():
        plain = (tmp_path / "plain" / path.removesuffix(".gz")).read_bytes()
        assert plain == gzip.decompress((tmp_path / "packed" / path).read_bytes()), table


def test_gzip_members_carry_no_time(hospital: Path) -> None:
    for body in _bytes(hospital).values():
        assert body[4:8] == b"\0\0\0\0"


def test_manifest_counts_what_is_there(hospital: Path, rows: Reader) -> None:
    manifest = json.loads((hospital / "synth_manifest.json").read_text())
    assert manifest["complete"] is True
    assert manifest["patients"] == PATIENTS
    for table in ("patients", "labevents", "discharge", "d_items", "poe_detail"):
        assert manifest["rows"][table] == len(rows(table)), table


def test_memory_does_not_grow_with_patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wardround.synth.hospital, "BATCH", 10)

    def peak(patients: int) -> int:
        tracemalloc.start()
        synthesize(tmp_path / str(patients), patients=patients, seed=1, icu=False, ed=False, notes=False)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(40)  # what is kept for good is kept now: tables, patterns, ids
    assert peak(40) < 1.2 * peak(10), "four batches hold no more than one"


def test_progress_is_reported_to_the_end(tmp_path: Path) -> None:
    seen: list[Progress] = []
    synthesize(tmp_path / "h", patients=50, seed=1, icu=False, notes=False, report=seen.append)
    assert [event.done for event in seen] == [40, 50]
    assert {event.total for event in seen} == {50}


def test_a_strangers_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        synthesize(tmp_path, patients=1, seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_earlier_hospital_is_replaced_whole(tmp_path: Path) -> None:
    synthesize(tmp_path, patients=3, seed=1)
    manifest = synthesize(tmp_path, patients=2, seed=1, icu=False)
    assert isinstance(manifest, SynthManifest)
    assert not (tmp_path / "icu" / "chartevents.csv.gz").exists()


@pytest.mark.parametrize(("patients", "workers"), [(0, 1), (5_000_000, 1), (3, 0)])
def test_senseless_numbers_are_refused(tmp_path: Path, patients: int, workers: int) -> None:
    with pytest.raises(UserError, match="patients must be"):
        synthesize(tmp_path, patients=patients, seed=1, workers=workers)


def test_a_file_in_the_way_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        synthesize(tmp_path / "file" / "hospital", patients=1, seed=1)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain; text", "plain; text"),
        ("a,b", '"a,b"'),
        ('6" tube', '"6"" tube"'),
        ("a\nb", '"a\nb"'),
        ("a\rb", '"a\rb"'),
        ("", ""),
    ],
)
def test_a_cell_is_quoted_where_it_must_be_and_nowhere_else(text: str, cell: str) -> None:
    assert quoted(text) == cell


def test_two_films_of_a_study_lie_side_by_side(tmp_path: Path) -> None:
    pytest.importorskip("pydicom", reason="needs the extra [imaging]")
    from wardround.synth.radiographs import film_path, write_films

    names = ["11111111-0000-0000-0000-000000000000", "22222222-0000-0000-0000-000000000000"]
    columns = "subject_id,study_id,dicom_id,sop_instance_uid,acquired,height,view_position"
    films = [f"10000001,50000001,{name},2.25.{n},2150-01-01 08:00:00,32,PA" for n, name in enumerate(names)]
    (tmp_path / "cxr").mkdir()
    (tmp_path / "cxr" / "cxr_images.csv").write_text("\n".join([columns, *films]) + "\n")
    report = 'study_id,text\n50000001,"FINDINGS: \n \nNo acute cardiopulmonary process\n"\n'
    (tmp_path / "cxr" / "cxr_reports.csv").write_text(report)
    assert write_films(tmp_path) == 2
    rows = [{"subject_id": "10000001", "study_id": "50000001", "dicom_id": name} for name in names]
    assert all(film_path(tmp_path / "cxr" / "files", row).is_file() for row in rows)
