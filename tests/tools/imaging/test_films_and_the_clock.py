"""The clock of films: a picture is there when it was taken, its report when it was finished; another future changes
neither. And what is drawn, reported and labelled is one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pydicom", reason="needs the extra [imaging]")

from wardround.audits import audit_leaks, audit_swap
from wardround.audits.outcome_swap import placement_of
from wardround.audits.swap import load_swap_table, write_swapped
from wardround.core import to_microseconds
from wardround.records import Chart, Store, ingest, load_source_spec
from wardround.synth.radiographs import draw_phantom, findings_of, labels_of
from wardround.tasks.benchmarks.clinseek_mm import build
from wardround.tasks.benchmarks.clinseek_mm.build import possible_film_questions
from wardround.tasks.benchmarks.other_futures import differing_answers
from wardround.tools.imaging import ChartImages, ImageFolder, read_radiograph


def films(store: Store, table: str = "cxr_images") -> list[dict[str, Any]]:
    return [row for _, rows in store.scan(table) for row in rows.to_pylist()]


def between(store: Store) -> list[tuple[int, datetime]]:
    """For each subject the moment when its first film was taken and nothing is reported of it yet."""
    first: dict[int, datetime] = {}
    for row in films(store):
        first[row["subject_id"]] = min(row["acquired"], first.get(row["subject_id"], row["acquired"]))
    return [(subject, taken + timedelta(minutes=1)) for subject, taken in first.items()]


def test_a_picture_comes_before_its_report_and_its_labels_with_it(film_store: Store) -> None:
    reports = {row["study_id"]: row for row in films(film_store, "cxr_reports")}
    compared = 0
    for film in films(film_store):
        report = reports[film["study_id"]]
        if report["storetime"] is None or report["storetime"] <= film["acquired"]:
            continue
        taken, before, after = (
            film_store.chart(film["subject_id"], moment)
            for moment in (film["acquired"], report["storetime"] - timedelta(seconds=1), report["storetime"])
        )
        assert film["row_id"] in taken.table("cxr_images").batch.column("row_id").to_pylist()
        for chart, there in ((before, False), (after, True)):
            for table in ("cxr_reports", "cxr_labels"):
                known = chart.table(table).batch.column("study_id").to_pylist()
                labelled = table == "cxr_reports" or labels_of(_finding(report["text"]))
                assert (film["study_id"] in known) is (there and bool(labelled)), table
        compared += 1
    assert compared > 8


def _finding(text: str) -> str:
    return text.partition("FINDINGS: \n \n")[2].partition("\n")[0]


def test_picture_report_and_labels_say_one_thing(film_store: Store, film_hospital: Path) -> None:
    reports = {row["study_id"]: _finding(row["text"]) for row in films(film_store, "cxr_reports")}
    labels: dict[int, dict[str, int]] = {}
    for row in films(film_store, "cxr_labels"):
        labels.setdefault(row["study_id"], {})[row["finding"]] = int(row["value"])
    notes = " ".join(row["text"] for row in films(film_store, "radiology"))
    for film in films(film_store):
        said = reports[film["study_id"]]
        assert labels.get(film["study_id"], {}) == labels_of(said)
        assert said.split(". ")[0].rstrip(".") in notes
        drawn = draw_phantom(findings_of(said), seed=int(film["dicom_id"][:8], 16))
        file = next((film_hospital / "cxr" / "files").rglob(f"{film['dicom_id']}.dcm"))
        assert np.abs(read_radiograph(file.read_bytes()).pixels - drawn.pixels / 4095).max() < 1e-6


def test_nothing_of_a_later_picture_or_report_is_seen(film_store: Store, film_hospital: Path) -> None:
    folder = ImageFolder(film_hospital / "cxr" / "files")

    def differing_pictures(shown: Chart, other: Chart) -> Iterator[str]:
        here, there = ChartImages(shown, folder), ChartImages(other, folder)
        if here.entries() != there.entries():
            yield "other images are there"
        for one, two in zip(here.entries(), there.entries(), strict=False):
            if here.data(one) != there.data(two):
                yield f"{one.handle} is another picture"

    moments = between(film_store)
    report = audit_swap(film_store, moments, film_hospital, charts=[differing_answers, differing_pictures])
    assert report.clean, report.as_text()
    assert not [name for name in report.uncovered if name.startswith("cxr")]
    found = audit_leaks(film_store, moments, raw_folder=film_hospital)
    assert found.clean, found.as_text()


def test_another_outcome_asks_the_same_of_films(
    film_store: Store, film_hospital: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every question about films that was settled by a moment in intensive care is asked in both futures."""
    moments = {row["subject_id"]: row["intime"] + timedelta(hours=30) for row in films(film_store, "icustays")} | dict(
        between(film_store)[::3]
    )
    copies, _ = write_swapped(
        load_swap_table("mimiciv"), [film_hospital], tmp_path / "raw", moments, placement=placement_of(film_store)
    )
    ingest("mimiciv", copies, tmp_path / "store")
    other = Store.open(tmp_path / "store")
    here, there = possible_film_questions(film_store, moments)[0], possible_film_questions(other, moments)[0]
    assert sum(here.values()) > 10
    assert {one[0] for one in here} >= {"clinseek-mm.mortality_24h", "clinseek-mm.finding_change"}
    assert not _settled_in_one(here, there)

    monkeypatch.setattr(build, "derive_seed", _hour_by_length(film_store))
    here = possible_film_questions(film_store, moments)[0]
    monkeypatch.setattr(build, "derive_seed", _hour_by_length(other))
    assert _settled_in_one(here, possible_film_questions(other, moments)[0])


def _hour_by_length(store: Store) -> Callable[..., int]:
    """The fault put back: which hour is asked hangs on how long the stay will be."""

    def hour(seed: int, what: str, subject: int, begun: int) -> int:
        stays = store.rows(subject, "icustays").to_pylist()
        (length,) = [row["outtime"] - row["intime"] for row in stays if to_microseconds(row["intime"]) == begun]
        return int(length / timedelta(hours=2))

    return hour


def _settled_in_one(here: dict[tuple[str, int, str], bool], there: dict[tuple[str, int, str], bool]) -> set[str]:
    return {question[0] for question in here.keys() ^ there.keys() if (here | there)[question]}


def test_the_swap_sees_a_report_that_is_shown_too_early(film_store: Store, film_hospital: Path, tmp_path: Path) -> None:
    """The fault put back: a report counts as known when its film was taken, as the published clock has it."""
    folder = tmp_path / "spec"
    folder.mkdir()
    right = 'available_at = "first(storetime, shift(end_of_day(charttime), 1440))"'
    for name, text in load_source_spec("mimiciv").files.items():
        (folder / name).write_text(text.replace(right, 'available_at = "charttime"'), encoding="utf-8")
    ingest(load_source_spec(folder), film_hospital, tmp_path / "store")
    report = audit_swap(Store.open(tmp_path / "store"), between(film_store)[:6], film_hospital)
    assert not report.clean
