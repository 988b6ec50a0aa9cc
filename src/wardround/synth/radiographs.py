"""Invented chest radiographs, drawn from the examinations that the hospital's notes report: picture, report and labels
say one thing. Tables need nothing; drawing needs NumPy, writing DICOM files the extra ``[imaging]``.
"""

from __future__ import annotations

import csv
import gzip
import io
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wardround.core import Progress, Reporter, UserError, content_hash, needs_extra, silent
from wardround.synth.imaging import Exam
from wardround.synth.output import quoted
from wardround.synth.person import at_minute, stamp
from wardround.synth.subject_writer import SubjectWriter

# What a sentence about a chest means: CheXpert's labels, and what a picture of it shows (``radiographs.toml``).


class SeenFinding(NamedTuple):
    """One thing to draw: what, on whose side of the patient (``left``, ``right``, ``both``), how much of it, 0 to 1."""

    what: str
    side: str
    amount: float


@cache
def _catalog() -> Mapping[str, Any]:
    text = resources.files("wardround.synth").joinpath("radiographs.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def label_names() -> tuple[str, ...]:
    """Return CheXpert's fourteen labels, in its order."""
    return tuple(_catalog()["labels"])


def findings_of(text: str) -> tuple[SeenFinding, ...]:
    """Return what a picture of a finding's text shows. KeyError: a sentence that the catalog does not know."""
    return tuple(SeenFinding(*drawn) for says in _sentences(text) for drawn in says.get("draw", ()))


def labels_of(text: str) -> dict[str, int]:
    """Return CheXpert's labels of a finding's text: 1 present, 0 absent; what it does not mention is not in it.

    What one sentence finds, no other takes back.
    """
    found: dict[str, int] = {}
    for says in _sentences(text):
        for name, value in says.get("labels", {}).items():
            found[name] = max(value, found.get(name, 0))
    return {name: found[name] for name in label_names() if name in found}


def _sentences(text: str) -> Iterator[Mapping[str, Any]]:
    for sentence in text.split("."):
        if sentence.strip():
            yield _catalog()["says"][sentence.strip()]


# Drawing a chest: ellipses for lungs and heart, ribs, a diaphragm, and findings on top. Air is dark, bone bright.
#
# It looks like no patient's film, on purpose; its measurements have known answers. The picture's left is the
# patient's right, as on a film.


Pixels = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_BODY, _AIR, _HEART, _BONE, _FLUID, _METAL = 0.60, 0.20, 0.72, 0.12, 0.74, 0.97
_LUNG_PLACES = {"right": 0.32, "left": 0.68}
_LEVELS = 4095


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle in shares of the picture: 0 is left or top, 1 right or bottom."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def center(self) -> tuple[float, float]:
        """Across and down."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Phantom:
    """A drawn chest: 12-bit ``pixels`` from 0 to 4,095, the ``masks`` of its organs, the ``boxes`` of its findings."""

    pixels: npt.NDArray[np.uint16]
    masks: Mapping[str, Mask]
    boxes: Mapping[str, Box]

    @property
    def cardiothoracic_ratio(self) -> float:
        """The heart's width over the width of the chest inside its ribs."""
        chest = self.masks["left_lung"] | self.masks["right_lung"]
        return _width(self.masks["heart"]) / _width(chest | self.masks["heart"])


def draw_phantom(findings: Iterable[SeenFinding], *, seed: int, size: int = 512) -> Phantom:
    """Draw a chest that shows some findings; the same findings and seed give the same pixels."""
    drawing = _Drawing(size, findings)
    pixels = drawing.draw()
    noise = np.random.default_rng(seed).normal(0.0, 0.006, pixels.shape)
    pixels = np.clip(pixels + noise, 0.0, 1.0)
    pixels[0, 0], pixels[0, -1] = 0.0, 1.0  # the whole range is used, so that any full window shows the same
    return Phantom(
        pixels=np.rint(pixels * _LEVELS).astype(np.uint16),
        masks={"left_lung": drawing.lungs["left"], "right_lung": drawing.lungs["right"], "heart": drawing.heart},
        boxes=drawing.boxes,
    )


class _Drawing:
    """One chest while it is drawn. Coordinates run from 0 to 1."""

    def __init__(self, size: int, findings: Iterable[SeenFinding]) -> None:
        self.down, self.across = np.mgrid[0:size, 0:size] / (size - 1)
        self.findings = tuple(findings)
        height = 0.27 + 0.05 * self._amount("large_lungs") - 0.05 * self._amount("small_lungs")
        width = 0.115 + 0.05 * self._amount("large_heart")
        self.lungs = {side: self._ellipse(x, 0.45, 0.145, height) for side, x in _LUNG_PLACES.items()}
        self.heart = self._ellipse(0.54, 0.60, width, 0.13)
        self.bottom = 0.45 + height
        self.boxes: dict[str, Box] = {}
        if self._amount("large_heart"):
            self.boxes["large_heart"] = _box(self.heart)

    def draw(self) -> Pixels:
        """Return the picture, 0 black to 1 white."""
        picture = np.where(self._ellipse(0.5, 0.55, 0.44, 0.62), _BODY, 0.03)
        for lung in self.lungs.values():
            picture[lung] = _AIR
        ribs = np.sin(self.down * 60 + 6 * (self.across - 0.5) ** 2) > 0.86
        picture = np.where(ribs & (picture > 0.1), picture + _BONE, picture)
        picture[self.heart] = _HEART
        picture[np.abs(self.across - 0.5) < 0.035] = _HEART
        for finding in self.findings:
            paint = _PAINTED.get(finding.what)
            if paint is not None:
                for side in _LUNG_PLACES if finding.side == "both" else (finding.side,):
                    picture = paint(self, picture, side, finding.amount)
        return picture

    def effusion(self, picture: Pixels, side: str, amount: float) -> Pixels:
        """Fluid that fills a lung from below."""
        return self._paint(picture, self.lungs[side] & (self.down > self.bottom - 0.3 * amount), "effusion", side)

    def opacity(self, picture: Pixels, side: str, amount: float) -> Pixels:
        """Draw a round cloud in the lower part of a lung."""
        cloud = self._ellipse(_LUNG_PLACES[side], self.bottom - 0.16, 0.05 + 0.06 * amount, 0.05 + 0.06 * amount)
        return self._paint(picture, self.lungs[side] & cloud, "opacity", side)

    def band(self, picture: Pixels, side: str, amount: float) -> Pixels:
        """Draw a flat band of collapsed lung above the diaphragm."""
        place = (
            np.abs(self.down - (self.bottom - 0.1) - 0.1 * (self.across - _LUNG_PLACES[side])) < 0.006 + 0.01 * amount
        )
        return self._paint(picture, self.lungs[side] & place, "band", side)

    def haze(self, picture: Pixels, side: str, amount: float) -> Pixels:
        """Draw a veil over a whole lung, denser towards the middle."""
        veil = 0.32 * amount * np.exp(-(((self.across - 0.5) / 0.3) ** 2))
        self.boxes[f"haze {side}"] = _box(self.lungs[side])
        return np.where(self.lungs[side], np.minimum(picture + veil, _HEART), picture)

    def tube(self, picture: Pixels, side: str, amount: float) -> Pixels:
        """Draw a tube in the windpipe."""
        place = (np.abs(self.across - 0.5) < 0.006) & (self.down < 0.32)
        return self._paint(picture, place, "tube", "both", _METAL)

    def wires(self, picture: Pixels, side: str, amount: float) -> Pixels:
        """Loops of wire in the breast bone."""
        rows = np.sin(self.down * 80) > 0.93
        place = rows & (np.abs(self.across - 0.5) < 0.02) & (self.down > 0.3) & (self.down < 0.7)
        return self._paint(picture, place, "wires", "both", _METAL)

    def _paint(self, picture: Pixels, place: Mask, what: str, side: str, value: float = _FLUID) -> Pixels:
        self.boxes[f"{what} {side}"] = _box(place)
        return np.where(place, value, picture)

    def _ellipse(self, across: float, down: float, width: float, height: float) -> Mask:
        inside: Mask = ((self.across - across) / width) ** 2 + ((self.down - down) / height) ** 2 <= 1.0
        return inside

    def _amount(self, what: str) -> float:
        return max((finding.amount for finding in self.findings if finding.what == what), default=0.0)


_Paint = Callable[[_Drawing, Pixels, str, float], Pixels]
_PAINTED: Mapping[str, _Paint] = {
    "effusion": _Drawing.effusion,
    "opacity": _Drawing.opacity,
    "band": _Drawing.band,
    "haze": _Drawing.haze,
    "tube": _Drawing.tube,
    "wires": _Drawing.wires,
}
"""The findings that are painted over a chest; other findings change its shape."""


def _box(place: Mask) -> Box:
    rows, columns = np.nonzero(place)
    high, wide = place.shape
    edges = (columns.min() / wide, rows.min() / high, (columns.max() + 1) / wide, (rows.max() + 1) / high)
    left, top, right, bottom = map(float, edges)
    return Box(left=left, top=top, right=right, bottom=bottom)


def _width(place: Mask) -> int:
    columns = np.nonzero(place.any(axis=0))[0]
    return int(columns.max() - columns.min() + 1)


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
    impression = exam.finding.split(". ")[0].rstrip(".")
    report = f"FINDINGS: \n \n{exam.finding}\n \nIMPRESSION: \n \n{impression}.\n"
    writer.add("cxr_reports")(f"{subject},{study},{when},{known},{quoted(report)}\n")
    for label, value in labels_of(exam.finding).items():
        writer.add("cxr_labels")(f"{subject},{study},{label},{value}\n")


def instance_uid(dicom_id: str) -> str:
    """Return the SOP instance UID of a film, made of its id (the 2.25 root holds any number of 128 bits)."""
    return f"2.25.{int(dicom_id.replace('-', '')[:32], 16)}"


# Writing the films of a hospital as DICOM files, from its own tables: the films show what the report states.
#
# ``cxr/files/p10/p10000032/s50414267/<dicom_id>.dcm``, as MIMIC-CXR lays them out.


_FINDINGS = "FINDINGS: \n \n"
_SPACING_MM = 0.8
"""Of a film of 512 pixels: a detector 41 cm wide."""


def write_films(hospital: Path, *, report: Reporter = silent) -> int:
    """Draw the film of every row of ``cxr_images``; return how many. UserError: no such tables, no pydicom."""
    says = {
        row["study_id"]: row["text"].partition(_FINDINGS)[2].partition("\n")[0]
        for row in _rows(hospital / "cxr" / "cxr_reports")
    }
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
