"""How triggers spell names and numbers, so that what is written is read again as the same."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from wardround.codes import load_ccs_words
from wardround.vocabulary import conflicts, find_concept, is_known_drug, read_allergens, words_of

Asked = Literal["measured", "on", "problem", "allergy", "done"]
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
"""Spellings of the project's own scores (``wardround.definitions``), and of the age."""
SCORE_UNITS = {"pf_ratio": "mmHg", "age": "years"}
"""Units that scores may be compared in; the others are points."""
OLDEST = 90.0
"""An age of so many years stands for that and above."""
_KEYWORDS = frozenset(
    {"and", "or", "not", "is", "no", "for", "in", "within", "between", "at", "below", "under", "above", "over", "by",
     "rising", "falling", "rises", "falls", "increasing", "decreasing", "increases", "decreases", "increased",
     "decreased", "drops", "dropped", "dropping", "rose", "fell", "less", "more", "greater", "done", "exceeds"}
)  # fmt: skip
"""Words that end a name; in quotes they belong to it."""


def is_keyword(word: str) -> bool:
    """Whether a word ends a name."""
    return word.lower() in _KEYWORDS


def spell(name: str, what: Asked = "measured") -> str:
    """Return a name as triggers spell it: in quotes where no table has it as such or it holds words of the language."""
    words = name.split()
    plain = bool(words) and all(_PLAIN.issuperset(word) and not is_keyword(word) for word in words)
    return name if plain and words[0].lower() not in _OPENING and is_known(name, what) else f'"{name}"'


def number(value: float) -> str:
    """A number as triggers spell it."""
    return f"{value:.12g}"


@lru_cache(maxsize=16_384)
def is_known(name: str, what: Asked) -> bool:
    """Whether a table has a name as that of what is asked, or it is the clock's."""
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
    """Whether a name is a problem's: of our table, or made of words of the diagnoses' titles."""
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
