"""What image tools work with, opened once for many charts: where images come from, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wardround.imaging.chart_images import ChartImages
from wardround.imaging.settings import ImageSettings
from wardround.imaging.source import ImageFolder, ImageSource
from wardround.records import Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Imaging:
    """An open source of images (None: there are only the record's rows about them) and the settings."""

    source: ImageSource | None = None
    settings: ImageSettings = field(default_factory=ImageSettings)

    def of(self, chart: Chart, subject: str) -> ChartImages:
        """Return the images of a chart; ``subject`` is what the source of the records calls its person."""
        return ChartImages(chart, self.source, subject=subject, settings=self.settings)

    def close(self) -> None:
        """Release the source."""
        if self.source is not None:
            self.source.close()


def open_images(settings: ImageSettings) -> Imaging:
    """Open what ``images.source`` names. UserError: there is no such folder."""
    source = None if settings.source is None else ImageFolder(Path(settings.source))
    return Imaging(source=source, settings=settings)
