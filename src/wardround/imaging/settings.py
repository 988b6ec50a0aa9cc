"""What a person may set of images: where they lie, and how large a model sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from wardround.core import check_settings, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """Where the pictures of a store are, and how they are shown."""

    source: str | None = setting(
        None,
        "where the pictures lie: a folder of DICOM, PNG or JPEG files, or a DICOMweb server's URL",
        unit="folder or URL",
        flag="--images",
    )
    longest_edge: int = setting(
        1568,
        "the longer side of a picture that a model is shown",
        unit="pixels",
        source="ClinSeekAgent, table 8",
        least=64,
    )

    @property
    def is_served(self) -> bool:
        """Whether the pictures are on an image server."""
        return self.source is not None and self.source.startswith(("http://", "https://"))

    def resolved(self) -> ImageSettings:
        """Return the same with an absolute folder."""
        if self.source is None or self.is_served:
            return self
        return replace(self, source=str(Path(self.source).resolve()))

    def __post_init__(self) -> None:
        check_settings(self)
