"""The names in a trigger: taken up to the next word of the language, and held against what the tables have.

A name that no table has is refused with the nearest ones; in quotes it is taken as the store spells it.
"""

from __future__ import annotations

from functools import cache

from rapidfuzz import process

from wardround.core import UserError
from wardround.protocols.spelling import SCORES, is_keyword, is_known
from wardround.protocols.tokens import Tokens
from wardround.vocabulary import (
    find_concept,
    find_measurement,
    is_known_drug,
    known_names,
    meanings_of,
    words_of,
)

_VERBAL = frozenset({"gcs", "verbal", "response", "score", "component", "v"})
_SEVERAL = frozenset({"two", "three", "2", "3", "multiple", "several", "second", "dual", "more", "at", "least", "or"})


class NameReader:
    """Takes names from the tokens of a trigger."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._quoted = False

    def raw(self) -> str:
        """Take a name, whatever it is of."""
        words: list[str] = []
        self._quoted = False
        while (token := self._tokens.peek()) is not None and token.kind != "sign":
            if token.kind == "word" and is_keyword(token.text):
                break
            self._quoted = self._quoted or token.kind == "quoted"
            after = self._tokens.peek(1)
            if words or after is None or after.kind == "sign" or not token.is_word("a", "an", "the"):
                words.append(token.text)
            self._tokens.skip()
        if not words:
            here = f" at {self._tokens.rest!r}" if self._tokens.rest else ""
            raise UserError(f"a name is missing{here}: say what is measured, given, done or diagnosed")
        return " ".join(words)

    def score(self) -> str | None:
        """Take the name of a score, where one comes next; an amount of urine is no score."""
        place = self._tokens.mark()
        token = self._tokens.peek()
        if token is None or token.kind == "quoted":
            return None
        found = SCORES.get(" ".join(words_of(self.raw())) or "") or SCORES.get(self._said_since(place).lower())
        if found == "urine_output" and "/kg" not in self._tokens.rest.lower():
            found = None
        if found is None:
            self._tokens.back_to(place)
        return found

    def measured(self) -> str:
        """Take the name of what is measured."""
        return self.as_measured(self.raw())

    def as_measured(self, name: str) -> str:
        """Check a name as that of what is measured."""
        if self._quoted or is_known(name, "measured"):
            return name
        concept = find_concept(name)
        if concept is None:
            raise UserError(_unknown(name, "test or vital", "lab"))
        if concept.kind in ("drug", "drug_class"):
            raise UserError(f"{name!r} is a drug: write `on {name}`, or `rate of {name} > 5 units/h`")
        if concept.kind == "problem":
            raise UserError(f"{name!r} is a problem, not a number: write `problem {name}`")
        raise UserError(f"{name!r} is a {concept.kind}, not a number: write `done {name}` or `hours since {name} >= 6`")

    def drug(self) -> str:
        """Take the name of a drug or a class."""
        name = self._one_meaning("on")
        if self._quoted or is_known(name, "on"):
            return name
        concept = find_concept(name)
        if concept is not None and concept.kind in ("procedure", "device"):
            raise UserError(f"{name!r} is no drug but a {concept.kind}: write `done {name}`")
        raise UserError(_unknown(name, "drug or class of drugs", "drug"))

    def allergen(self) -> str:
        """Take what an allergy is to."""
        name = self.raw()
        if self._quoted or is_known(name, "allergy"):
            return name
        raise UserError(_unknown(name, "drug or allergen", "drug"))

    def problem(self) -> str:
        """Take the name of a problem."""
        name = self._one_meaning("problem")
        if self._quoted or is_known(name, "problem"):
            return name
        raise UserError(_unknown(name, "problem", "problem"))

    def done(self) -> str:
        """Take the name of what is done: a test, drug, procedure or device."""
        return self.as_done(self._one_meaning("done"))

    def as_done(self, name: str) -> str:
        """Check a name as that of what is done."""
        if self._quoted or is_known(name, "done"):
            return name
        raise UserError(_unknown(name, "test, drug or procedure", "procedure"))

    def is_percentage(self, name: str) -> bool:
        """Whether a measurement is itself in per cent, so that ``5 %`` is an amount of it."""
        known = find_measurement(name)
        return known is not None and known.units[0].unit == "%"

    def check_several(self, name: str) -> None:
        """UserError where a name asks for several drugs of a class."""
        if find_concept(name) is None and "several of a class" in (said := _unknown(name, "drug", "drug")):
            raise UserError(said)

    def _one_meaning(self, asked: str) -> str:
        """Take a name; UserError where it is short for several things."""
        name = self.raw()
        meanings = () if self._quoted else meanings_of(name, asked)
        if meanings:
            raise UserError(f"{name!r} stands for {', '.join(meanings[:-1])} or {meanings[-1]}: write which")
        return name

    def _said_since(self, place: int) -> str:
        here = self._tokens.mark()
        self._tokens.back_to(place)
        said: list[str] = []
        while self._tokens.mark() < here:
            token = self._tokens.peek()
            said.append(token.text if token is not None else "")
            self._tokens.skip()
        return " ".join(said)


def _unknown(name: str, what: str, kind: str) -> str:
    said = words_of(name)
    if set(said) <= _VERBAL and {"verbal", "gcs"} <= set(said):
        return f"{name!r}: whoever has a tube is charted as 1: write `gcs < 9`, or `gcs motor < 6`"
    drug = " ".join(word for word in said if word not in _SEVERAL)
    if len(drug) < len(" ".join(said)) and is_known_drug(drug):
        return f"{name!r}: several of a class are not counted: write `on norepinephrine AND on vasopressin`, by name"
    near = [found for found, _, _ in process.extract(name.lower(), _names_of(kind), limit=3, score_cutoff=78)]
    meant = f"; did you mean {', '.join(near)}?" if near else ""
    return f"no {what} is called {name!r}{meant} Write it in quotes to take it as your store spells it"


@cache
def _names_of(kind: str) -> list[str]:
    kinds = {"lab": ("lab", "vital"), "drug": ("drug", "drug_class"), "procedure": ("procedure", "lab", "device")}
    return sorted(name for name, one in known_names().items() if one.kind in kinds.get(kind, (kind,)))
