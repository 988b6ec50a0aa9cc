"""FHIR data types as plain cells: times, codes, quantities, dosages. A value of the wrong form raises Malformed."""

from __future__ import annotations

import base64
import binascii
import re
from calendar import monthrange
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cache, lru_cache
from math import isfinite
from typing import Any

from wardround.records.sources.fhir.files import Json, once

SYSTEMS = {
    "http://loinc.org": "LOINC",
    "http://snomed.info/sct": "SNOMED",
    "http://www.nlm.nih.gov/research/umls/rxnorm": "RxNorm",
    "http://hl7.org/fhir/sid/icd-10-cm": "ICD10CM",
    "http://hl7.org/fhir/sid/icd-10": "ICD10",
    "http://hl7.org/fhir/sid/icd-9-cm": "ICD9CM",
    "http://hl7.org/fhir/sid/icd-10-pcs": "ICD10PCS",
    "http://www.cms.gov/medicare/coding/icd10": "ICD10PCS",
    "http://www.ama-assn.org/go/cpt": "CPT4",
    "http://hl7.org/fhir/sid/cvx": "CVX",
    "http://hl7.org/fhir/sid/ndc": "NDC",
    "http://www.whocc.no/atc": "ATC",
    "urn:oid:2.16.840.1.113883.6.1": "LOINC",
    "urn:oid:2.16.840.1.113883.6.96": "SNOMED",
    "urn:oid:2.16.840.1.113883.6.88": "RxNorm",
    "urn:oid:2.16.840.1.113883.6.90": "ICD10CM",
    "urn:oid:2.16.840.1.113883.6.103": "ICD9CM",
    "http://mimic.mit.edu/fhir/mimic/codesystem/mimic-diagnosis-icd9": "ICD9CM",
    "http://mimic.mit.edu/fhir/mimic/codesystem/mimic-diagnosis-icd10": "ICD10CM",
    "http://mimic.mit.edu/fhir/mimic/codesystem/mimic-procedure-icd9": "ICD9Proc",
    "http://mimic.mit.edu/fhir/mimic/codesystem/mimic-procedure-icd10": "ICD10PCS",
    "http://mimic.mit.edu/fhir/mimic/codesystem/mimic-medication-ndc": "NDC",
}
"""Short names of code systems, those of the OMOP vocabularies; others are named by the last part of their url."""
ICD_VERSIONS = {"ICD9CM": 9, "ICD9Proc": 9, "ICD10CM": 10, "ICD10": 10, "ICD10PCS": 10}
_TAIL = re.compile(r"(?:\.(\d+))?")
_SHORT = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?")
_END_OF_DAY = time(23, 59, 59)


_ENDS = frozenset({"end", "deceasedDateTime", "abatementDateTime"})


class Malformed(ValueError):
    """An element is not as FHIR defines it; the text names it and says what was found."""


def part(body: Json, name: str) -> Json:
    """Return an element that contains elements; an empty one if it is missing."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"{name}: expected an object, found {str(value)[:80]!r}")
    return value


def parts(body: Json, name: str) -> list[Json]:
    """Return a repeated element; a single one where a list belongs counts as a list of one."""
    value = body.get(name)
    if not value:
        return []
    values: list[Any] = value if isinstance(value, list) else [value]
    for item in values:
        if not isinstance(item, dict):
            raise Malformed(f"{name}: expected objects, found {str(item)[:80]!r}")
    return values


def text(body: Json, name: str) -> str | None:
    """Return a text without outer spaces; None if it is empty."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) is str:
        return value.strip() or None
    if isinstance(value, bool | int | float):
        return str(value).lower()
    raise Malformed(f"{name}: expected a text, found {str(value)[:80]!r}")


def texts(body: Json, name: str) -> list[str]:
    """Return a repeated text; a single one counts as a list of one."""
    value = body.get(name)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, str) for item in values):
        raise Malformed(f"{name}: expected texts, found {str(value)[:80]!r}")
    return values


def number(body: Json, name: str) -> float | None:
    """Return a number; numbers written as texts are accepted."""
    value = body.get(name)
    if value is None:
        return None
    try:
        if not isinstance(value, bool) and isfinite(found := float(value)):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise Malformed(f"{name}: expected a number, found {str(value)[:80]!r}")


def moment(body: Json, name: str) -> datetime | None:
    """Return a time, already converted to local time. A day, a month or a year alone is its last second."""
    value = body.get(name)
    if value is None:
        return None
    try:
        return _moment(value)
    except (TypeError, ValueError, AttributeError):
        raise Malformed(f"{name}: cannot be read as a time: {str(value)[:80]!r}") from None


@lru_cache(maxsize=16_384)
def _moment(value: str) -> datetime:
    if len(value) > 10:
        return _clock_time(value.strip())
    return datetime.combine(_last_day(value.strip()), _END_OF_DAY)


def _clock_time(value: str) -> datetime:
    seconds = 19 if value[16:17] == ":" else 16
    found = datetime.fromisoformat(value[:seconds])
    tail = _TAIL.fullmatch(value, seconds)
    if tail is None or value[10] != "T":
        raise ValueError(value)
    fraction = tail.group(1)
    return found.replace(microsecond=int(f"{fraction}000000"[:6])) if fraction else found


def day(body: Json, name: str) -> date | None:
    """Return a day; of a month or a year alone the last one."""
    value = body.get(name)
    if value is None:
        return None
    try:
        return _last_day(value.strip()[:10])
    except (TypeError, ValueError, AttributeError):
        raise Malformed(f"{name}: cannot be read as a day: {str(value)[:80]!r}") from None


def _last_day(value: str) -> date:
    found = _SHORT.fullmatch(value)
    if found is None:
        raise ValueError(value)
    year, month = int(found.group(1)), int(found.group(2) or 12)
    return date(year, month, int(found.group(3) or monthrange(year, month)[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedConcept:
    """A coded element: its main code, its name, and its other codes as ``SYSTEM//code`` in one text."""

    system: str | None = None
    code: str | None = None
    label: str | None = None
    others: str | None = None
    codes: tuple[tuple[str | None, str], ...] = ()

    def __bool__(self) -> bool:
        return self.code is not None or self.label is not None

    def code_in(self, system: str) -> str | None:
        """Return the code in one of the systems."""
        return next((code for name, code in self.codes if name == system), None)

    @property
    def icd_version(self) -> int | None:
        """9 or 10 where the main code is an ICD code."""
        return ICD_VERSIONS.get(self.system or "")


NOTHING = CodedConcept()


@cache
def system_name(url: str | None) -> str | None:
    """Return the short name of a code system."""
    if url is None:
        return None
    known = SYSTEMS.get(url.lower().rstrip("/"))
    return known or re.split(r"[/:]", url.rstrip("/"))[-1] or url


@once
def concept(body: Json) -> CodedConcept:
    """Read a CodeableConcept. The main code is the one the user chose, else the first."""
    if not body:
        return NOTHING
    codings = [coding for coding in parts(body, "coding") if coding.get("code") or coding.get("display")]
    if len(codings) > 1:
        codings.sort(key=lambda coding: coding.get("userSelected") is not True)
    cells = tuple((text(coding, "system"), text(coding, "code"), text(coding, "display")) for coding in codings)
    return _concept(text(body, "text"), cells)


@lru_cache(maxsize=16_384)
def _concept(words: str | None, codings: tuple[tuple[str | None, str | None, str | None], ...]) -> CodedConcept:
    """Make a concept; the same few thousand come again and again."""
    if not codings:
        return CodedConcept(label=words) if words else NOTHING
    codes = [(system_name(url), code) for url, code, _ in codings]
    label = words or next((display for _, _, display in codings if display), None)
    system, code = codes[0]
    more = [f"{name}//{other}" if name else other for name, other in codes[1:] if other]
    return CodedConcept(
        system=system,
        code=code,
        label=label or code,
        others="; ".join(more) or None,
        codes=tuple((name, each) for name, each in codes if each),
    )


@once
def coding(body: Json) -> CodedConcept:
    """Read a bare Coding."""
    return concept({"coding": [body]}) if body else NOTHING


def label(body: Json, name: str) -> str | None:
    """Return the name of a coded element."""
    return concept(part(body, name)).label if name in body else None


def labels(body: Json, name: str) -> str | None:
    """Return the names of the codes of a repeated element, in one text."""
    return _labels(parts(body, name)) if name in body else None


@once
def _labels(items: list[Json]) -> str | None:
    return joined(concept(item).label for item in items)


def codes_of(body: Json, name: str) -> frozenset[str]:
    """Return every code of a repeated element, whatever its system."""
    return _codes(parts(body, name))


@once
def _codes(items: list[Json]) -> frozenset[str]:
    return frozenset(code for item in items for _, code in concept(item).codes)


def joined(texts: Iterable[str | None]) -> str | None:
    """Return texts as one; repeated ones count once."""
    return "; ".join(dict.fromkeys(text for text in texts if text)) or None


def plain(value: float) -> str:
    """Write a number without a needless fraction."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


@once
def quantity_text(body: Json) -> str | None:
    """Write a Quantity in words; None if it has no number."""
    value = number(body, "value")
    if value is None:
        return None
    sign, unit = text(body, "comparator") or "", unit_of(body)
    return f"{sign}{plain(value)} {unit or ''}".strip()


def unit_of(body: Json) -> str | None:
    """Return the unit of a Quantity as written, else its code."""
    return text(body, "unit") or text(body, "code")


@once
def range_text(body: Json) -> str | None:
    """Write a Range in words."""
    low, high = quantity_text(part(body, "low")), quantity_text(part(body, "high"))
    if low and high:
        return f"{low} - {high}"
    return f">= {low}" if low else f"<= {high}" if high else None


def plain_texts(attachments: Iterable[Json]) -> tuple[str | None, list[str]]:
    """Return the text of attachments that are plain text, and why others gave none."""
    found, missing = [], []
    for attachment in attachments:
        kind = (text(attachment, "contentType") or "unknown").partition(";")[0].strip().lower()
        if kind not in ("text/plain", "text/markdown"):
            missing.append(f"attachment of type {kind}")
        elif attachment.get("data") is None:
            missing.append("attachment kept elsewhere (url)" if attachment.get("url") else "attachment without data")
        else:
            found.append(_decoded(attachment))
    return "\n\n".join(part for part in found if part) or None, missing


def _decoded(attachment: Json) -> str:
    data: Any = attachment["data"]
    try:
        raw = base64.b64decode(data, validate=False)
    except (binascii.Error, TypeError, ValueError):
        raise Malformed(f"attachment.data: not base64: {str(data)[:40]!r}") from None
    return raw.decode("utf-8", "replace").replace("\r\n", "\n").strip()


def without_unread_ends(body: Json) -> tuple[Json, int]:
    """Return an element without end times that cannot be read, and their number."""
    kept, unread = {}, 0
    for name, value in body.items():
        if name in _ENDS and not _is_moment(body, name):
            unread += 1
            continue
        kept[name], inside = _each_without_unread_ends(value)
        unread += inside
    return kept, unread


def _each_without_unread_ends(value: Any) -> tuple[Any, int]:
    if isinstance(value, dict):
        return without_unread_ends(value)
    if not isinstance(value, list):
        return value, 0
    each = [_each_without_unread_ends(item) for item in value]
    return [item for item, _ in each], sum(unread for _, unread in each)


def _is_moment(body: Json, name: str) -> bool:
    try:
        moment(body, name)
    except Malformed:
        return False
    return True
