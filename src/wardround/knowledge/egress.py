"""The egress guard: what of a query or an address may leave, seen beside the record that is open.

Whatever identifies the open record is kept in: its numbers, its days, its names, six words in a row of its texts. So is
what looks like an identifier of anybody. A refusal names the class of what was found, never what it was. What no rule
of this kind catches is a description in other words: where that may not leave, let nothing leave (the default).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal
from urllib.parse import urlsplit

from wardround.core import ToolFailure
from wardround.knowledge.fingerprint import Fingerprint
from wardround.knowledge.readings import readings

Egress = Literal["nothing", "permitted", "guarded"]
"""What may leave: nothing; what goes to permitted hosts; what goes to any public host. All of it through the guard."""

NO_ADDRESS = "this is no address of a page; write one like https://www.example.org/page"
_MOST_WORDS = 40
_LONG_NUMBER = re.compile(r"(?<![\w.])(?!(?:PMC|PMID|NCT|pmid:?))\d(?:[ \-./]?\d){6,}(?!\w)")
_KNOWN_NUMBERS = re.compile(
    r"\b(?:PMID:?\s*|PMC|NCT|ISRCTN)\d+\b|\b10\.\d{4,9}/\S+|pubmed\.ncbi\.nlm\.nih\.gov/\d+", re.IGNORECASE
)
"""Numbers of papers and trials, which name no patient."""
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.\w+")
_PHONE = re.compile(r"(?<!\d)(?:\+\d{1,3}[ .-]?)?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\d)")
_DAY = re.compile(
    r"\b(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
    r"|\d{1,2}(?:st|nd|rd|th)?\s+(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?,?\s+\d{4}"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+\d{1,2}(?:st|nd|rd|th)?,?\s+\d{4})\b",
    re.IGNORECASE,
)
_VERY_OLD = re.compile(
    r"\b(?:9\d|1[01]\d)[ -]?(?:years?|yrs?|y/?o|year-old|-year-old)\b|\baged?\s+(?:9\d|1[01]\d)\b", re.IGNORECASE
)
_PACKED = re.compile(r"[A-Za-z0-9+/_=-]{32,}")


@dataclass(slots=True, kw_only=True)
class EgressGuard:
    """The guard of one episode. ``fingerprint`` is made of the open record when something first wants to leave;
    ``hosts`` are those permitted (with their subdomains); ``blocked`` counts what was kept in, by class."""

    policy: Egress = "nothing"
    hosts: tuple[str, ...] = ()
    fingerprint: Callable[[], Fingerprint]
    blocked: Counter[str] = field(default_factory=Counter)
    _made: list[Fingerprint] = field(default_factory=list)

    def check_query(self, query: str) -> None:
        """Raise ToolFailure, and count, where a query may not leave."""
        self._check_policy()
        if len(query.split()) > _MOST_WORDS:
            raise self._refusal("query", f"more than {_MOST_WORDS} words")
        for reading in readings(query):
            self._refuse("query", (*self._known(reading), *_of_anybody(reading)))

    def check_address(self, url: str, *, written: bool = True) -> None:
        """Raise ToolFailure, and count, where an address may not leave. ``written``: by the model, not on a page."""
        self._check_policy()
        try:
            host = (urlsplit(url).hostname or "").rstrip(".").lower()
        except ValueError:
            raise ToolFailure(NO_ADDRESS) from None
        if self.policy == "permitted" and not any(host == one or host.endswith(f".{one}") for one in self.hosts):
            raise self._refusal("address", "a host that is not permitted here")
        for reading in readings(url):
            free = _KNOWN_NUMBERS.sub(" ", reading)
            packed = ("text that is packed",) if written and _is_packed(free) else ()
            self._refuse("address", (*self._known(reading), *_addressed(free), *packed))

    def _check_policy(self) -> None:
        if self.policy == "nothing":
            self.blocked["everything"] += 1
            raise ToolFailure(
                "nothing leaves this machine here: the web is closed. Search and open corpus:// documents instead."
            )

    def _known(self, reading: str) -> Iterator[str]:
        if not self._made:
            self._made.append(self.fingerprint())
        yield from self._made[0].found_in(reading)

    def _refuse(self, what: str, classes: tuple[str, ...]) -> None:
        if classes:
            raise self._refusal(what, classes[0])

    def _refusal(self, what: str, kind: str) -> ToolFailure:
        self.blocked[kind] += 1
        return ToolFailure(
            f"not sent: the {what} holds {kind}. Ask in general medical words, without this patient's details."
        )


def identifying_traits(text: str, fingerprint: Fingerprint) -> tuple[str, ...]:
    """The classes of what a text holds of a record, and of what looks like an identifier of anybody."""
    return tuple(
        dict.fromkeys(
            trait for reading in readings(text) for trait in (*fingerprint.found_in(reading), *_of_anybody(reading))
        )
    )


def _of_anybody(text: str) -> Iterator[str]:
    yield from _looks_like(text)
    yield from _days(text)


def _looks_like(text: str) -> Iterator[str]:
    """The classes of what looks like an identifier of anybody."""
    free = _KNOWN_NUMBERS.sub(" ", text)
    if _MAIL.search(free):
        yield "an e-mail address"
    if _PHONE.search(free):
        yield "a telephone number"
    if _LONG_NUMBER.search(_DAY.sub(" ", free)):
        yield "a long number"
    if _VERY_OLD.search(free):
        yield "an age above 89"
    if _is_packed(free):
        yield "text that is packed"


def _addressed(text: str) -> Iterator[str]:
    """What looks like an identifier in an address: servers have long numbers of their own."""
    if _MAIL.search(text):
        yield "an e-mail address"
    if _VERY_OLD.search(text):
        yield "an age above 89"


def _days(text: str) -> Iterator[str]:
    if _DAY.search(text):
        yield "a full date"


def _is_packed(text: str) -> bool:
    """Whether there is a long run of letters and digits mixed as encodings mix them, and words do not."""
    for run in _PACKED.findall(text):
        bare = re.sub(r"[^A-Za-z0-9]", "", run)
        changes = sum(a.isdigit() != b.isdigit() or a.isupper() != b.isupper() for a, b in pairwise(bare))
        if len(bare) >= 24 and changes * 4 >= len(bare):
            return True
    return False
