"""Tokens of a trigger, spelling of names and numbers, names looked up in tables; amounts, spans and windows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, cast

from rapidfuzz import process

from wardround.clinical.codes import load_ccs_words
from wardround.clinical.vocabulary import (
    conflicts,
    find_concept,
    find_measurement,
    is_known_drug,
    known_names,
    meanings_of,
    parse_quantity,
    read_allergens,
    read_unit,
    words_of,
)
from wardround.core import UserError

# A trigger cut into words, signs and quoted names, with a place that moves on as they are read.


_TOKEN = re.compile(r'\s*(?:(?P<quoted>"[^"]*")|(?P<sign>>=|<=|[<>=()])|(?P<word>[^\s()<>="]+))')
_SPELT = str.maketrans({"≥": ">=", "≤": "<=", "“": '"', "”": '"', "×": "x", "–": "-"})
_PHRASES: tuple[tuple[str, str], ...] = (
    (r"(?<=\w)\s+(?:fall|drop|decrease)\s+(?:by|of)\b(?=\s*(?:at least|>=?|\d))", "falls by"),
    (r"\s+(?:of|by)\s+(?=>=|<=)", " "),
    (r"(?<=\w)\s+(?:rise|increase)\s+(?:by|of)\b(?=\s*(?:at least|>=?|\d))", "rises by"),
    (r"\b(?:is |of |by )?(?:at least|no less than|greater than or equal to|minimum of)\b", ">="),
    (r"\b(?:is |of |by )?(?:at most|no more than|less than or equal to|maximum of|up to)\b", "<="),
    (r"\b(?:is |of |by )?(?:less than|lower than|fewer than|below|under)\b", "<"),
    (r"\b(?:is |of |by )?(?:more than|greater than|higher than|above|over|exceeds|exceeding)\b", ">"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerToken:
    """One word, sign or quoted name."""

    text: str
    kind: Literal["quoted", "sign", "word"]

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of some words, not quoted."""
        return self.kind == "word" and self.text.lower() in words


class Tokens:
    """The tokens of a trigger, read from left to right."""

    def __init__(self, text: str) -> None:
        found, place, spelt = [], 0, _phrases(text.translate(_SPELT)).strip()
        while place < len(spelt):
            match = _TOKEN.match(spelt, place)
            if match is None:
                raise UserError(f"a quote is not closed: {spelt[place:]!r}")
            kind = cast(Literal["quoted", "sign", "word"], match.lastgroup)
            found.append(TriggerToken(text=match[kind].strip('"'), kind=kind))
            place = match.end()
        self._tokens = [token for token in found if token.text or token.kind == "quoted"]
        self._place = 0

    @property
    def rest(self) -> str:
        """The rest of the text."""
        return " ".join(token.text for token in self._tokens[self._place :])

    def peek(self, ahead: int = 0) -> TriggerToken | None:
        """Return the next token, or one behind it; None at the end."""
        place = self._place + ahead
        return self._tokens[place] if place < len(self._tokens) else None

    def skip(self, count: int = 1) -> None:
        """Move on."""
        self._place += count

    def take(self, *words: str) -> str | None:
        """Take the next token where it is one of some words."""
        token = self.peek()
        if token is None or not token.is_word(*words):
            return None
        self._place += 1
        return token.text.lower()

    def take_all(self, *words: str) -> bool:
        """Take several words in a row, all or none."""
        ahead_tokens = [self.peek(ahead) for ahead in range(len(words))]
        found = all(token is not None and token.is_word(word) for token, word in zip(ahead_tokens, words, strict=True))
        self._place += len(words) * found
        return found

    def take_sign(self, *signs: str) -> str | None:
        """Take the next token where it is one of some signs."""
        token = self.peek()
        if token is None or token.kind != "sign" or token.text not in signs:
            return None
        self._place += 1
        return token.text

    def mark(self) -> int:
        """Return the place, to come back to."""
        return self._place

    def back_to(self, place: int) -> None:
        """Go back to a place."""
        self._place = place


def _phrases(text: str) -> str:
    """Write comparisons in words as signs, and nouns of change as verbs, outside quotes."""
    parts = re.split(r'("[^"]*")', text)
    for place in range(0, len(parts), 2):
        for phrase, sign in _PHRASES:
            parts[place] = re.sub(phrase, f" {sign} ", parts[place], flags=re.IGNORECASE)
    return "".join(parts)


# How triggers spell names and numbers, so that a written trigger is read again unchanged.


Exchange = Literal["measured", "on", "problem", "allergy", "done"]
HOUR_OF_DAY = "hour of day"
STAY = "stay"
SCORES = {
    "sofa": "sofa", "sofa score": "sofa", "qsofa": "qsofa", "qsofa score": "qsofa", "quick sofa": "qsofa",
    "sirs": "sirs", "sirs criteria": "sirs", "sirs criterion": "sirs", "kdigo": "kdigo", "kdigo stage": "kdigo",
    "aki stage": "kdigo", "meld": "meld", "meld score": "meld", "meld na": "meld", "gcs": "gcs",
    "glasgow coma scale": "gcs", "age": "age", "pf ratio": "pf_ratio", "p f ratio": "pf_ratio", "p f": "pf_ratio",
    "pao2 fio2": "pf_ratio", "pao2 fio2 ratio": "pf_ratio", "pf_ratio": "pf_ratio", "urine output": "urine_output",
    "urine_output": "urine_output", "uop": "urine_output",
}  # fmt: skip
"""Spellings of the project's own scores (``wardround.clinical.definitions``), and of the age."""
SCORE_UNITS = {"pf_ratio": "mmHg", "age": "years"}
"""Units that scores may be compared in; the others are points."""
OLDEST = 90.0
"""An age of this many years means this age and above."""
_KEYWORDS = frozenset(
    {"and", "or", "not", "is", "no", "for", "in", "within", "between", "at", "below", "under", "above", "over", "by",
     "rising", "falling", "rises", "falls", "increasing", "decreasing", "increases", "decreases", "increased",
     "decreased", "drops", "dropped", "dropping", "rose", "fell", "less", "more", "greater", "done", "exceeds"}
)  # fmt: skip
"""Words that end a name; in quotes they belong to it."""


def is_keyword(word: str) -> bool:
    """Return whether a word ends a name."""
    return word.lower() in _KEYWORDS


def spell(name: str, what: Exchange = "measured") -> str:
    """Return a name as triggers spell it: in quotes where no table has it as such or it holds words of the language."""
    words = name.split()
    plain = bool(words) and all(_PLAIN.issuperset(word) and not is_keyword(word) for word in words)
    return name if plain and words[0].lower() not in _OPENING and is_known(name, what) else f'"{name}"'


def number(value: float) -> str:
    """Return a number in the spelling of triggers."""
    return f"{value:.12g}"


@lru_cache(maxsize=16_384)
def is_known(name: str, what: Exchange) -> bool:
    """Return whether a table has the name for this kind, or it is a name of the clock."""
    if name in (HOUR_OF_DAY, STAY):
        return what in ("measured", "done")
    if what == "measured":
        return find_concept(name, "vital") is not None or find_concept(name, "lab") is not None
    if what == "problem":
        return is_problem_name(name)
    if what == "done":
        return find_concept(name) is not None
    is_other = what == "allergy" and conflicts("aspirin", read_allergens(name)[0]) is False
    return is_known_drug(name) or is_other


@lru_cache(maxsize=16_384)
def is_problem_name(name: str) -> bool:
    """Return whether a name is a problem's: of our table, or made of words of the diagnoses' titles."""
    words = [word for word in words_of(name) if word not in _AROUND_PROBLEMS]
    return bool(words) and (find_concept(name, "problem") is not None or _words_of_diagnoses().issuperset(words))


@lru_cache(maxsize=1)
def _words_of_diagnoses() -> frozenset[str]:
    phrases = load_ccs_words("diagnoses").values()
    return frozenset(word for texts in phrases for text in texts for word in words_of(text))


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/%.+")
_OPENING = frozenset(
    {"on", "taking", "receiving", "problem", "allergy", "allergic", "done", "lowest", "highest", "any", "every", "rate",
     "count", "hours", "rise", "fall", "increase", "drop", "decrease", "no", "not", "ever", "history"}
)  # fmt: skip
_AROUND_PROBLEMS = frozenset({"suspected", "possible", "probable", "known", "of", "the", "with", "active"})


# The names in a trigger: read up to the next word of the language, and checked against the tables.
#
# A name that is in no table is refused with the nearest ones; in quotes it is used as the store spells it.


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
        found = SCORES.get(" ".join(words_of(self.raw())) or "") or SCORES.get(self._text_since(place).lower())
        if found == "urine_output" and "/kg" not in self._tokens.rest.lower():
            found = None
        if found is None:
            self._tokens.back_to(place)
        return found

    def measured(self) -> str:
        """Read the name of a measurement."""
        return self.as_measured(self.raw())

    def as_measured(self, name: str) -> str:
        """Check a name as the name of a measurement."""
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
        """Read the name of an action: a test, drug, procedure or device."""
        return self.as_done(self._one_meaning("done"))

    def as_done(self, name: str) -> str:
        """Check a name as the name of an action."""
        if self._quoted or is_known(name, "done"):
            return name
        raise UserError(_unknown(name, "test, drug or procedure", "procedure"))

    def is_percentage(self, name: str) -> bool:
        """Return whether a measurement is itself in per cent, so that ``5 %`` is an amount of it."""
        known = find_measurement(name)
        return known is not None and known.units[0].unit == "%"

    def check_several(self, name: str) -> None:
        """UserError if a name asks for several drugs of a class."""
        if find_concept(name) is None and "several of a class" in (problem := _unknown(name, "drug", "drug")):
            raise UserError(problem)

    def _one_meaning(self, kind: str) -> str:
        """Read a name. Raises UserError if it is short for several things."""
        name = self.raw()
        meanings = () if self._quoted else meanings_of(name, kind)
        if meanings:
            raise UserError(f"{name!r} stands for {', '.join(meanings[:-1])} or {meanings[-1]}: write which")
        return name

    def _text_since(self, place: int) -> str:
        here = self._tokens.mark()
        self._tokens.back_to(place)
        words: list[str] = []
        while self._tokens.mark() < here:
            token = self._tokens.peek()
            words.append(token.text if token is not None else "")
            self._tokens.skip()
        return " ".join(words)


def _unknown(name: str, what: str, kind: str) -> str:
    words = words_of(name)
    if set(words) <= _VERBAL and {"verbal", "gcs"} <= set(words):
        return f"{name!r}: whoever has a tube is charted as 1: write `gcs < 9`, or `gcs motor < 6`"
    drug = " ".join(word for word in words if word not in _SEVERAL)
    if len(drug) < len(" ".join(words)) and is_known_drug(drug):
        return f"{name!r}: several of a class are not counted: write `on norepinephrine AND on vasopressin`, by name"
    names = [one for one in _names_of(kind) if len(one) > 2]  # a short one is like a part of everything
    near = [found for found, _, _ in process.extract(name.lower(), names, limit=3, score_cutoff=78)]
    meant = f"; did you mean {', '.join(near)}?" if near else "."
    return f"no {what} is called {name!r}{meant} Write it in quotes to take it as your store spells it"


@cache
def _names_of(kind: str) -> list[str]:
    kinds = {"lab": ("lab", "vital"), "drug": ("drug", "drug_class"), "procedure": ("procedure", "lab", "device")}
    return sorted(name for name, one in known_names().items() if one.kind in kinds.get(kind, (kind,)))


# Numbers with their units, spans and windows of time, and directions.


_SPAN = re.compile(r"^(\d+(?:\.\d+)?)\s*([a-z]*)$")
_HOURS = {
    **dict.fromkeys(("min", "mins", "minute", "minutes", "m"), 1 / 60),
    **dict.fromkeys(("", "h", "hr", "hrs", "hour", "hours"), 1.0),
    **dict.fromkeys(("d", "day", "days"), 24.0),
}
_LIMITS = ("uln", "lln", "upper limit", "lower limit", "upper limit of normal", "lower limit of normal", "normal")
_RISES = ("rising", "rises", "increasing", "increases", "increased", "rose", "risen")
_FALLS = ("falling", "falls", "decreasing", "decreases", "decreased", "drops", "dropped", "dropping", "fell", "fallen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number and its unit as a trigger has them; ``of_baseline``: it is a multiple of a baseline."""

    value: float
    unit: str | None = None
    of_baseline: bool = False


def read_amount(text: str) -> Amount | None:
    """Read a number with its unit; None if it is none, a range, or beyond a bound."""
    read = parse_quantity(text)
    if read is None or read.high is not None or read.comparator is not None or read.multiple_of == "upper limit":
        return None
    return Amount(value=read.value, unit=read.unit, of_baseline=read.multiple_of == "baseline")


def read_hours(tokens: Tokens, name: str) -> Amount:
    """Read a number and its unit. Raises UserError without a number, or for an unknown unit."""
    words: list[str] = []
    quoted = None
    while (token := tokens.peek()) is not None and token.kind != "sign" and not _ends(token.text, words):
        if token.kind == "quoted":
            quoted = token.text
        else:
            words.append(token.text)
        tokens.skip()
        if quoted is not None:
            break
    text = " ".join(words)
    if not text:
        raise UserError(f"after {name!r} comes no number: write `{name} > 4`, with the unit behind the number")
    amount = read_amount(text)
    if amount is not None:
        return Amount(value=amount.value, unit=quoted) if quoted is not None else amount
    read = parse_quantity(text)
    if read is not None and read.high is not None:
        raise UserError(f"{text!r} is a range: write `{name} between {read.value:g} and {read.high:g}`")
    if read is not None and read.multiple_of:
        raise UserError(
            f"{text!r}: a patient's state keeps no limits of laboratories: write the number with its unit, or "
            f"`{name} is high` for above the limit; of multiples only those of a baseline are known"
        )
    first, _, rest = text.partition(" ")
    if text.lower() in _LIMITS:
        raise UserError(f"{name!r} against {text!r}: write `{name} is high` or `{name} is low`, or the number itself")
    if read_amount(first) is None:
        raise UserError(f"after {name!r} comes {text!r}, which is no number: write `{name} > 4`")
    raise UserError(f"{rest!r} behind the number is no unit that is known; a unit of your store's own stands in quotes")


def read_span(tokens: Tokens, name: str) -> float:
    """Read a span of time (``30 minutes``) and return its hours. Raises UserError without one."""
    tokens.take_sign(">=", ">")
    first, second = tokens.peek(), tokens.peek(1)
    text = "" if first is None else first.text.lower()
    alone = _SPAN.match(text)
    if alone and alone[2]:
        tokens.skip()
        unit = alone[2]
        if unit not in _HOURS:
            raise UserError(f"{name!r}: {unit!r} is no span of time: write `30 min`, `6 h` or `2 days`")
        return float(alone[1]) * _HOURS[unit]
    if alone and second is not None and second.text.lower() in _HOURS:
        tokens.skip(2)
        return float(alone[1]) * _HOURS[second.text.lower()]
    raise UserError(f"{name!r}: a span is missing: write `30 min`, `6 h` or `2 days`")


def read_window(tokens: Tokens) -> float | None:
    """Take ``in last 24 h``, ``within 48 hours``, ``in the past 2 days``; None if no window comes next."""
    place = tokens.mark()
    if not tokens.take("in", "within", "over", "during"):
        return None
    tokens.take("the")
    tokens.take("last", "past", "previous", "preceding")
    try:
        return read_span(tokens, "in last")
    except UserError:
        tokens.back_to(place)
        return None


def direction_of(tokens: Tokens) -> Literal["rises", "falls"] | None:
    """Take a word that says where something goes: ``rises`` or ``falls``."""
    if tokens.take(*_RISES):
        return "rises"
    return "falls" if tokens.take(*_FALLS) else None


def is_rate_unit(unit: str) -> bool:
    """Return whether a unit is so much in a time (``mcg/kg/min``), not in a volume."""
    read = read_unit(unit)
    powers = dict(read.dimension) if read is not None else {}
    amount = {"mass", "substance", "charge", "activity", "volume"} & {
        kind for kind, power in powers.items() if power > 0
    }
    return powers.get("time") == -1 and bool(amount)


def _ends(word: str, before: list[str]) -> bool:
    """Return whether a word ends a number with its unit."""
    return bool(before) and is_keyword(word)
