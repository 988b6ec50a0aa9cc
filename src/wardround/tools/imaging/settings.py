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
    )
    authorization_variable: str | None = setting(
        None,
        "environment variable that holds what a DICOMweb server wants as Authorization",
        unit="name of a variable",
    )
    models: str | None = setting(
        None, "folder of installed imaging weights (wardround models list); none: no networks", unit="folder"
    )
    report_model: str | None = setting(
        None, "a vision model that writes reports for chest_xray_report_generator, e.g. openai/medgemma-4b"
    )
    report_url: str | None = setting(None, "its endpoint", unit="URL")
    grounding_model: str | None = setting(
        None, "a vision model that finds phrases for xray_phrase_grounding, e.g. openai/maira-2"
    )
    grounding_url: str | None = setting(None, "its endpoint", unit="URL")
    longest_edge: int = setting(
        1568,
        "the longer side of a picture that a model is shown",
        unit="pixels",
        source="ClinSeekAgent, table 8",
        least=64,
    )

    @property
    def is_served(self) -> bool:
        """Return whether the pictures are on an image server."""
        return self.source is not None and self.source.startswith(("http://", "https://"))

    def resolved(self) -> ImageSettings:
        """Return the same with absolute folders."""
        source = self.source if self.source is None or self.is_served else str(Path(self.source).resolve())
        return replace(self, source=source, models=None if self.models is None else str(Path(self.models).resolve()))

    def __post_init__(self) -> None:
        check_settings(self)
