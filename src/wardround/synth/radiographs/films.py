"""Chest radiographs of the synthetic hospital: rows and DICOM files."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wardround.core import Progress, Reporter, UserError, content_hash, needs_extra, silent
from wardround.synth.imaging import Exam
from wardround.synth.output import quoted
from wardround.synth.person import at_minute, stamp
from wardround.synth.radiographs.phantom import draw_phantom, findings_of, labels_of
from wardround.synth.subject_writer import SubjectWriter

# Rows about chest radiographs: picture, report and labels of the examinations that notes are written of.
#
# Ids are hashes of person and time, so no id reveals the number of films or later ones.


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


# Writing the films of a hospital as DICOM files, from its own tables: the films show what the report states.
#
# ``cxr/files/p10/p10000032/s50414267/<dicom_id>.dcm``, as MIMIC-CXR lays them out.


_FINDINGS = "FINDINGS: \n \n"
_SPACING_MM = 0.8
"""Of a film of 512 pixels: a detector 41 cm wide."""


def write_films(hospital: Path, *, report: Reporter = silent) -> int:
    """Draw the film of every row of ``cxr_images``; return how many. UserError: no such tables, no pydicom."""
    says = {row["study_id"]: _finding(row["text"]) for row in _rows(hospital / "cxr" / "cxr_reports")}
    rows = list(_rows(hospital / "cxr" / "cxr_images"))
    for done, row in enumerate(rows, 1):
        path = film_path(hospital / "cxr" / "files", row)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_film(path, row, says[row["study_id"]])
        report(Progress(label="films", done=done, total=len(rows), unit="films"))
    return len(rows)


def film_path(folder: Path, row: Mapping[str, str]) -> Path:
    """Return where the file of a row lies below a folder."""
    subject, study = row["subject_id"], row["study_id"]
    return folder / f"p{subject[:2]}" / f"p{subject}" / f"s{study}" / f"{row['dicom_id']}.dcm"


def _finding(text: str) -> str:
    return text.partition(_FINDINGS)[2].partition("\n")[0]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    plain, packed = path.with_suffix(".csv"), path.with_suffix(".csv.gz")
    if not plain.exists() and not packed.exists():
        raise UserError(f"{path.parent.parent}: {plain.name} is missing; make the hospital with --films")
    text = (plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())).decode("utf-8")
    yield from csv.DictReader(io.StringIO(text))


def _write_film(path: Path, row: Mapping[str, str], finding: str) -> None:
    phantom = draw_phantom(findings_of(finding), seed=int(row["dicom_id"][:8], 16), size=int(row["height"]))
    dataset = _dataset(row)
    dataset.Rows, dataset.Columns = phantom.pixels.shape
    dataset.PixelData = phantom.pixels.tobytes()
    dataset.save_as(path, enforce_file_format=True)


def _dataset(row: Mapping[str, str]) -> Any:
    """Return the headers of a film. Names and numbers in it are invented; no tool may repeat them."""
    with needs_extra("imaging", what="writing films"):
        from pydicom.dataset import Dataset, FileMetaDataset
        from pydicom.uid import ExplicitVRLittleEndian, generate_uid
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.SOPClassUID = "1.2.840.10008.5.1.4.1.1.1.1"  # digital X-ray, for presentation
    dataset.SOPInstanceUID = row["sop_instance_uid"]
    dataset.StudyInstanceUID = generate_uid(entropy_srcs=[row["study_id"], "study"])
    dataset.SeriesInstanceUID = generate_uid(entropy_srcs=[row["study_id"], "series"])
    dataset.PatientID, dataset.PatientName = row["subject_id"], f"INVENTED^{row['subject_id']}"
    dataset.StudyID = row["study_id"]
    day, _, clock = row["acquired"].partition(" ")
    dataset.StudyDate, dataset.StudyTime = day.replace("-", ""), clock.replace(":", "")
    dataset.Modality, dataset.BodyPartExamined, dataset.ViewPosition = "DX", "CHEST", row["view_position"]
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 16, 12, 11, 0
    dataset.WindowCenter, dataset.WindowWidth = 2048, 4096
    dataset.ImagerPixelSpacing = [_SPACING_MM, _SPACING_MM]
    dataset.BurnedInAnnotation = "NO"
    return dataset
