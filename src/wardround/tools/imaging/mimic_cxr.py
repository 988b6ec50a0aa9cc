"""Convert the release of MIMIC-CXR into the three tables that are ingested beside MIMIC-IV.

The release has dates and times as two numbers, the times without their zeros; reports as files, in folders or in one
archive; labels in a wide table; and no time at which a report was finished. That time comes from MIMIC-IV-Note, if it
has a radiology note of the same person at the same minute; otherwise it stays empty.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from wardround.core import UserError, private_folder

_METADATA, _LABELS = "mimic-cxr-2.0.0-metadata", "mimic-cxr-2.0.0-chexpert"
_REPORTS = "mimic-cxr-reports.zip"
_IMAGES = ("subject_id", "study_id", "dicom_id", "acquired", "view_position", "height", "width", "sop_instance_uid")
_TEXTS = ("subject_id", "study_id", "charttime", "storetime", "text")
_FINDINGS = ("subject_id", "study_id", "finding", "value")
_Row = Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class PreparedRelease:
    """What was written, and what could not be: rows by table, and reasons with their numbers."""

    rows: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


def prepare_mimic_cxr(release: Path, out: Path, *, notes: Path | None = None) -> PreparedRelease:
    """Write ``cxr_images``, ``cxr_reports`` and ``cxr_labels`` below ``out``. ``notes`` is the file ``radiology`` of
    MIMIC-IV-Note. Raises UserError if the release's metadata is missing."""
    metadata = _file(release, _METADATA)
    if metadata is None:
        raise UserError(f"{release}: {_METADATA}.csv.gz is missing; give the folder of MIMIC-CXR or MIMIC-CXR-JPG")
    private_folder(out)
    found, images = PreparedRelease(), []
    studies: dict[tuple[str, str], datetime] = {}
    for row in _rows(metadata):
        study_time = study_moment(row.get("StudyDate", ""), row.get("StudyTime", ""))
        if study_time is None:
            found.left_out["pictures without a readable date and time"] += 1
            continue
        key = (row["subject_id"], row["study_id"])
        studies[key] = min(study_time, studies.get(key, study_time))
        view, size = row.get("ViewPosition", ""), (row.get("Rows", ""), row.get("Columns", ""))
        images.append((*key, row["dicom_id"], str(study_time), view, *size, row.get("SOPInstanceUID", "")))
    _write(out / "cxr_images.csv", _IMAGES, images, found)
    _write(out / "cxr_reports.csv", _TEXTS, _reports(release, studies, _finished(notes, studies), found), found)
    _write(out / "cxr_labels.csv", _FINDINGS, _labels(release, studies), found)
    return found


def study_moment(day: str, clock: str) -> datetime | None:
    """Read ``21800506`` and ``83000.171`` (half past eight) as a time; None if they are none.

    >>> study_moment("21800506", "83000.171")
    datetime.datetime(2180, 5, 6, 8, 30)
    """
    whole = clock.partition(".")[0].rjust(6, "0")
    try:
        return datetime.strptime(f"{day} {whole}", "%Y%m%d %H%M%S")
    except ValueError:
        return None


def _reports(
    release: Path,
    studies: Mapping[tuple[str, str], datetime],
    finished: Mapping[tuple[str, str], tuple[str, str]],
    found: PreparedRelease,
) -> Iterator[tuple[str, ...]]:
    read = _report_reader(release)
    for (subject, study), study_time in studies.items():
        text = read(f"files/p{subject[:2]}/p{subject}/s{study}.txt")
        if text is None:
            found.left_out["examinations without a report"] += 1
            continue
        written, added = finished.get((subject, study_time.strftime("%Y-%m-%d %H:%M")), ("", ""))
        stored = added if "addendum" in text.casefold() else written
        if not stored:
            found.left_out["reports whose time is not known (they count from the end of the next day on)"] += 1
        yield subject, study, str(study_time), stored, text.strip()


def _report_reader(release: Path) -> Callable[[str], str | None]:
    archive = release / _REPORTS
    if not archive.is_file():
        return lambda name: _text(release / name)
    reports = zipfile.ZipFile(archive)
    names = set(reports.namelist())
    return lambda name: reports.read(name).decode("utf-8", "replace") if name in names else None


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def _finished(
    notes: Path | None, studies: Mapping[tuple[str, str], datetime]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Return when radiology notes were finished, by person and minute: the report and the last addendum. Of two reports
    in one minute the later one counts."""
    people = {subject for subject, _ in studies}
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for row in _rows(notes) if notes is not None else ():
        stored = row.get("storetime", "")
        if row["subject_id"] in people and stored:
            key = (row["subject_id"], row["charttime"][:16])
            written, added = found.get(key, ("", ""))
            is_addendum = row.get("note_type") == "AR"
            found[key] = (written if is_addendum else max(written, stored), max(added, stored))
    return found


def _labels(release: Path, studies: Mapping[tuple[str, str], datetime]) -> Iterator[tuple[str, ...]]:
    file = _file(release, _LABELS)
    for row in _rows(file) if file is not None else ():
        if (row["subject_id"], row["study_id"]) in studies:
            findings = ((name, value) for name, value in row.items() if name not in ("subject_id", "study_id"))
            yield from ((row["subject_id"], row["study_id"], name, value) for name, value in findings if value)


def _file(folder: Path, stem: str) -> Path | None:
    return next((path for ending in (".csv.gz", ".csv") if (path := folder / f"{stem}{ending}").is_file()), None)


def _rows(path: Path) -> Iterator[_Row]:
    if not path.is_file():
        raise UserError(f"{path}: the file is missing")
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))


def _write(path: Path, header: tuple[str, ...], rows: Iterable[tuple[str, ...]], found: PreparedRelease) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row in rows:
            writer.writerow(row)
            found.rows[path.stem] += 1
