"""The images of a chart: one subject's, as of a moment. A handle is a row id; nothing else opens a file.

An image that was not taken yet, or is another subject's, is not there, and neither name nor path can reach it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wardround.core import Sealed, ToolFailure, unsealed
from wardround.core.suggestions import unknown
from wardround.imaging.abilities import Abilities
from wardround.imaging.radiograph import Radiograph
from wardround.imaging.reading import read_radiograph
from wardround.imaging.settings import ImageSettings
from wardround.imaging.source import ImageName, ImageSource
from wardround.imaging.windows import GreyWindow
from wardround.records import Chart, ImageRole

_KEPT = 4
"""Images whose bytes a session keeps: several tools look at the same one."""
_SETTINGS = ImageSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartImage:
    """One image that was there at the chart's moment. ``handle`` is what tools take."""

    handle: str
    study: str
    view: str
    taken: datetime | None
    name: ImageName


class ChartImages:
    """Opens the images of a chart from a source; ``abilities`` are what can be made out on them."""

    def __init__(
        self,
        chart: Chart,
        source: ImageSource | None,
        *,
        subject: str = "",
        settings: ImageSettings = _SETTINGS,
        abilities: Abilities | None = None,
    ) -> None:
        self.chart = chart
        self.settings = settings
        self.abilities = abilities or Abilities()
        self._source = None if source is None else Sealed(source)
        self._subject = subject or str(chart.subject_id)
        self._entries: dict[str, ChartImage] | None = None
        self._read: dict[str, bytes] = {}

    @property
    def roles(self) -> tuple[ImageRole, ...]:
        """The tables of images that this chart has."""
        return tuple(role for role in self.chart.spec.roles.image if role.table in self.chart.table_names)

    def entries(self) -> tuple[ChartImage, ...]:
        """Every image that is there, in the order of the tables."""
        if self._entries is None:
            self._entries = {entry.handle: entry for role in self.roles for entry in self._of(role)}
        return tuple(self._entries.values())

    def find(self, handle: str) -> ChartImage:
        """Return the image of a handle. ToolFailure names those there are."""
        wanted = handle.strip().strip("\"'`[]")
        entries = {entry.handle: entry for entry in self.entries()}
        for entry in entries.values():
            if wanted in (entry.handle, entry.name.image):
                return entry
        if not entries:
            raise ToolFailure(f"there is no image {handle!r}: none was taken of this person up to now.")
        raise ToolFailure(unknown("image", handle, list(entries)) + " Handles are the row ids of its table.")

    def open(self, entry: ChartImage, *, window: GreyWindow | None = None, frame: int = 1) -> Radiograph:
        """Return an image's pixels as they are meant to be seen. ToolFailure: it cannot be had or read."""
        return read_radiograph(self.data(entry), window=window, frame=frame)

    def data(self, entry: ChartImage) -> bytes:
        """Return the file's bytes."""
        found = self._read.get(entry.handle)
        if found is None:
            if self._source is None:
                raise ToolFailure("no image files are connected to this session, only what the record says of them.")
            found = unsealed(self._source).read(self.find(entry.handle).name)
            while len(self._read) >= _KEPT:
                self._read.pop(next(iter(self._read)), None)
            self._read[entry.handle] = found
        return found

    def close(self) -> None:
        """Forget what was read; the source belongs to whoever opened it."""
        self._read.clear()

    def _of(self, role: ImageRole) -> list[ChartImage]:
        table = self.chart.table(role.table)
        return [self._entry(role, row) for row in table.batch.to_pylist()]

    def _entry(self, role: ImageRole, row: dict[str, Any]) -> ChartImage:
        times = [row[name] for name in role.time if isinstance(row.get(name), datetime)]
        study = _text(row, role.study)
        return ChartImage(
            handle=row["row_id"],
            study=study,
            view=_text(row, role.view),
            taken=times[0] if times else None,
            name=ImageName(
                subject=self._subject, image=_text(row, role.id), study=study, instance=_text(row, role.instance)
            ),
        )


def _text(row: dict[str, Any], column: str | None) -> str:
    value = None if column is None else row.get(column)
    return "" if value is None else str(value)
