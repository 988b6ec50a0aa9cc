"""A release of MIMIC-CXR in its own layout, made of the invented films: prepared, it gives the same tables."""

from __future__ import annotations

import csv
import gzip
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from wardround.cli.main import main
from wardround.tools.imaging.mimic_cxr import study_moment


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def _release(hospital: Path, folder: Path) -> None:
    """The released files: dates and times as numbers, reports in an archive, labels wide."""
    folder.mkdir()
    images, reports = (_rows(hospital / "cxr" / f"cxr_{name}.csv.gz") for name in ("images", "reports"))
    head = ("dicom_id", "subject_id", "study_id", "ViewPosition", "Rows", "Columns", "StudyDate", "StudyTime")
    rows = []
    for row in images:
        day, clock = row["acquired"].split(" ")
        number = str(int(clock.replace(":", ""))) + ".171"  # the zeros before it are lost, as in the release
        ids = (row["dicom_id"], row["subject_id"], row["study_id"])
        rows.append((*ids, row["view_position"], row["height"], row["width"], day.replace("-", ""), number))
    rows.append(("broken", "1", "2", "AP", "1", "1", "", "x"))
    _write(folder / "mimic-cxr-2.0.0-metadata.csv.gz", head, rows)
    with zipfile.ZipFile(folder / "mimic-cxr-reports.zip", "w") as archive:
        for row in reports:
            subject = row["subject_id"]
            archive.writestr(f"files/p{subject[:2]}/p{subject}/s{row['study_id']}.txt", row["text"])
    labels = _rows(hospital / "cxr" / "cxr_labels.csv.gz")
    names = sorted({row["finding"] for row in labels})
    wide: dict[tuple[str, str], dict[str, str]] = {}
    for row in labels:
        wide.setdefault((row["subject_id"], row["study_id"]), {})[row["finding"]] = row["value"]
    lines = [(*key, *(held.get(name, "") for name in names)) for key, held in wide.items()]
    _write(folder / "mimic-cxr-2.0.0-chexpert.csv.gz", ("subject_id", "study_id", *names), lines)


def test_a_release_becomes_the_tables_that_are_ingested(
    film_hospital: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _release(film_hospital, tmp_path / "release")
    notes, out = film_hospital / "note" / "radiology.csv.gz", tmp_path / "prepared" / "cxr"
    assert main(["images", "prepare", str(tmp_path / "release"), "--notes", str(notes), "--out", str(out)]) == 0
    assert "pictures without a readable date and time: 1" in capsys.readouterr().out
    for table in ("images", "reports", "labels"):
        made, given = _rows(out / f"cxr_{table}.csv"), _rows(film_hospital / "cxr" / f"cxr_{table}.csv.gz")
        wanted = [{**row, "sop_instance_uid": ""} if table == "images" else row for row in given]
        if table == "reports":
            made, wanted = ([{**row, "text": row["text"].strip()} for row in rows] for rows in (made, wanted))
        assert sorted(map(repr, made)) == sorted(map(repr, wanted)), table


def test_times_without_their_zeros() -> None:
    assert str(study_moment("21800506", "830.5")) == "2180-05-06 00:08:30"
    assert study_moment("21800506", "") is not None
    assert [study_moment(day, clock) for day, clock in (("", "1"), ("21800231", "1"), ("21800506", "996100"))] == [
        None
    ] * 3


def test_a_folder_that_is_no_release_says_what_is_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["images", "prepare", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "mimic-cxr-2.0.0-metadata.csv.gz" in capsys.readouterr().err
