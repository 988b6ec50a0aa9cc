"""One phantom in 98 encodings looks the same; what a file can ask for is done as the standard says, by hand."""

from __future__ import annotations

import io

import numpy as np
import pytest

pytest.importorskip("pydicom", reason="needs the extra [imaging]")

from dicom_files import LOSSLESS_JPEG, PHANTOM, SYNTAXES, VIEWS, film, written
from pydicom.dataset import Dataset
from pydicom.filewriter import dcmwrite
from pydicom.pixels import apply_rescale, apply_windowing
from pydicom.sequence import Sequence

from extras import needs
from wardround.core import ToolFailure
from wardround.tools.imaging import GreyWindow, read_radiograph

pytestmark = needs("gdcm")
SHOWN = PHANTOM.pixels / 4095
ENCODINGS = [
    (syntax, photometric, bits, view)
    for syntax in SYNTAXES
    for photometric in ("MONOCHROME1", "MONOCHROME2")
    for bits, view in zip((8, 10, 12, 14, 16, 12, 12), VIEWS, strict=True)
]


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_the_same_film_looks_the_same_however_it_is_written(syntax: str) -> None:
    seen = [encoding for encoding in ENCODINGS if encoding[0] == syntax]
    assert len(ENCODINGS) >= 24
    for _, photometric, bits, view in seen:
        dataset = film(bits, photometric=photometric)
        VIEWS[view](dataset)
        read = read_radiograph(written(dataset, SYNTAXES[syntax]))
        exact = np.rint(SHOWN * (2**bits - 1)) / (2**bits - 1)
        assert read.pixels.dtype == np.float32
        assert np.abs(read.pixels - exact).max() < 1e-5, (photometric, bits, view)


def test_a_bright_lung_is_bright_and_air_is_dark() -> None:
    for photometric in ("MONOCHROME1", "MONOCHROME2"):
        read = read_radiograph(written(film(photometric=photometric)))
        left, right = (read.pixels[PHANTOM.masks[f"{side}_lung"]].mean() for side in ("left", "right"))
        assert left < 0.35 < right  # the right lung holds an opacity


def test_windows_are_the_formulas_of_the_standard() -> None:
    values = np.array([[0, 40, 41, 60, 100]], np.float32)
    linear = GreyWindow(center=50, width=20).apply(values)
    assert linear[0].tolist() == pytest.approx([0, 0, (41 - 49.5) / 19 + 0.5, 1, 1])  # C.11.2.1.2.1, by hand
    exact = GreyWindow(center=50, width=20, function="LINEAR_EXACT").apply(values)
    assert exact[0].tolist() == pytest.approx([0, 0, 0.05, 1, 1])
    curve = GreyWindow(center=50, width=20, function="SIGMOID").apply(values)
    assert curve[0].tolist() == pytest.approx([1 / (1 + np.exp(-4 * (v - 50) / 20)) for v in (0, 40, 41, 60, 100)])


def test_the_first_of_two_windows_is_used_and_both_are_known_of() -> None:
    dataset = film()
    VIEWS["two windows"](dataset)
    assert read_radiograph(written(dataset)).window == "WHOLE: center 2048, width 4096 (the first of 2)"


def test_a_sigmoid_file_is_shown_by_its_curve() -> None:
    dataset = film()
    dataset.WindowCenter, dataset.WindowWidth, dataset.VOILUTFunction = 2000, 800, "SIGMOID"
    read = read_radiograph(written(dataset))
    stored = PHANTOM.pixels.astype(np.float64)
    assert np.abs(read.pixels - 1 / (1 + np.exp(-4 * (stored - 2000) / 800))).max() < 1e-5


def test_another_window_takes_the_place_of_the_files_own() -> None:
    dataset = film()
    VIEWS["one window"](dataset)
    read = read_radiograph(written(dataset), window=GreyWindow(center=1000, width=2))
    assert set(np.unique(read.pixels)) <= {0.0, 0.5, 1.0}
    assert np.array_equal(read.pixels == 1.0, PHANTOM.pixels > 1000)


def test_a_presentation_table_is_applied_last() -> None:
    dataset = film()
    item = Dataset()
    item.LUTDescriptor = [256, 0, 8]
    item.LUTData = np.arange(255, -1, -1, dtype=np.uint16).tobytes()
    item["LUTData"].VR = "OW"
    dataset.PresentationLUTSequence = Sequence([item])
    read = read_radiograph(written(dataset))
    assert np.abs(read.pixels - (1 - SHOWN)).max() <= 0.5 / 255 + 1e-6


def test_frames_are_shown_one_by_one() -> None:
    dataset = film()
    other = 4095 - PHANTOM.pixels
    dataset.NumberOfFrames = 2
    dataset.PixelData = PHANTOM.pixels.tobytes() + other.tobytes()
    for syntax in ("explicit", "RLE", "JPEG-LS"):
        data = written(film_of(dataset), SYNTAXES[syntax])
        assert np.abs(read_radiograph(data, frame=2).pixels - other / 4095).max() < 1e-5
        assert read_radiograph(data).frames == 2
        with pytest.raises(ToolFailure, match="there is no frame 3"):
            read_radiograph(data, frame=3)


def film_of(dataset: Dataset) -> Dataset:
    copied = film()
    copied.NumberOfFrames, copied.PixelData = dataset.NumberOfFrames, dataset.PixelData
    return copied


def test_filling_round_the_film_is_black_and_sets_no_range() -> None:
    pixels = PHANTOM.pixels.copy()
    pixels[0, 0], pixels[0, -1] = pixels[5, 5], pixels[5, 5]
    dataset = film(pixels=pixels, photometric="MONOCHROME1")
    stored = np.frombuffer(dataset.PixelData, np.uint16).reshape(pixels.shape).copy()
    stored[:4] = 0
    dataset.PixelData, dataset.PixelPaddingValue = stored.tobytes(), 0
    read = read_radiograph(written(dataset))
    assert not read.pixels[:4].any()
    assert read.pixels[4:].max() == pytest.approx(1.0)


def test_only_the_size_in_the_body_is_a_size() -> None:
    dataset = film()
    dataset.ImagerPixelSpacing = [0.2, 0.2]
    detector = read_radiograph(written(dataset))
    assert detector.spacing_mm is None
    assert any("only the detector's" in remark for remark in detector.remarks)
    dataset = film()
    dataset.PixelSpacing = [0.25, 0.5]
    assert read_radiograph(written(dataset)).spacing_mm == (0.25, 0.5)


def test_headers_that_somebody_wrote_are_never_told() -> None:
    dataset = film()
    dataset.ViewPosition, dataset.BodyPartExamined = "PA", "call 4711"
    dataset.StudyDescription, dataset.AccessionNumber = "CANARY", "4711"
    told = read_radiograph(written(dataset)).tags
    assert set(told) == {"Modality", "ViewPosition", "Rows", "Columns", "BitsStored", "PhotometricInterpretation"}


def test_lossless_jpeg_really_is_what_the_matrix_reads() -> None:
    assert LOSSLESS_JPEG.encode() in written(film(), LOSSLESS_JPEG)[:1000]


@pytest.mark.parametrize("name", ["implicit", "explicit"])
def test_a_data_set_without_any_head_is_read_as_pydicom_forces_it(name: str) -> None:
    whole = film()
    buffer = io.BytesIO()
    del whole.file_meta
    dcmwrite(buffer, whole, implicit_vr=name == "implicit", little_endian=True, enforce_file_format=False)
    bare = buffer.getvalue()
    assert bare[:2] == b"\x08\x00"
    assert np.array_equal(read_radiograph(bare).pixels, read_radiograph(written(film())).pixels)


@pytest.mark.parametrize("data", [b"\x08\x00" + bytes(200), b"\x08\x00\x05\x00CS" + b"\xff" * 90, b"\x08\x00"])
def test_what_only_begins_like_a_data_set_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(ToolFailure, match=r"damaged|no DICOM"):
        read_radiograph(data)


def test_an_overlay_is_mentioned() -> None:
    plain, drawn = film(), film()
    drawn.add_new((0x6002, 0x0010), "US", 96)
    drawn.add_new((0x6002, 0x0011), "US", 96)
    drawn.add_new((0x6002, 0x3000), "OW", bytes(96 * 96 // 8))
    assert not any("overlay" in remark for remark in read_radiograph(written(plain)).remarks)
    assert any("overlay" in remark and "not shown" in remark for remark in read_radiograph(written(drawn)).remarks)


def test_a_window_in_the_image_s_own_units_counts_slope_and_intercept() -> None:
    """A CT's values of air, water and bone, stored from 0: a soft-tissue window shows what pydicom's own steps show."""
    dataset = film(12, pixels=np.array([[0, 24], [1024, 1064], [1224, 4000]]) * 4095 / 4095)
    dataset.RescaleSlope, dataset.RescaleIntercept, dataset.RescaleType = 1, -1024, "HU"
    shown = read_radiograph(written(dataset), window=GreyWindow(center=40, width=400)).pixels
    stored = np.frombuffer(dataset.PixelData, "<u2").reshape(3, 2).astype(float)
    dataset.WindowCenter, dataset.WindowWidth = 40, 400
    expected = apply_windowing(apply_rescale(stored, dataset), dataset)
    assert np.abs(shown - (expected - expected.min()) / np.ptp(expected)).max() < 1e-5
    assert shown[0].tolist() == [0.0, 0.0]
    assert 0 < shown[1, 0] < shown[1, 1] < shown[2, 0] < shown[2, 1] == 1.0
