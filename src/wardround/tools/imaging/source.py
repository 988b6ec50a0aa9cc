"""Where images come from: a folder or a DICOMweb server, opened once for many charts; the images of one chart."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import httpx2

from wardround.core import Sealed, ToolFailure, UserError, unsealed
from wardround.core.errors import unknown
from wardround.models import DataUseGuard
from wardround.models.guard import environment_proxy, parse_endpoint, tls_context
from wardround.records import Chart, ImageRole
from wardround.tools.imaging.networks import Abilities, ImageSettings, OpenModel
from wardround.tools.imaging.radiograph import GreyWindow, Radiograph
from wardround.tools.imaging.reading import read_radiograph

# Where image files come from: a folder. The name of a file comes from the record, never from a model.


MOST_BYTES = 256 * 1024 * 1024
"""The largest file that is read. A film of 14 bits has about 25 MB, a plain CT slice half of one."""
_SUFFIXES = (".dcm", ".png", ".jpg", ".jpeg", "")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
FILE_MISSING = "the file of this image is not there; its row and its report are all there is."


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageName:
    """What the record calls an image. ``subject`` is as the source has it; what it does not say is empty."""

    subject: str
    image: str
    study: str = ""
    instance: str = ""


class ImageSource(Protocol):
    """Gives the bytes of an image by what the record calls it."""

    def read(self, name: ImageName) -> bytes:
        """Return a whole file. Raises ToolFailure if it is missing, unavailable or too large."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class ImageFolder:
    """A folder of files named by their images, laid out as MIMIC-CXR does or anyhow. Safe to share between threads."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UserError(f"images: the folder {str(root)!r} is missing; name the folder with the image files")
        self.root = root
        self._by_name: dict[str, Path] | None = None
        self._looking = threading.Lock()

    def read(self, name: ImageName) -> bytes:
        """Return a file's bytes."""
        path = self._find(name)
        if path is None:
            raise ToolFailure(FILE_MISSING)
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise ToolFailure(f"the file of this image cannot be read ({error.strerror}).") from error
        if len(data) > MOST_BYTES:
            raise ToolFailure(f"the file of this image is larger than {MOST_BYTES:,} bytes and is not opened.")
        return data

    def close(self) -> None:
        """Close nothing: no file stays open."""

    def _find(self, name: ImageName) -> Path | None:
        """Return the usual path, else any file with that name."""
        if not _PLAIN.fullmatch(name.image):
            return None
        for place in _places(self.root, name):
            for suffix in _SUFFIXES:
                path = place / f"{name.image}{suffix}"
                if path.is_file():
                    return path
        return self._anywhere().get(name.image)

    def _anywhere(self) -> dict[str, Path]:
        with self._looking:
            if self._by_name is None:
                files = (path for path in sorted(self.root.rglob("*")) if path.suffix.lower() in _SUFFIXES)
                self._by_name = {path.stem: path for path in files if path.is_file()}
            return self._by_name


def _places(root: Path, name: ImageName) -> Iterator[Path]:
    """MIMIC-CXR: ``files/p10/p10000032/s50414267``."""
    if _PLAIN.fullmatch(name.subject) and _PLAIN.fullmatch(name.study):
        folder = Path(f"p{name.subject[:2]}") / f"p{name.subject}" / f"s{name.study}"
        yield root / folder
        yield root / "files" / folder
    yield root


# Images from a DICOMweb server: found by QIDO-RS, fetched by WADO-RS (PS3.18), one instance at a time.
#
# A request to a server uses the record's UID of an image, and the reply must be the subject's own. The server learns
# the subject's number in doing so: the data-use guard decides which servers may.


_STUDY, _SERIES, _INSTANCE, _PATIENT = "0020000D", "0020000E", "00080018", "00100020"
_UID = re.compile(r"[0-9.]{3,64}")
_BOUNDARY = re.compile(r'boundary="?([^";]{1,200})"?', re.IGNORECASE)
_ACCEPT = 'multipart/related; type="application/dicom"; transfer-syntax=*'
_MOST_JSON = 1024 * 1024
_SECONDS = 30.0
_SECONDS_IN_ALL = 300.0


class DicomWeb:
    """A DICOMweb server, by its base URL. Safe to share between threads."""

    def __init__(self, base_url: str, *, authorization: str | None = None) -> None:
        self.base_url = base_url.rstrip("/")
        headers = {} if authorization is None else {"Authorization": authorization}
        url = parse_endpoint(self.base_url)
        self._client = httpx2.Client(
            timeout=_SECONDS,
            headers=headers,
            follow_redirects=False,
            verify=tls_context(url),
            trust_env=False,  # the guard and the client must mean the same proxy; no password of a ~/.netrc
            proxy=environment_proxy(url),
        )
        self._found: dict[tuple[str, str], str] = {}
        self._finding = threading.Lock()

    def read(self, name: ImageName) -> bytes:
        """Return the file of an instance."""
        if not _UID.fullmatch(name.instance):
            raise ToolFailure("the record does not say what the image server calls this image.")
        path = self._found.get((name.subject, name.instance)) or self._look_up(name)
        body, kind = self._get(path, accept=_ACCEPT, most=MOST_BYTES)
        return _first_part(body, kind)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _look_up(self, name: ImageName) -> str:
        """Ask where an instance lies; it counts only if it is this subject's."""
        query = f"/instances?SOPInstanceUID={name.instance}&PatientID={name.subject}&includefield={_PATIENT}"
        body, _ = self._get(query, accept="application/dicom+json", most=_MOST_JSON)
        found = _own(_decoded(body), name)
        if found is None:
            raise ToolFailure(FILE_MISSING)
        path = f"/studies/{_value(found, _STUDY)}/series/{_value(found, _SERIES)}/instances/{name.instance}"
        with self._finding:
            self._found[name.subject, name.instance] = path
        return path

    def _get(self, path: str, *, accept: str, most: int) -> tuple[bytes, str]:
        try:
            with self._client.stream("GET", f"{self.base_url}{path}", headers={"Accept": accept}) as reply:
                if reply.status_code in (204, 404):
                    raise ToolFailure(FILE_MISSING)
                if reply.status_code != 200:
                    raise ToolFailure(f"the image server answers with status {reply.status_code}.")
                body = _bounded(reply, most, time.monotonic() + _SECONDS_IN_ALL)
                return body, str(reply.headers.get("content-type", ""))
        except httpx2.HTTPError as error:
            raise ToolFailure(f"the image server cannot be asked ({type(error).__name__}).") from error


def _bounded(reply: Any, most: int, deadline: float) -> bytes:
    """Return the decoded body, up to a limit. A compressed body may be larger than what was sent, and a server may be
    slow."""
    parts, size = [], 0
    for part in reply.iter_bytes():
        size += len(part)
        if size > most:
            raise ToolFailure(f"the image server sent more than {most:,} bytes; the image is not opened.")
        if time.monotonic() > deadline:
            raise ToolFailure(f"the image server took longer than {_SECONDS_IN_ALL:g} s; the image is not opened.")
        parts.append(part)
    return b"".join(parts)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body or b"[]")
    except (ValueError, RecursionError) as error:
        raise ToolFailure("the image server's answer is no JSON.") from error


def _own(found: Any, name: ImageName) -> Mapping[str, Any] | None:
    """Return the requested instance; None if another instance was found."""
    for one in found if isinstance(found, list) else ():
        if not isinstance(one, dict) or _value(one, _INSTANCE) != name.instance:
            continue
        is_located = _UID.fullmatch(_value(one, _STUDY)) and _UID.fullmatch(_value(one, _SERIES))
        if is_located and _value(one, _PATIENT) == name.subject:
            return one
    return None


def _value(one: Mapping[str, Any], tag: str) -> str:
    element = one.get(tag)
    values = element.get("Value") if isinstance(element, dict) else None
    return str(values[0]) if isinstance(values, list) and values else ""


def _first_part(body: bytes, kind: str) -> bytes:
    """Return the first part of a multipart body (RFC 2046). A server may also send the file itself."""
    if not kind.lower().startswith("multipart/related"):
        return body
    boundary = _BOUNDARY.search(kind)
    mark = b"--" + boundary.group(1).encode() if boundary else b""
    _, opened, rest = body.partition(mark) if mark else (b"", b"", b"")
    _, blank, content = rest.partition(b"\r\n\r\n")
    end = content.find(b"\r\n" + mark) if mark else -1
    if not opened or not blank or end < 0:
        raise ToolFailure("the image server's answer is cut off or no multipart body.")
    return content[:end]


# The images of a chart: one subject's, as of a moment. A handle is a row id; nothing else opens a file.
#
# An image that was not taken yet, or is another subject's, is hidden: neither its name nor its path can reach it.


_KEPT = 4
"""Images whose bytes a session keeps: several tools look at the same one."""
_SETTINGS = ImageSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartImage:
    """One image that was available at the chart's moment. ``handle`` is its name in tools."""

    handle: str
    study: str
    view: str
    taken_at: datetime | None
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
        """Return every image that is available, in the order of the tables."""
        if self._entries is None:
            rows = ((role, row) for role in self.roles for row in self.chart.table(role.table).batch.to_pylist())
            self._entries = {entry.handle: entry for entry in (self._entry(role, row) for role, row in rows)}
        return tuple(self._entries.values())

    def find(self, handle: str) -> ChartImage:
        """Return the image of a handle. Raises ToolFailure with the known handles."""
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
        """Clear the cache; the opener of the source closes it."""
        self._read.clear()

    def _entry(self, role: ImageRole, row: dict[str, Any]) -> ChartImage:
        times = [row[name] for name in role.time if isinstance(row.get(name), datetime)]
        study = _text(row, role.study)
        return ChartImage(
            handle=row["row_id"],
            study=study,
            view=_text(row, role.view),
            taken_at=times[0] if times else None,
            name=ImageName(
                subject=self._subject, image=_text(row, role.id), study=study, instance=_text(row, role.instance)
            ),
        )


def _text(row: dict[str, Any], column: str | None) -> str:
    value = None if column is None else row.get(column)
    return "" if value is None else str(value)


# What image tools work with, opened once for many charts: where images come from, and how they are shown.


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
