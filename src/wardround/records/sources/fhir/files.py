"""FHIR files as a stream of resources: NDJSON line by line, a bundle or a single resource as a whole."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from wardround.core import RecordError

Json = dict[str, Any]
LARGEST_BUNDLE = 512 << 20
"""A bundle is read whole; beyond this many bytes of JSON it is refused, NDJSON has no such limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One resource and its place; ``full_urls``: other names of its bundle's resources (url -> Type/id). ``reason``:
    why there is no resource."""

    file: Path
    line: int
    resource: Json = field(default_factory=dict)
    full_urls: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    raw: str = ""


def read_resources(file: Path, *, holding: re.Pattern[bytes] | None = None) -> Iterator[Found]:
    """Yield the resources of a file in order. ``holding``: of NDJSON only lines with this text are parsed. RecordError:
    the file is truncated or damaged."""
    try:
        with _open(file) as stream:
            if file.name.lower().removesuffix(".gz").endswith(".ndjson"):
                yield from _lines(file, stream, holding)
            else:
                yield from _whole(file, stream)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordError(f"{file}: the file is truncated or damaged ({error})") from None


def _open(file: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(file, "rb") if file.name.lower().endswith(".gz") else file.open("rb"))


def _lines(file: Path, stream: IO[bytes], holding: re.Pattern[bytes] | None) -> Iterator[Found]:
    for number, line in enumerate(stream, 1):
        if holding is not None and holding.search(line) is None:
            continue
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if text:
            yield from parsed_resources(file, number, text)


def _whole(file: Path, stream: IO[bytes]) -> Iterator[Found]:
    text = stream.read(LARGEST_BUNDLE + 1).removeprefix(b"\xef\xbb\xbf")
    if len(text) > LARGEST_BUNDLE:
        reason = f"larger than {LARGEST_BUNDLE >> 20} MiB of JSON; export it as NDJSON"
        yield Found(file=file, line=0, reason=reason)
    elif text.strip():
        yield from parsed_resources(file, 0, text)


def parsed_resources(file: Path, line: int, text: bytes) -> Iterator[Found]:
    """Yield the resource of a line, or those of its bundle; for invalid content the reason."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield Found(file=file, line=line, reason=f"not JSON: {error}", raw=text[:2_000].decode("utf-8", "replace"))
        return
    if isinstance(body, dict) and body.get("resourceType") == "Bundle":
        yield from _entries(file, line, body)
    else:
        yield _resource(file, line, body, {})


def _entries(file: Path, line: int, bundle: Json) -> Iterator[Found]:
    """Yield a bundle's resources; ``line`` is the number of the entry. Resources without an id get that of their
    ``fullUrl``, as a server that stores a transaction would do."""
    entries = bundle.get("entry", [])
    if not isinstance(entries, list):
        yield Found(file=file, line=line, reason="the bundle's entry is no list", raw=str(entries)[:200])
        return
    full_urls: dict[str, str] = {}
    for entry in entries:
        resource = entry.get("resource") if isinstance(entry, dict) else None
        url = entry.get("fullUrl") if isinstance(entry, dict) else None
        if isinstance(resource, dict) and isinstance(url, str) and isinstance(resource.get("resourceType"), str):
            resource.setdefault("id", url.rpartition("/")[2].rpartition(":")[2])
            full_urls[url] = f"{resource['resourceType']}/{resource['id']}"
    for number, entry in enumerate(entries, 1):
        body = entry.get("resource") if isinstance(entry, dict) else None
        if body is None and isinstance(entry, dict):  # a response or a request without a body, such as a DELETE
            continue
        yield _resource(file, number, body, full_urls)


def _resource(file: Path, line: int, body: object, full_urls: dict[str, str]) -> Found:
    if isinstance(body, dict) and isinstance(body.get("resourceType"), str):
        return Found(file=file, line=line, resource=body, full_urls=full_urls)
    return Found(file=file, line=line, reason="not a FHIR resource: it has no resourceType", raw=str(body)[:2_000])
