"""Files nobody should trust: each ends in one line for the model, before anything large is made."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pydicom", reason="needs the extra [imaging]")
pytest.importorskip("PIL", reason="needs the extra [imaging]")

from dicom_files import JPEG_2000, JPEG_LS, RLE, film, written
from PIL import Image

from wardround.core import ToolFailure
from wardround.tools.imaging import ImageFolder, read_radiograph, reading
from wardround.tools.imaging.dicom import claimed_size
from wardround.tools.imaging.source import ImageName


def refused(data: bytes) -> str:
    with pytest.raises(ToolFailure) as failure:
        read_radiograph(data)
    text = str(failure.value)
    assert "\n" not in text
    assert len(text) < 200
    return text


def test_dimensions_and_frames_that_would_fill_the_memory() -> None:
    for name, value in (("Rows", 60_000), ("Columns", 0), ("NumberOfFrames", "999999")):
        dataset = film()
        dataset.Columns = 60_000 if name == "Rows" else dataset.Columns
        setattr(dataset, name, value)
        assert "not opened" in refused(written(dataset)) or "damaged" in refused(written(dataset))


@pytest.mark.parametrize("syntax", [JPEG_2000, JPEG_LS])
def test_compressed_pixels_that_claim_another_size_are_never_decoded(syntax: str) -> None:
    data = written(film(), syntax)
    small, large = (96).to_bytes(4, "big") * 2, (50_000).to_bytes(4, "big") * 2
    if syntax == JPEG_LS:
        small, large = (96).to_bytes(2, "big") * 2, (50_000).to_bytes(2, "big") * 2
    assert small in data
    assert "its headers 96 x 96" in refused(data.replace(small, large, 1))


def test_truncated_files_at_every_length() -> None:
    whole = written(film(8), RLE)
    for length in (*range(0, 400, 23), *range(400, len(whole) - 60, 911)):
        refused(whole[:length])


def test_noise_in_the_place_of_a_file() -> None:
    dice = np.random.default_rng(1)
    for start in (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", bytes(128) + b"DICM", written(film())[:300]):
        refused(start + dice.bytes(2000))


def test_foreign_syntaxes_are_named() -> None:
    video = written(film()).replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.4.100\0"[:20])
    assert "not read here" in refused(video)
    deflated = (
        bytes(128) + b"DICM" + written(film())[132:400].replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.1.")
    )
    assert "not read here" in refused(deflated + zlib.compress(bytes(10_000)))


def test_a_dicom_file_without_pixels() -> None:
    dataset = film()
    del dataset.PixelData
    assert refused(written(dataset)) == "this DICOM file holds no pixels."


def test_png_bombs_and_pictures_of_16_bits() -> None:
    bomb = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(bomb, "PNG")
    assert "not opened" in refused(bomb.getvalue())
    deep = io.BytesIO()
    Image.fromarray(np.array([[0, 65535]], np.uint16)).save(deep, "PNG")
    assert read_radiograph(deep.getvalue()).pixels.tolist() == [[0.0, 1.0]]


_SIZE = b"\x00\x0b\x08\x01\x00\x02\x00\x01\x11"
"""The head of a frame of 256 rows and 512 columns."""
_SIZ = b"\xff\x4f\xff\x51\x00\x29\x00\x00" + struct.pack(">IIII", 612, 300, 100, 44)


@pytest.mark.parametrize(
    ("frame", "size"),
    [
        (b"\xff\xd8\xff\xc0" + _SIZE, (256, 512)),
        (b"\xff\xd8\xff\xf7" + _SIZE, (256, 512)),  # JPEG-LS
        (b"\xff\xd8\xff\xe0\x00\x04xx\xff\xc3" + _SIZE, (256, 512)),
        (b"\xff\xd8\xff\x01\xff\xd0\xff\xff\xff\xc0" + _SIZE, (256, 512)),  # marks alone, and one that is filled up
        (b"\xff\xd8\xff\xc4\x00\x0b" + bytes(9) + b"\xff\xc0" + _SIZE, (256, 512)),  # a table is no frame
        (b"\xff\xd8" + b"\xff\xe0\x00\x02" * 255 + b"\xff\xc0" + _SIZE, (256, 512)),
        (b"\xff\xd8" + b"\xff\xe0\x00\x02" * 256 + b"\xff\xc0" + _SIZE, None),
        (b"\xff\xd8\xff\xc0" + _SIZE[:7], (256, 512)),
        (b"\xff\xd8\xff\xc0" + _SIZE[:6], None),
        (b"\xff\xd8\xfe\xc0" + _SIZE, None),
        (b"\xff\xd8\xff\xff\xff\xff", None),
        (_SIZ, (256, 512)),
        (_SIZ[:-1], None),
        (bytes(4_092) + _SIZ, (256, 512)),
        (bytes(4_093) + _SIZ, None),
        (b"nothing of the kind", None),
    ],
)
def test_the_size_that_a_codestream_claims(frame: bytes, size: tuple[int, int] | None) -> None:
    assert claimed_size(frame) == size


def test_a_folder_gives_only_what_lies_in_it_under_a_plain_name(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.dcm").write_bytes(b"secret")
    (tmp_path / "in" / "deep").mkdir()
    (tmp_path / "in" / "deep" / "one.dcm").write_bytes(b"found")
    folder = ImageFolder(tmp_path / "in")
    assert folder.read(ImageName(subject="1", image="one")) == b"found"
    for name in ("../secret", "/etc/passwd", "", "..", "a/b", "none"):
        with pytest.raises(ToolFailure, match="not there"):
            folder.read(ImageName(subject="../..", image=name, study="../.."))


def test_a_syntax_planted_before_the_head_is_not_believed() -> None:
    """The head begins at byte 132: an element in the preamble, or inside another, says nothing."""
    planted = b"\x02\x00\x10\x00UI\x14\x001.2.840.10008.1.2.1\0"
    deflated = written(film())[128:].replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.1.99"[:20])
    assert "not read here" in refused(planted.ljust(128, b"\0") + deflated)
    inside = b"\x02\x00\x02\x01OB\0\0" + (len(planted)).to_bytes(4, "little") + planted
    head = bytes(128) + b"DICM"
    assert "not read here" in refused(head + inside + deflated[4:])


def test_headers_made_to_fill_the_memory_end_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    frugal = replace(reading._READER, cpu_seconds=2, memory_bytes=2**29)
    monkeypatch.setattr(reading, "_READER", frugal)
    whole = written(film())
    items = b"\xfe\xff\x00\xe0\x00\x00\x00\x00" * 4_000_000
    sequence = b"\x28\x00\x00\x30SQ\0\0" + len(items).to_bytes(4, "little") + items  # of modality tables
    place = whole.index(b"\xe0\x7f\x10\x00OW")
    refused(whole[:place] + sequence + whole[place:])
    assert read_radiograph(whole).height == 96, "the next film is read as ever"
    frugal.close()


def test_a_file_without_preamble_is_read() -> None:
    whole = written(film())
    bare = read_radiograph(whole[132:])
    assert np.array_equal(bare.pixels, read_radiograph(whole).pixels)
