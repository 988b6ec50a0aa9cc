"""What image tools work with, opened once for many charts: where images come from, and how they are shown."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from wardround.core import UserError
from wardround.models import DataUseGuard
from wardround.records import Chart
from wardround.tools.imaging.networks import Abilities, OpenModel
from wardround.tools.imaging.settings import ImageSettings
from wardround.tools.imaging.source import ChartImages, DicomWeb, ImageFolder, ImageSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Imaging:
    """An open source of images (None: only the record's rows on images), the settings, and the available abilities."""

    source: ImageSource | None = None
    settings: ImageSettings = field(default_factory=ImageSettings)
    abilities: Abilities = field(default_factory=Abilities)

    def of(self, chart: Chart, subject: str) -> ChartImages:
        """Return the images of a chart; ``subject`` is what the source of the records calls its person."""
        return ChartImages(chart, self.source, subject=subject, settings=self.settings, abilities=self.abilities)

    def close(self) -> None:
        """Release the source."""
        if self.source is not None:
            self.source.close()


def open_images(
    settings: ImageSettings, guard: DataUseGuard | None = None, *, opened: OpenModel | None = None
) -> Imaging:
    """Open the image source and models of the settings; ``opened`` opens the models that read images.

    Raises UserError if the folder is missing, or if the guard refuses to send images to an endpoint. Without a guard
    images stay on this machine."""
    guard = guard or DataUseGuard()
    abilities = Abilities(settings, guard, opened=opened)
    abilities.check()
    return Imaging(source=_source(settings, guard), settings=settings, abilities=abilities)


def _source(settings: ImageSettings, guard: DataUseGuard) -> ImageSource | None:
    """Return a folder or a server. A server learns whose images are requested, so the data-use guard is checked
    first."""
    if settings.source is None or not settings.is_served:
        return None if settings.source is None else ImageFolder(Path(settings.source))
    guard.check(settings.source)
    variable = settings.authorization_variable
    authorization = None if variable is None else os.environ.get(variable)
    if variable is not None and not authorization:
        raise UserError("the environment variable that images.authorization_variable names is not set")
    return DicomWeb(settings.source, authorization=authorization)
