"""FHIR files as a stream of resources: NDJSON line by line, a bundle or a single resource as a whole."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, wraps
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import msgspec

from wardround.core import RecordError
from wardround.records.specs.wall_clock import SHORTEST_TIME, WallClock

# Elements of resources, decoded once: the same few thousand codes, references and times come again and again. Elements
# of equal bytes are one object, with what was read of it (:func:`once`). Nothing of it may be changed.


Json = dict[str, Any]
T = TypeVar("T")
_LONGEST = 1_000
"""Longer elements (in bytes) are texts, which do not come again."""
_MOST = 16_384
_DECODER = msgspec.json.Decoder()


class Element(dict[str, Any]):
    """An element that contains elements."""

    __slots__ = ("readings",)
    readings: dict[Any, Any]


class ElementList(list[Any]):
    """A repeated element."""

    __slots__ = ("readings",)
    readings: dict[Any, Any]


def once(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """Call a function of an element once for each element that is kept; one that raises is called again."""

    @wraps(function)
    def read(element: Any) -> T:
        if type(element) is not Element and type(element) is not ElementList:
            return function(element)
        try:
            found: T = element.readings[function]
            return found
        except KeyError:
            pass
        except AttributeError:
            element.readings = {}
        found = element.readings[function] = function(element)
        return found

    return read


class Elements:
    """Decodes elements; their times are hospital local time where a clock is given."""

    def __init__(self, clock: WallClock | None = None) -> None:
        self._clock = clock
        self._known: dict[bytes, Any] = {}

    def decoded(self, elements: Mapping[str, msgspec.Raw]) -> Json:
        """Decode the elements of a resource. MsgspecError, UnicodeDecodeError: something is not JSON."""
        known = self._known.get
        found = {}
        for name, raw in elements.items():
            element = bytes(raw)
            value = known(element)
            found[name] = self._new(element) if value is None else value
        return found

    def _new(self, element: bytes) -> Any:
        value = self.kept(_DECODER.decode(element))
        if len(element) <= _LONGEST:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[element] = value
        return value

    def kept(self, value: Any) -> Any:
        """Return an element as one that is kept, with its times as local time."""
        kind = type(value)
        if kind is str:
            return value if self._clock is None else self._clock.text(value)
        kept = self.kept
        if kind is dict:
            short = SHORTEST_TIME
            return Element(
                {n: each if type(each) is str and len(each) < short else kept(each) for n, each in value.items()}
            )
        return ElementList([kept(each) for each in value]) if kind is list else value


LARGEST_BUNDLE = 512 << 20
"""A bundle is read whole; beyond this many bytes of JSON it is refused, NDJSON has no such limit."""
_BUFFER = 1 << 18
_TYPE = b'"resourceType"'


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One resource and its place; ``full_urls``: other names of its bundle's resources (url -> Type/id). ``reason``:
    why there is no resource."""

    file: Path
    line: int
    resource: Json = {}
    full_urls: dict[str, str] = {}
    reason: str = ""
    raw: str = ""


_Undecoded = Mapping[str, msgspec.Raw]
"""A resource whose elements are still bytes."""


class _Entry(msgspec.Struct):
    """An entry of a bundle."""

    full_url: str | None = msgspec.field(default=None, name="fullUrl")
    resource: dict[str, msgspec.Raw] | None = None


_RESOURCE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRIES = msgspec.json.Decoder(list[_Entry])


def read_resources(file: Path, elements: Elements, *, of: Collection[str] | None = None) -> Iterator[Found]:
    """Yield the resources of a file in order. ``of``: only those of these types. RecordError: the file is truncated or
    damaged."""
    try:
        with _open(file) as stream:
            if file.name.lower().removesuffix(".gz").endswith(".ndjson"):
                yield from _lines(file, stream, elements, of)
            else:
                yield from _whole(file, stream, elements, of)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordError(f"{file}: the file is truncated or damaged ({error})") from None


def _open(file: Path) -> IO[bytes]:
    if not file.name.lower().endswith(".gz"):
        return file.open("rb")
    return io.BufferedReader(cast(Any, gzip.open(file, "rb")), _BUFFER)  # lines are cut in C


def _lines(file: Path, stream: IO[bytes], elements: Elements, of: Collection[str] | None) -> Iterator[Found]:
    for number, line in enumerate(stream, 1):
        if of is not None and not _mentions(line, *of):
            continue
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if text:
            yield from parsed_resources(file, number, text, elements, of=of)


def _mentions(line: bytes, *types: str) -> bool:
    """Return whether a line has a resource of a type, or a bundle."""
    pattern, place = _naming(*types), line.find(_TYPE)
    while place >= 0 and pattern.match(line, place) is None:
        place = line.find(_TYPE, place + 1)
    return place >= 0


@cache
def _naming(*types: str) -> re.Pattern[bytes]:
    return re.compile(_TYPE + rb'\s*:\s*"(?:%s|Bundle)"' % "|".join(types).encode())


def _whole(file: Path, stream: IO[bytes], elements: Elements, of: Collection[str] | None) -> Iterator[Found]:
    text = stream.read(LARGEST_BUNDLE + 1).removeprefix(b"\xef\xbb\xbf")
    if len(text) > LARGEST_BUNDLE:
        reason = f"larger than {LARGEST_BUNDLE >> 20} MiB of JSON; export it as NDJSON"
        yield Found(file=file, line=0, reason=reason)
    elif text.strip():
        yield from parsed_resources(file, 0, text, elements, of=of)


def parsed_resources(
    file: Path, line: int, text: bytes, elements: Elements, *, of: Collection[str] | None = None
) -> Iterable[Found]:
    """Return the resource of a line, or those of its bundle; for invalid content the reason."""
    try:
        return _decoded(file, line, text, elements, of)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _parsed(file, line, text, elements)  # what this decoder refuses may still be JSON to another


def _decoded(file: Path, line: int, text: bytes, elements: Elements, of: Collection[str] | None) -> list[Found]:
    """Decode resources as FHIR servers write them. MsgspecError, UnicodeDecodeError, RecursionError: they are not."""
    undecoded = _RESOURCE.decode(text)
    if bytes(undecoded.get("resourceType", b"")) != b'"Bundle"':
        return [Found(file=file, line=line, resource=_typed(elements.decoded(undecoded)))]
    entries = _ENTRIES.decode(undecoded["entry"]) if "entry" in undecoded else []
    full_urls: dict[str, str] = {}
    bodies = []
    for number, entry in enumerate(entries, 1):
        if entry.resource is None:  # a response or a request without a body, such as a DELETE
            continue
        body = _typed(elements.decoded(entry.resource if of is None else _named(entry.resource)))
        if entry.full_url is not None:
            full_urls[entry.full_url] = _name(body, entry.full_url)
        if of is not None and body["resourceType"] in of:
            body = {**elements.decoded(entry.resource), **body}
        if of is None or body["resourceType"] in of:
            bodies.append((number, body))
    return [Found(file=file, line=number, resource=body, full_urls=full_urls) for number, body in bodies]


def _typed(resource: Json) -> Json:
    if not isinstance(resource.get("resourceType"), str) or resource["resourceType"] == "Bundle":
        raise msgspec.ValidationError("no type of a resource")
    return resource


def _named(undecoded: _Undecoded) -> _Undecoded:
    """Return what names a resource."""
    return {name: undecoded[name] for name in ("resourceType", "id") if name in undecoded}


def _name(resource: Json, url: str) -> str:
    """Return ``Type/id``; a resource without an id gets that of its url, as a server that stores a transaction would
    do."""
    resource.setdefault("id", url.rpartition("/")[2].rpartition(":")[2])
    return f"{resource['resourceType']}/{resource['id']}"


def _parsed(file: Path, line: int, text: bytes, elements: Elements) -> Iterator[Found]:
    try:
        body = json.loads(text)
        json.dumps(body, ensure_ascii=False).encode()  # half a character ("\\ud800") can be written nowhere
    except (ValueError, RecursionError) as error:
        yield Found(file=file, line=line, reason=f"not JSON: {error}", raw=text[:2_000].decode("utf-8", "replace"))
        return
    if isinstance(body, dict) and body.get("resourceType") == "Bundle":
        yield from _entries(file, line, body, elements)
    else:
        yield _resource(file, line, body, {}, elements)


def _entries(file: Path, line: int, bundle: Json, elements: Elements) -> Iterator[Found]:
    """Yield a bundle's resources; ``line`` is the number of the entry."""
    entries = bundle.get("entry", [])
    if not isinstance(entries, list):
        yield Found(file=file, line=line, reason="the bundle's entry is no list", raw=str(entries)[:200])
        return
    full_urls: dict[str, str] = {}
    for entry in entries:
        resource = entry.get("resource") if isinstance(entry, dict) else None
        url = entry.get("fullUrl") if isinstance(entry, dict) else None
        if isinstance(resource, dict) and isinstance(url, str) and isinstance(resource.get("resourceType"), str):
            full_urls[url] = _name(resource, url)
    for number, entry in enumerate(entries, 1):
        body = entry.get("resource") if isinstance(entry, dict) else None
        if body is None and isinstance(entry, dict):  # a response or a request without a body, such as a DELETE
            continue
        yield _resource(file, number, body, full_urls, elements)


def _resource(file: Path, line: int, body: object, full_urls: dict[str, str], elements: Elements) -> Found:
    if isinstance(body, dict) and isinstance(body.get("resourceType"), str):
        return Found(file=file, line=line, resource=elements.kept(body), full_urls=full_urls)
    return Found(file=file, line=line, reason="not a FHIR resource: it has no resourceType", raw=str(body)[:2_000])
