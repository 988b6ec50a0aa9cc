"""Rows about chest radiographs: picture, report and labels of the examinations that notes are written of.

Ids are hashes of who and when, so none says how many there are or what comes after.
"""

from __future__ import annotations

from collections.abc import Iterable

from wardround.core import content_hash
from wardround.synth.clock import at_minute, stamp
from wardround.synth.imaging import Exam
from wardround.synth.radiographs.findings import labels_of
from wardround.synth.subject_writer import SubjectWriter
from wardround.synth.table_lines import quoted

CHEST = "chest_xray"
SIZE = 512
"""Pixels, both ways."""
_HEX_GROUPS = 5


def write_film_rows(writer: SubjectWriter, exams: Iterable[tuple[Exam, int | None]]) -> None:
    """Write the rows of the chest films among some examinations; with each the moment its report was finished."""
    for exam, stored in exams:
        if exam.key == CHEST:
            _write(writer, exam, stored)


def _write(writer: SubjectWriter, exam: Exam, stored: int | None) -> None:
    subject = writer.subject.subject_id
    name = content_hash(["film", writer.seed, subject, exam.moment])
    study = 50_000_000 + int(name[40:48], 16) % 10_000_000
    dicom = "-".join(name[8 * part : 8 * part + 8] for part in range(_HEX_GROUPS))
    when = stamp(exam.moment)
    writer.add("cxr_images")(f"{subject},{study},{dicom},{when},AP,{SIZE},{SIZE},{instance_uid(dicom)}\n")
    known = "" if stored is None else stamp(at_minute(stored))
    writer.add("cxr_reports")(f"{subject},{study},{when},{known},{quoted(_report(exam))}\n")
    for label, value in labels_of(exam.finding).items():
        writer.add("cxr_labels")(f"{subject},{study},{label},{value}\n")


def instance_uid(dicom_id: str) -> str:
    """Return the SOP instance UID of a film, made of its id (the 2.25 root holds any number of 128 bits)."""
    return f"2.25.{int(dicom_id.replace('-', '')[:32], 16)}"


def _report(exam: Exam) -> str:
    first = exam.finding.split(". ")[0].rstrip(".")
    return f"FINDINGS: \n \n{exam.finding}\n \nIMPRESSION: \n \n{first}.\n"
