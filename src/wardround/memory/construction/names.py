"""Incremental normalisation: which names of entities mean the same. A new name is compared with those that share a
word with it, never with all; by rule where words differ only in order or ending, by an abbreviation table, and by one
question to a model for what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wardround.codes import load_abbreviations
from wardround.core import FormatError, load_prompt
from wardround.memory.bank import Bank
from wardround.memory.construction.asking import AskingBudget, ask_value
from wardround.memory.experience import Experience
from wardround.memory.extract import Asker
from wardround.memory.words import plain_words

NAME_PROMPTS = ("same_name",)
_MOST_SHARING = 50
"""A word that more names have tells nothing of what they mean."""
_MOST_ASKED = 12
_SCHEMA = {
    "type": "object",
    "properties": {"same": {"type": "array", "items": {"type": "integer"}}},
    "required": ["same"],
}


class NameIndex:
    """The names of a bank's entities by their words, kept up as names come; looking one up takes no longer in a large
    bank."""

    def __init__(self, bank: Bank) -> None:
        self._by_words: dict[tuple[str, ...], dict[str, None]] = {}
        self._by_word: dict[str, dict[str, None]] = {}
        for name in bank.entity_names():
            self.add(name)

    def add(self, name: str) -> None:
        """Take in a name."""
        words = _words(name)
        self._by_words.setdefault(words, {})[name] = None
        for word in words:
            self._by_word.setdefault(word, {})[name] = None

    def same(self, name: str) -> list[str]:
        """Names of the same words, in any order and with any plural ending, and those that this one abbreviates."""
        texts = (name, *load_abbreviations().get(name, ()))
        found = dict.fromkeys(other for text in texts for other in self._by_words.get(_words(text), ()))
        return [other for other in found if other != name]

    def near(self, name: str) -> list[str]:
        """Names that share at least half of all words with this one, by a word that few names have."""
        words = set(_words(name))
        lists = [self._by_word.get(word, {}) for word in sorted(words)]
        found = dict.fromkeys(other for names in lists if len(names) <= _MOST_SHARING for other in names)
        return [other for other in found if other != name and _shares_half(words, set(_words(other)))]


async def normalise_names(
    bank: Bank, names: NameIndex, experience: Experience, *, asker: Asker | None, budget: AskingBudget
) -> int:
    """Give the names of an experience's entities their aliases in the bank; returns how many were made."""
    pairs: list[tuple[str, str]] = []
    made = 0
    for entity in experience.entities:
        same = _other_meanings(bank, entity.name, names.same(entity.name))
        if same:
            bank.add_alias(entity.name, of=same[0], reason="the same words")
            made += 1
        else:
            pairs += [(entity.name, other) for other in _other_meanings(bank, entity.name, names.near(entity.name))]
        names.add(entity.name)
    if asker is not None and pairs:
        made += await _asked(bank, pairs[:_MOST_ASKED], asker, budget)
    return made


def _other_meanings(bank: Bank, name: str, others: Sequence[str]) -> list[str]:
    """Of some names those that do not mean the same as a name already."""
    graph = bank.graph()
    own = graph.entity(name)
    return [other for other in others if graph.entity(other) != own]


def _words(name: str) -> tuple[str, ...]:
    return tuple(sorted(plain_words(name).split()))


def _shares_half(first: set[str], second: set[str]) -> bool:
    return 2 * len(first & second) >= len(first | second)


async def _asked(bank: Bank, pairs: Sequence[tuple[str, str]], asker: Asker, budget: AskingBudget) -> int:
    prompt = load_prompt("wardround.memory", "same_name").render(pairs=pairs)
    try:
        value: Mapping[str, list[int]] = await ask_value(asker, prompt, _SCHEMA, purpose="same_name", budget=budget)
    except FormatError as error:
        asker.note("names_failed", {"problem": str(error)})
        return 0
    same = [pairs[number - 1] for number in dict.fromkeys(value["same"]) if 0 < number <= len(pairs)]
    for name, other in same:
        bank.add_alias(name, of=other, reason="judged to mean the same")
    return len(same)
