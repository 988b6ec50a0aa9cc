"""Real films of open collections, where they are here; nothing of them is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pydicom", reason="needs the extra [imaging]")

from wardround.tools.imaging import picture_of, read_radiograph


@pytest.fixture(scope="module")
def films(shared_data: Path) -> Path:
    folder = shared_data / "cxr-samples"
    if not folder.is_dir():
        pytest.skip("the open chest films are not here")
    return folder


def test_a_film_and_its_copy_labelled_monochrome1_are_each_others_negative(films: Path) -> None:
    plain, other = (
        read_radiograph((films / name).read_bytes())
        for name in ("1.2.276.0.7230010.3.1.4.8323329.6904.1517875201.850819.dcm", "Fake_MONOHR1.dcm")
    )
    assert np.abs(plain.pixels + other.pixels - 1.0).max() < 1e-5
    assert plain.tags["PhotometricInterpretation"] == "MONOCHROME2"


def test_every_film_becomes_a_picture_of_the_papers_size(films: Path) -> None:
    for path in sorted(films.glob("*.dcm")) + sorted(films.glob("*.png")):
        film = read_radiograph(path.read_bytes())
        assert 0.0 <= float(film.pixels.min()) < float(film.pixels.max()) <= 1.0
        picture = picture_of(film.pixels, path.stem)
        assert max(picture.width, picture.height) <= min(1568, max(film.width, film.height))
        assert not {"PatientID", "PatientName", "StudyDate"} & set(film.tags)
