"""One phantom in many encodings, as real DICOM files."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian, generate_uid

from wardround.synth.radiographs import SeenFinding, draw_phantom
from wardround.tools.imaging.radiograph import pydicom

pydicom()  # files are written here with headers that it would complain of

PHANTOM = draw_phantom([SeenFinding("opacity", "right", 0.8)], seed=7, size=96)
"""12 bits, its whole range used."""
RLE, JPEG_LS, JPEG_2000 = "1.2.840.10008.1.2.5", "1.2.840.10008.1.2.4.80", "1.2.840.10008.1.2.4.90"
LOSSLESS_JPEG, EXPLICIT_BIG = "1.2.840.10008.1.2.4.70", "1.2.840.10008.1.2.2"
SYNTAXES = {
    "implicit": str(ImplicitVRLittleEndian),
    "explicit": str(ExplicitVRLittleEndian),
    "big endian": EXPLICIT_BIG,
    "RLE": RLE,
    "JPEG-LS": JPEG_LS,
    "JPEG 2000": JPEG_2000,
    "lossless JPEG": LOSSLESS_JPEG,
}


def film(bits: int = 12, *, photometric: str = "MONOCHROME2", pixels: Any = None) -> Dataset:
    """A film of the phantom with so many bits stored, without any window."""
    stored = (PHANTOM.pixels if pixels is None else pixels).astype(np.float64) / 4095 * (2**bits - 1)
    stored = np.rint(stored).astype(np.uint8 if bits <= 8 else np.uint16)
    if photometric == "MONOCHROME1":
        stored = (2**bits - 1) - stored
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.SOPClassUID, dataset.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.1.1", generate_uid(entropy_srcs=["film"])
    dataset.PatientID, dataset.PatientName = "4711", "CANARY^NAME"
    dataset.Modality, dataset.BodyPartExamined, dataset.ViewPosition = "DX", "CHEST", "PA"
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, photometric
    dataset.Rows, dataset.Columns = stored.shape
    dataset.BitsAllocated = 8 if bits <= 8 else 16
    dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = bits, bits - 1, 0
    dataset.PixelData = stored.tobytes()
    return dataset


def written(dataset: Dataset, syntax: str = str(ExplicitVRLittleEndian)) -> bytes:
    """The file's bytes in a transfer syntax."""
    if syntax in (RLE, JPEG_LS, JPEG_2000):
        dataset.compress(syntax, generate_instance_uid=False)
    elif syntax == LOSSLESS_JPEG:
        return _by_gdcm(written(dataset))
    elif syntax == EXPLICIT_BIG and dataset.BitsAllocated == 16:
        dataset.PixelData = np.frombuffer(dataset.PixelData, "<u2").astype(">u2").tobytes()
    dataset.file_meta.TransferSyntaxUID = syntax
    out = io.BytesIO()
    dataset.save_as(
        out,
        enforce_file_format=True,
        little_endian=syntax != EXPLICIT_BIG,
        implicit_vr=syntax == str(ImplicitVRLittleEndian),
    )
    return out.getvalue()


def _by_gdcm(data: bytes) -> bytes:
    """Lossless JPEG, which pydicom reads and does not write."""
    import tempfile
    from pathlib import Path

    import gdcm

    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "in.dcm", Path(folder) / "out.dcm"
        before.write_bytes(data)
        reader = gdcm.ImageReader()
        reader.SetFileName(str(before))
        assert reader.Read()
        change = gdcm.ImageChangeTransferSyntax()
        change.SetTransferSyntax(gdcm.TransferSyntax(gdcm.TransferSyntax.JPEGLosslessProcess14_1))
        change.SetInput(reader.GetImage())
        assert change.Change()
        writer = gdcm.ImageWriter()
        writer.SetFileName(str(after))
        writer.SetFile(reader.GetFile())
        writer.SetImage(change.GetOutput())
        assert writer.Write()
        return after.read_bytes()


def _whole_window(dataset: Dataset, function: str = "") -> None:
    """A window from the least to the largest value: what is seen is the whole range, as without one."""
    top = 2**dataset.BitsStored - 1
    center, width = (top / 2, top) if function == "LINEAR_EXACT" else ((top + 1) / 2, top + 1)
    dataset.WindowCenter, dataset.WindowWidth = center, width
    if function:
        dataset.VOILUTFunction = function


def _two_windows(dataset: Dataset) -> None:
    _whole_window(dataset)
    dataset.WindowCenter, dataset.WindowWidth = [dataset.WindowCenter, 40], [dataset.WindowWidth, 400]
    dataset.WindowCenterWidthExplanation = ["WHOLE", "NARROW"]


def _voi_table(dataset: Dataset) -> None:
    item = Dataset()
    count = 2**dataset.BitsStored
    item.LUTDescriptor = [count % 65536, 0, 16]
    item.LUTData = np.rint(np.arange(count) * (65535 / (count - 1))).astype("<u2").tobytes()
    item["LUTData"].VR = "OW"
    dataset.VOILUTSequence = Sequence([item])


def _rescaled(dataset: Dataset) -> None:
    dataset.RescaleSlope, dataset.RescaleIntercept, dataset.RescaleType = 2, -1000, "US"


def _inverse_presentation(dataset: Dataset) -> None:
    """Says of MONOCHROME1 what it says itself; a MONOCHROME2 film is stored the other way round then."""
    if dataset.PhotometricInterpretation == "MONOCHROME2":
        kind = np.uint8 if dataset.BitsAllocated == 8 else np.uint16
        stored = np.frombuffer(dataset.PixelData, kind)
        dataset.PixelData = (2**dataset.BitsStored - 1 - stored).astype(kind).tobytes()
    dataset.PresentationLUTShape = "INVERSE"


VIEWS: Mapping[str, Callable[[Dataset], None]] = {
    "no window": lambda dataset: None,
    "one window": _whole_window,
    "exact window": lambda dataset: _whole_window(dataset, "LINEAR_EXACT"),
    "two windows": _two_windows,
    "VOI table": _voi_table,
    "rescaled": _rescaled,
    "inverse presentation": _inverse_presentation,
}
"""Ways to say that the whole range is to be seen."""
