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
from wardround.tools.knowledge.egress.fingerprint import Fingerprint
from wardround.tools.knowledge.egress.readings import Reading, TooManyReadings, Trust, holds_unseen, readings
from wardround.tools.knowledge.egress.written_days import holds_full_day, without_full_days

Egress = Literal["nothing", "permitted", "guarded"]
"""What may leave: nothing; what goes to permitted hosts; what goes to any public host. All of it through the guard."""

_PACKED_TEXT = "text that is packed"
NO_ADDRESS = "this is no address of a page; write one like https://www.example.org/page"
_MOST_WORDS = 40
_MOST_CHARACTERS = {"query": 600, "address": 2000}
_LONG_NUMBER = re.compile(r"(?<![\w.])(?!(?:PMC|PMID|NCT|pmid:?))\d(?:[ \-./]?\d){6,}(?!\w)")
_YEARS = re.compile(r"\b(?:19|20)\d\d ?[-/] ?(?:19|20)?\d\d\b(?![-/.]?\d)")
_KNOWN_NUMBERS = re.compile(
    r"\b(?:PMID:?\s*|PMC|NCT|ISRCTN)\d+\b|\b10\.\d{4,9}/\S+|pubmed\.ncbi\.nlm\.nih\.gov/\d+", re.IGNORECASE
)
"""Numbers of papers and trials, which name no patient."""
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.\w+")
_PHONE = re.compile(r"(?<!\d)(?:\+\d{1,3}[ .-]?)?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\d)")
_VERY_OLD = re.compile(
    r"\b(?:9\d|1[01]\d)[ -]?(?:years?|yrs?|y/?o[fm]?|y\.o\.?)(?![a-z])|\bage[ds]?\W{0,2}(?:of\s+)?(?:9\d|1[01]\d)\b"
    r"|\b(?:nonage|cente)narian\b|\bin (?:his|her|their) (?:nineties|90s)\b",
    re.IGNORECASE,
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
        self._refuse_unseen("query", query)
        self._check("query", query, _of_a_query)

    def check_address(self, url: str, *, written: bool = True) -> None:
        """Raise ToolFailure, and count, where an address may not leave. ``written``: by the model, not on a page."""
        self._check_policy()
        try:
            host = (urlsplit(url).hostname or "").rstrip(".").lower()
        except ValueError:
            raise ToolFailure(NO_ADDRESS) from None
        if self.policy == "permitted" and not any(
            host == allowed or host.endswith(f".{allowed}") for allowed in self.hosts
        ):
            raise self._refusal("address", "a host that is not permitted here")
        if written:
            self._refuse_unseen("address", url)
        self._check("address", url, _of_an_address if written else _of_any_address)

    def _check_policy(self) -> None:
        if self.policy == "nothing":
            self.blocked["everything"] += 1
            raise ToolFailure(
                "nothing leaves this machine here: the web is closed. Search and open corpus:// documents instead."
            )

    def _refuse_unseen(self, what: str, text: str) -> None:
        if holds_unseen(text):
            raise self._refusal(what, "characters that nobody sees")

    def _check(self, what: str, text: str, looks_like: Callable[[Reading], Iterator[str]]) -> None:
        if len(text) > _MOST_CHARACTERS[what]:
            raise self._refusal(what, f"more than {_MOST_CHARACTERS[what]:,} characters")
        try:
            for reading in readings(text):
                for kind in _classes(reading, self._record(), looks_like):
                    raise self._refusal(what, kind)
        except TooManyReadings:
            raise self._refusal(what, _PACKED_TEXT) from None

    def _record(self) -> Fingerprint:
        if not self._made:
            self._made.append(self.fingerprint())
        return self._made[0]

    def _refusal(self, what: str, kind: str) -> ToolFailure:
        self.blocked[kind] += 1
        return ToolFailure(
            f"not sent: the {what} holds {kind}. Ask in general medical words, without this patient's details."
        )


def identifying_traits(text: str, fingerprint: Fingerprint) -> tuple[str, ...]:
    """Return the classes of record content in a text, and of what looks like an identifier of any person."""
    try:
        every = [kind for reading in readings(text) for kind in _classes(reading, fingerprint, _of_a_query)]
    except TooManyReadings:
        every = [_PACKED_TEXT]
    return tuple(dict.fromkeys(every))


def _classes(reading: Reading, record: Fingerprint, looks_like: Callable[[Reading], Iterator[str]]) -> Iterator[str]:
    """Return the classes of record content in a reading, and of what is certain to look like an identifier."""
    yield from record.found_in_rows(reading.text) if reading.trust is Trust.FOUND else record.found_in(reading.text)
    if reading.trust is Trust.SURE:
        yield from looks_like(reading)


def _of_a_query(reading: Reading) -> Iterator[str]:
    """Return the classes of what looks like an identifier of any person."""
    free = _KNOWN_NUMBERS.sub(" ", reading.text)
    yield from _of_an_address(reading)
    if _PHONE.search(free):
        yield "a telephone number"
    if _LONG_NUMBER.search(_YEARS.sub(" ", without_full_days(free))):
        yield "a long number"
    if holds_full_day(reading.text):
        yield "a full date"


def _of_an_address(reading: Reading) -> Iterator[str]:
    """Return the classes of what looks like an identifier in an address. Servers have long numbers of their own."""
    yield from _of_any_address(reading)
    if _is_packed(_KNOWN_NUMBERS.sub(" ", reading.text)):
        yield _PACKED_TEXT


def _of_any_address(reading: Reading) -> Iterator[str]:
    """Return the same classes for an address from a page; servers pack text of their own into such addresses."""
    if _MAIL.search(reading.text):
        yield "an e-mail address"
    if _VERY_OLD.search(_KNOWN_NUMBERS.sub(" ", reading.text)):
        yield "an age above 89"


def _is_packed(text: str) -> bool:
    """Return whether a text has a long run of letters and digits mixed as in encodings, and not as in words."""
    for run in _PACKED.findall(text):
        bare = re.sub(r"[^A-Za-z0-9]", "", run)
        changes = sum(a.isdigit() != b.isdigit() or a.isupper() != b.isupper() for a, b in pairwise(bare))
        if len(bare) >= 24 and changes * 4 >= len(bare):
            return True
    return False
