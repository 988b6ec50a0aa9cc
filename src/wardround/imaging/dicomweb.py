"""Images from a DICOMweb server: found by QIDO-RS, fetched by WADO-RS (PS3.18), one instance at a time.

A server is asked by the UID that the record has of an image, and what it gives must be the subject's own. It learns the
subject's number in doing so: the data-use guard decides which servers may.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from typing import Any

import httpx2

from wardround.core import ToolFailure
from wardround.imaging.source import MOST_BYTES, NOT_THERE, ImageName
from wardround.models.guard import environment_proxy, is_loopback, parse_endpoint

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
            verify=httpx2.create_ssl_context(trust_env=not is_loopback(url)),
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
            raise ToolFailure(NOT_THERE)
        path = f"/studies/{_value(found, _STUDY)}/series/{_value(found, _SERIES)}/instances/{name.instance}"
        with self._finding:
            self._found[name.subject, name.instance] = path
        return path

    def _get(self, path: str, *, accept: str, most: int) -> tuple[bytes, str]:
        try:
            with self._client.stream("GET", f"{self.base_url}{path}", headers={"Accept": accept}) as reply:
                if reply.status_code in (204, 404):
                    raise ToolFailure(NOT_THERE)
                if reply.status_code != 200:
                    raise ToolFailure(f"the image server answers with status {reply.status_code}.")
                body = _bounded(reply, most, time.monotonic() + _SECONDS_IN_ALL)
                return body, str(reply.headers.get("content-type", ""))
        except httpx2.HTTPError as error:
            raise ToolFailure(f"the image server cannot be asked ({type(error).__name__}).") from error


def _bounded(reply: Any, most: int, deadline: float) -> bytes:
    """The decoded body, up to a limit: a compressed one may be larger than what came, and a server may drip."""
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
    """The instance that was asked for; None where what was found is another's."""
    for one in found if isinstance(found, list) else ():
        if not isinstance(one, dict) or _value(one, _INSTANCE) != name.instance:
            continue
        is_located = _UID.fullmatch(_value(one, _STUDY)) and _UID.fullmatch(_value(one, _SERIES))
        if is_located and _value(one, _PATIENT) == name.subject:
            return one
    return None


def _value(one: Mapping[str, Any], tag: str) -> str:
    held = one.get(tag)
    values = held.get("Value") if isinstance(held, dict) else None
    return str(values[0]) if isinstance(values, list) and values else ""


def _first_part(body: bytes, kind: str) -> bytes:
    """The first part of a multipart body (RFC 2046); a server may also send the file itself."""
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
