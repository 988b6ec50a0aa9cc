"""Read the findings of a text: problems, drugs and values that are present, denied, possible, past, or a relative's.

A finding that is not named is unknown. Statements on other people, on vaccines, on explained risks and on what to do in
some event are no findings. Names are compared as concepts if the tables have them, else word by word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import cast

from wardround.clinical.vocabulary.allergies import Allergy, allergies_of, allergy_truth
from wardround.clinical.vocabulary.assertions import Statement, Status, sentences_of, statements_of
from wardround.clinical.vocabulary.concepts import NOT_GIVEN, concepts_in, find_concept, is_a
from wardround.clinical.vocabulary.cues import section_kind, tokens_of
from wardround.clinical.vocabulary.measurements import Concept, singular
from wardround.clinical.vocabulary.quantities import Quantity, parse_quantity
from wardround.clinical.vocabulary.tables import cell_parts, named_words, table_rows
from wardround.clinical.vocabulary.text_values import find_values
from wardround.clinical.vocabulary.time import Relation, Truth

_FILLERS = named_words("fillers") | {singular(word) for word in named_words("fillers")}
"""Words that do not narrow a denial."""
_NOT_NARROWING = named_words("not_narrowing")
_MODIFIERS = named_words("modifiers")
_RECENT = "recent"
_STANDING_KINDS = frozenset(("problem", "procedure", "device", "vital", "lab"))

_NEGATIVE = re.compile(r"\bneg(?:ative)?\b(?!\s+for\b)", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFinding:
    """A finding of a text on its patient.

    ``concept`` is set if a table has the name, ``quantity`` if the text gives a value. ``is_whole``: no word narrows
    the denial ("no edema in the legs" does not deny edema).
    """

    words: tuple[str, ...]
    status: Status
    start: int
    end: int
    concept: Concept | None = None
    quantity: Quantity | None = None
    is_whole: bool = True
    is_recent: bool = False
    around: tuple[str, ...] = ()
    """For a concept: all words of its statement. For a statement: the words that belong to longer names in it."""

    @property
    def span(self) -> tuple[int, int]:
        """The span in the text."""
        return self.start, self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReading:
    """The content of a text: its findings in order, and the allergies it states."""

    findings: tuple[TextFinding, ...] = ()
    allergies: tuple[Allergy, ...] = ()


@lru_cache(maxsize=16_384)
def read_text(text: str, section: str | None = None) -> TextReading:
    """Read a text: statements with their assertion, values in words, allergies."""
    kind = section_kind(section) if section else ""
    found: list[TextFinding] = []
    statements = tuple(statements_of(text, kind))
    for statement in statements:
        found += _of_statement(text, statement)
    found += _values(text, statements)
    return TextReading(findings=tuple(found), allergies=tuple(allergies_of(text, kind)))


@lru_cache(maxsize=65_536)
def compared_words(text: str) -> tuple[str, ...]:
    """Return the words of a name as names in texts are compared: no plural, adjectives as their nouns.

    >>> compared_words("diabetic patients"), compared_words("septic shock")
    (('diabetes', 'patient'), ('septic', 'shock'))
    """
    return tuple(_compared(token.text)[0] for token in tokens_of(text) if token.is_word)


def _of_statement(text: str, statement: Statement) -> Iterator[TextFinding]:
    if statement.standing == "other":
        return
    tokens = statement.tokens
    words = tuple(_compared(token.text)[0] for token in tokens)
    denied = any(_compared(token.text)[1] for token in tokens)
    status = _status(statement, " ".join(token.text for token in tokens))
    if denied and status == "present":
        status = "absent"
    start, end = statement.span
    mentions = [(mention, compared_words(mention.text)) for mention in concepts_in(text, start, end)]
    looked_for = any(mention.concept.kind == "procedure" for mention, _ in mentions)
    if status == "absent" and looked_for and _NEGATIVE.search(text[max(0, start - 9) : end + 9]):
        status = "present"  # a culture without growth was done
    if status == "absent":
        words = _denied_words(words)
    if not words:
        return
    longer = tuple(word for _, own in mentions if len(own) > 1 for word in own)
    longer += tuple(word for match in NOT_GIVEN.finditer(text, start, end) for word in compared_words(match[1]))
    yield TextFinding(words=words, status=status, start=start, end=end, is_recent=statement.is_recent, around=longer)
    for mention, own in mentions:
        if statement.section == "allergies":
            continue
        rest = [word for word in words if word not in own and word not in _FILLERS] if status == "absent" else []
        if status == "absent" and not set(own) <= set(words):
            continue
        mention_status = (
            _status(statement, f"{mention.text} {mention.concept.name}")
            if statement.standing in ("history", "listed")
            else status
        )
        yield TextFinding(
            words=own, status=mention_status, start=mention.start, end=mention.end,
            concept=mention.concept, around=words, is_whole=not rest, is_recent=statement.is_recent,
        )  # fmt: skip


def _status(statement: Statement, name: str) -> Status:
    standing = statement.standing
    if standing in ("history", "listed"):
        return "present" if is_lasting(name) or (standing == "listed" and _is_of("listed", name)) else "past"
    return cast(Status, standing)


@lru_cache(maxsize=16_384)
def is_lasting(name: str) -> bool:
    """Return whether a problem is lifelong (diabetes, but not pneumonia)."""
    return _is_of("lasting", name) and not _is_of("not", name)


@lru_cache(maxsize=16_384)
def leaves_a_mark(name: str) -> bool:
    """Return whether a procedure has a lasting result (a transplant, an amputation)."""
    return _is_of("done", name)


def _is_of(kind: str, name: str) -> bool:
    parts = next(cell_parts(cell) for one, cell in table_rows("lasting_problems", 2) if one == kind)
    text = f" {name.casefold()}".replace("-", " ")
    return any((part[1:] if part[0] == "*" else f" {part}") in text for part in parts)


def _denied_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a denied statement that name what is denied, without place, time and method."""
    kept: list[str] = []
    for word in words:
        if word in _NOT_NARROWING and any(kept_word not in _FILLERS for kept_word in kept):
            break
        kept.append(word)
    return tuple(word for word in kept if word not in _FILLERS or word == "status")


def _values(text: str, statements: Sequence[Statement]) -> Iterator[TextFinding]:
    """Return the values of a text, each with the assertion of the words around its number."""
    by_place = [(*statement.span, statement) for statement in statements]
    for start, end in sentences_of(text):
        for value in find_values(text, start, end):
            inside = [one for first, last, one in by_place if first < value.end and last > value.start]
            standings = {one.standing for one in inside}
            if standings & {"other", "risk", "family", "absent"}:
                continue
            status: Status = "past" if "past" in standings else "possible" if "possible" in standings else "present"
            concept = find_concept(value.name)
            yield TextFinding(
                words=compared_words(value.name), status=status, start=value.start, end=value.end,
                concept=concept, quantity=value.quantity,
            )  # fmt: skip


@dataclass(slots=True)
class KnownFindings:
    """The findings of several texts and rows on one patient, looked up by name."""

    by_concept: dict[Concept, dict[tuple[str, ...], set[str]]] = field(default_factory=dict)
    by_word: dict[str, dict[tuple[str, ...], set[str]]] = field(default_factory=dict)
    alone: dict[str, set[str]] = field(default_factory=dict)
    """Word -> its statuses outside of longer names ("shock", not that of shock wave lithotripsy)."""
    allergies: list[Allergy] = field(default_factory=list)
    _statuses_by_name: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, reading: TextReading) -> None:
        """Add the findings of a text."""
        self.allergies += reading.allergies
        for finding in reading.findings:
            if finding.quantity is not None:
                continue
            ways = {finding.status, _RECENT} if finding.is_recent and finding.status == "past" else {finding.status}
            if finding.concept is not None:
                if finding.status != "absent" or finding.is_whole:
                    self.by_concept.setdefault(finding.concept, {}).setdefault(finding.around, set()).update(ways)
            else:
                for word in {*finding.words}:
                    self.by_word.setdefault(word, {}).setdefault(finding.words, set()).update(ways)
                    if word not in finding.around:
                        self.alone.setdefault(word, set()).update(ways)

    def statuses(self, name: str) -> frozenset[Status]:
        """Return every status of a finding of the patient; empty if nothing names it."""
        if name not in self._statuses_by_name:
            self._statuses_by_name[name] = frozenset(self._statuses(name))
        return cast(frozenset[Status], self._statuses_by_name[name] - {_RECENT})

    def has_recent(self, name: str) -> bool:
        """Return whether a past finding is some days or weeks old."""
        self.statuses(name)
        return _RECENT in self._statuses_by_name[name]

    def allergic_to(self, substance: str) -> Truth:
        """Return whether an allergy to a substance or class is stated; unknown if only other allergies are."""
        return allergy_truth(self.allergies, substance)

    def _statuses(self, name: str) -> Iterator[str]:
        *before, last = compared_words(name) or ("",)
        kept = [word for word in before if word not in _MODIFIERS]
        kept += [last] if last == "a" or last not in _MODIFIERS else []  # no article ends a name: "hepatitis A"
        words = tuple(kept) or compared_words(name)
        wanted = find_concept(" ".join(words)) or find_concept(name)
        if wanted is not None:
            for given, statements in self.by_concept.items():
                if is_a(given, wanted):
                    yield from (way for ways in statements.values() for way in ways if way != "absent")
                if is_a(wanted, given) and any("absent" in ways for ways in statements.values()):
                    yield "absent"
        yield from self._part_by_part(words)
        if len(words) == 1:
            yield from (one for one in self.alone.get(words[0], ()) if one != "absent")
        else:
            rarest = min((self.by_word.get(word, {}) for word in words), key=len, default={})
            for statement_words, ways in rarest.items():
                if _holds(statement_words, words):
                    yield from (way for way in ways if way != "absent")
        for word in words:
            for statement_words, ways in self.by_word.get(word, {}).items():
                if "absent" in ways and set(statement_words) <= set(words) and statement_words[-1] == words[-1]:
                    yield "absent"

    def _part_by_part(self, words: tuple[str, ...]) -> Iterator[str]:
        """Return the statuses of a concept with more words beside it in one statement ("COPD exacerbation")."""
        for cut in range(1, len(words)):
            for core, rest in ((words[:cut], words[cut:]), (words[cut:], words[:cut])):
                wanted = find_concept(" ".join(core))
                if wanted is None or wanted.kind not in _STANDING_KINDS or max(map(len, rest)) == 1:
                    continue
                for given, statements in self.by_concept.items():
                    if is_a(given, wanted):
                        for around, statuses in statements.items():
                            if set(rest) <= set(around):
                                yield from (status for status in statuses if status != "absent")


def _holds(statement: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether a statement names something: its words in a row, or all of them near each other (no letter is:
    "a man with hepatitis C" does not name hepatitis A)."""
    size = len(words)
    for place in range(len(statement) - size + 1):
        if tuple(statement[place : place + size]) == tuple(words):
            return True
    if min(map(len, words), default=1) == 1:
        return False
    places = [statement.index(word) for word in words if word in statement]
    return len(places) == size and max(places) - min(places) <= size + 2


def denies(name: str) -> bool:
    """Return whether a name denies what it names: "afebrile", "non-diabetic" by one word ("nondiabetic")."""
    return any(_compared(token.text)[1] for token in tokens_of(name) if token.is_word)


@lru_cache(maxsize=65_536)
def _compared(word: str) -> tuple[str, bool]:
    """Return a word in the form in which it is compared, and whether it denies its subject ("afebrile")."""
    plain = word.removesuffix("'s")
    forms = _forms()
    single = plain[:-2] if plain.endswith("sses") else singular(plain)
    found = forms.get(plain) or forms.get(single)
    if found is None:
        return single, False
    return (found[3:], True) if found.startswith("no ") else (found, False)


@cache
def _forms() -> Mapping[str, str]:
    return {form: name for name, forms in table_rows("word_forms", 2) for form in cell_parts(forms)}


def as_past(reading: TextReading) -> TextReading:
    """Return the findings of an earlier stay as of now: past, except lifelong problems; denials are dropped."""
    lasting = (finding for finding in reading.findings if finding.status in ("present", "past", "family"))
    return TextReading(findings=tuple(map(_now_past, lasting)), allergies=reading.allergies)


def _now_past(finding: TextFinding) -> TextFinding:
    name = " ".join((*finding.words, finding.concept.name if finding.concept else ""))
    return finding if finding.status != "present" or is_lasting(name) else replace(finding, status="past")


def defining_values(name: str) -> tuple[tuple[str, Relation, Quantity], ...]:
    """Return the values that a finding is by definition (hypotension: systolic pressure below 90 mmHg): measurement,
    relation, limit. None of them is needed for it."""
    return _defined().get(compared_words(name), ())


@cache
def _defined() -> Mapping[tuple[str, ...], tuple[tuple[str, Relation, Quantity], ...]]:
    found: dict[tuple[str, ...], tuple[tuple[str, Relation, Quantity], ...]] = {}
    for names, measurement, relation, limit in table_rows("defining_values", 4):
        quantity = parse_quantity(limit)
        assert quantity is not None
        for name in cell_parts(names):
            key = compared_words(name)
            found[key] = (*found.get(key, ()), (measurement, cast(Relation, relation), quantity))
    return found
