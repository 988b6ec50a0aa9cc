"""Incremental normalisation: which names of entities mean the same. A new name is compared with those that share a
word with it, never with all; by rule where words differ only in order or ending, by an abbreviation table, and by one
question to a model for what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wardround.codes import load_abbreviations
from wardround.core import FormatError, load_prompt
from wardround.memory.bank import Bank
from wardround.memory.construction.asking import Budget, ask_value
from wardround.memory.experience import Experience
from wardround.memory.extract import Asker
from wardround.memory.findings import plain_words

NAME_PROMPTS = ("same_name",)
_NEAR = 0.5
_MOST_ASKED = 12
_SCHEMA = {
    "type": "object",
    "properties": {"same": {"type": "array", "items": {"type": "integer"}}},
    "required": ["same"],
}


def same_by_rule(name: str, known: Sequence[str]) -> str | None:
    """The known name that has the same words, in any order and with any plural ending, or that this abbreviates."""
    words = sorted(plain_words(name).split())
    expanded = {plain_words(meaning) for meaning in load_abbreviations().get(name, ())}
    for other in known:
        if other != name and (sorted(plain_words(other).split()) == words or plain_words(other) in expanded):
            return other
    return None


def near_names(name: str, known: Sequence[str]) -> list[str]:
    """Known names that share at least half of all words with a name, and are not it."""
    words = set(plain_words(name).split())
    shared = {other: set(plain_words(other).split()) for other in known if other != name}
    return [other for other, theirs in shared.items() if len(words & theirs) >= _NEAR * len(words | theirs)]


class NameIndex:
    """The names of a bank's entities by the words in them, kept up as names come."""

    def __init__(self, bank: Bank) -> None:
        self._by_word: dict[str, dict[str, None]] = {}
        for name in bank.entity_names():
            self.add(name)

    def add(self, name: str) -> None:
        """Take in a name."""
        for word in plain_words(name).split():
            self._by_word.setdefault(word, {})[name] = None

    def like(self, name: str) -> list[str]:
        """The other names that share a word with a name, or that it abbreviates."""
        texts = (name, *load_abbreviations().get(name, ()))
        words = [word for text in texts for word in plain_words(text).split()]
        return [
            other
            for other in dict.fromkeys(one for word in words for one in self._by_word.get(word, ()))
            if other != name
        ]


async def normalise_names(
    bank: Bank, names: NameIndex, experience: Experience, *, asker: Asker | None, budget: Budget
) -> int:
    """Give the names of an experience's entities their aliases in the bank; returns how many were made."""
    pairs: list[tuple[str, str]] = []
    made = 0
    for entity in experience.entities:
        graph = bank.graph()
        known = [other for other in names.like(entity.name) if graph.entity(other) != graph.entity(entity.name)]
        same = same_by_rule(entity.name, known)
        if same is not None:
            bank.add_alias(entity.name, of=same, reason="the same words")
            made += 1
        else:
            pairs += [(entity.name, other) for other in near_names(entity.name, known)]
        names.add(entity.name)
    if asker is not None and pairs:
        made += await _asked(bank, pairs[:_MOST_ASKED], asker, budget)
    return made


async def _asked(bank: Bank, pairs: Sequence[tuple[str, str]], asker: Asker, budget: Budget) -> int:
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
