"""A newer release of the synthetic hospital in every source's form: the store that reading everything makes."""

from __future__ import annotations

import csv
import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from effort import often
from wardround.records import IngestSettings, Store, ingest
from wardround.records.ingest.sections import DERIVATIONS, admission_sections
from wardround.records.shards.layout import CHANGES
from wardround.synth import DIALECTS, synthesize, time_zone_of, write_dialect

SETTINGS = IngestSettings(shards=2)
_OF_THE_WAY = ("manifest.json", CHANGES, "origin/notes.json")


def rewritten(path: Path, gone: str, shorter: str) -> None:
    """Take one subject out of a file, and the last row of another."""
    with gzip.open(path, "rt", newline="") as lines:
        head, *rows = csv.reader(lines)
    if "subject_id" not in head:
        return
    column = head.index("subject_id")
    places = [place for place, row in enumerate(rows) if row[column] == shorter]
    dropped = places[-1:] if path.name.startswith(("labevents", "poe", "diagnoses", "discharge.")) else []
    kept = [row for place, row in enumerate(rows) if row[column] != gone and place not in dropped]
    with gzip.open(path, "wt", newline="") as target:
        csv.writer(target).writerows([head, *kept])


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two releases of MIMIC-IV's form; in the second a person is gone, and another has fewer rows."""
    folder = tmp_path_factory.mktemp("releases")
    synthesize(folder / "before", patients=often(6, 30), seed=2, decoys=False)
    shutil.copytree(folder / "before", folder / "after")
    with gzip.open(folder / "before" / "hosp" / "patients.csv.gz", "rt", newline="") as lines:
        people = [row["subject_id"] for row in csv.DictReader(lines)]
    for path in sorted((folder / "after").glob("*/*.csv.gz")):
        rewritten(path, people[0], people[-1])
    return folder / "before", folder / "after"


def written(store: Path) -> dict[str, bytes]:
    files = {path.relative_to(store).as_posix(): path for path in store.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name not in _OF_THE_WAY}


@pytest.mark.parametrize("form", DIALECTS)
def test_every_form_s_newer_release_is_the_store_of_reading_everything(
    releases: tuple[Path, Path], form: str, tmp_path: Path
) -> None:
    for name, hospital in zip(("before", "after"), releases, strict=True):
        write_dialect(form, hospital, tmp_path / name)
    settings = replace(SETTINGS, time_zone=time_zone_of(form))
    old = ingest(form, tmp_path / "before", tmp_path / "old", settings=settings)
    whole = ingest(form, tmp_path / "after", tmp_path / "whole", settings=settings)
    made = ingest(form, tmp_path / "after", tmp_path / "new", settings=settings, earlier=tmp_path / "old")
    assert Store.open(tmp_path / "new").digest == Store.open(tmp_path / "whole").digest
    assert written(tmp_path / "new") == written(tmp_path / "whole")
    assert (made.rows, made.never_visible, made.orphans) == (whole.rows, whole.never_visible, whole.orphans)
    assert made.made_from is not None
    assert made.made_from.subjects["gone"] - made.made_from.subjects["new"] == old.subjects - whole.subjects
    assert made.made_from.subjects["gone"] > 0
    same = ingest(form, tmp_path / "before", tmp_path / "same", settings=settings, earlier=tmp_path / "old")
    assert same.made_from is not None
    assert same.made_from.subjects["same"] == old.subjects
    assert written(tmp_path / "same") == written(tmp_path / "old")


def note_texts(folder: Path, *people: str) -> list[str]:
    with gzip.open(folder / "note" / "discharge.csv.gz", "rt", newline="") as lines:
        return [row["text"] for row in csv.DictReader(lines) if not people or row["subject_id"] in people]


@pytest.mark.parametrize("broken", [False, True])
def test_only_notes_of_changed_people_are_derived_again_unless_some_note_could_not_be_read(
    releases: tuple[Path, Path], broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note that is set aside may still have a history, so that the derived rows do not follow from the kept notes."""
    before, after = releases[0], tmp_path / "after"
    shutil.copytree(releases[1], after)
    if broken:
        with gzip.open(after / "note" / "discharge.csv.gz", "at", newline="") as target:
            csv.writer(target).writerow(["x-DS-1", "no number", "", "DS", "1", "", "", "Chief Complaint: none"])
    old = ingest("mimiciv", before, tmp_path / "old", settings=SETTINGS)
    whole = ingest("mimiciv", after, tmp_path / "whole", settings=SETTINGS)
    derived: list[str] = []

    def counted(text: str) -> str:
        derived.append(text)
        return admission_sections(text)

    monkeypatch.setitem(DERIVATIONS, "admission_sections", counted)  # type: ignore[arg-type]
    made = ingest("mimiciv", after, tmp_path / "new", settings=SETTINGS, earlier=tmp_path / "old")
    assert written(tmp_path / "new") == written(tmp_path / "whole")
    assert (made.filled, made.rows_read, made.quarantined) == (whole.filled, whole.rows_read, whole.quarantined)
    assert made.rows_read["admission_note"] < old.rows_read["admission_note"]
    with gzip.open(before / "hosp" / "patients.csv.gz", "rt", newline="") as lines:
        people = [row["subject_id"] for row in csv.DictReader(lines)]
    everybody, some = note_texts(after), [people[0], people[-1]]
    if broken:
        assert len(derived) == len(everybody) - 1
    else:
        changed = note_texts(before, *some) + note_texts(after, *some)
        assert sorted(derived) == sorted(changed)
        assert len(changed) < len(everybody)
