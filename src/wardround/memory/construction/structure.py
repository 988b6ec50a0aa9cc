"""Parse an experience into entities in five roles, and normalise their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wardround.clinical.codes import load_abbreviations
from wardround.core import FormatError, load_prompt
from wardround.memory.bank import Bank
from wardround.memory.construction.drafts import AskingBudget, ask_value
from wardround.memory.experience import ALLOWED_ROLE_EDGES, ROLES, Entity, Experience, Role, RoleEdge, normal_name
from wardround.memory.extract import Asker
from wardround.memory.words import plain_words
from wardround.models.schema import object_schema

# Parsing an experience into entities in five roles and the edges between them, by asking a model; whatever is not in
# the text, too long, one too many for its role, or not allowed by the schema is left out and counted.


STRUCTURE_PROMPTS = ("entities", "role_edges")
ROLE_CAPS: Mapping[Role, int] = {"condition": 2, "constraint": 1, "action": 2, "rationale": 1, "outcome": 1}
MOST_ENTITIES = sum(ROLE_CAPS.values())
LONGEST_NAME = 3
_ENTITIES = object_schema(
    {
        "entities": {
            "type": "array",
            "maxItems": 20,
            "items": object_schema({"entity": {"type": "string"}, "role": {"type": "string", "enum": list(ROLES)}}),
        }
    }
)
_EDGES = object_schema(
    {
        "edges": {
            "type": "array",
            "maxItems": 20,
            "items": object_schema({"from": {"type": "string"}, "to": {"type": "string"}}),
        }
    }
)


async def with_structure(asker: Asker, experience: Experience, *, budget: AskingBudget) -> Experience:
    """Return an experience with its structure; without one if the model gave nothing usable. The id stays the same."""
    text = {"condition": experience.condition, "content": experience.content}
    try:
        prompt = load_prompt("wardround.memory", "entities").render(most=MOST_ENTITIES, caps=ROLE_CAPS, **text)
        named = await ask_value(asker, prompt, _ENTITIES, purpose="find_entities", budget=budget)
        entities, left_out = grounded_entities(named["entities"], experience)
        joined: Sequence[Mapping[str, str]] = ()
        if len(entities) > 1:
            prompt = load_prompt("wardround.memory", "role_edges").render(
                entities=entities, allowed=allowed_edges(), **text
            )
            joined = (await ask_value(asker, prompt, _EDGES, purpose="find_role_edges", budget=budget))["edges"]
    except FormatError as error:
        asker.note("structure_failed", {"experience": experience.id, "problem": str(error)})
        return experience
    edges, refused = grounded_edges(joined, entities)
    asker.note("structure", {"experience": experience.id, "left_out": dict(left_out + refused)})
    return replace(experience, entities=entities, role_edges=edges)


def grounded_entities(
    named: Sequence[Mapping[str, Any]], experience: Experience
) -> tuple[tuple[Entity, ...], Counter[str]]:
    """Return the entities that are accepted, in order, and those that were left out."""
    experience_words = set(plain_words(f"{experience.title} {experience.condition} {experience.content}").split())
    kept: dict[str, Entity] = {}
    roles: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for entity in named:
        name, role = normal_name(entity["entity"]), entity["role"]
        words = plain_words(name).split()
        reason = _unfit(name, words, role, experience_words, kept, roles)
        if reason:
            left_out[reason] += 1
            continue
        kept[name] = Entity(name=name, role=role)
        roles[role] += 1
    return tuple(kept.values()), left_out


def grounded_edges(
    joined: Sequence[Mapping[str, str]], entities: Sequence[Entity]
) -> tuple[tuple[RoleEdge, ...], Counter[str]]:
    """Return the edges between known entities in roles that may be joined."""
    roles = {entity.name: entity.role for entity in entities}
    kept: dict[RoleEdge, None] = {}
    left_out: Counter[str] = Counter()
    for edge in joined:
        source, target = normal_name(edge["from"]), normal_name(edge["to"])
        if source not in roles or target not in roles or source == target:
            left_out["edge of no entity"] += 1
        elif roles[target] not in ALLOWED_ROLE_EDGES.get(roles[source], ()):
            left_out["edge not allowed"] += 1
        else:
            kept[RoleEdge(source=source, target=target)] = None
    return tuple(kept), left_out


def allowed_edges() -> list[str]:
    """Return the 15 edges of the schema, as text."""
    return [
        f"{source} -> {target}" for source in ROLES for target in ROLES if target in ALLOWED_ROLE_EDGES.get(source, ())
    ]


def _unfit(
    name: str,
    words: Sequence[str],
    role: Role,
    experience_words: set[str],
    kept: Mapping[str, Entity],
    roles: Counter[str],
) -> str:
    if not 0 < len(words) <= LONGEST_NAME:
        return "not 1 to 3 words"
    if not experience_words.issuperset(words):
        return "not in the text"
    if name in kept:
        return "named twice"
    return "one too many" if roles[role] >= ROLE_CAPS[role] or len(kept) >= MOST_ENTITIES else ""


# Incremental normalisation: which names of entities mean the same. A new name is compared with those that share a word
# with it, never with all; by rule where words differ only in order or ending, by an abbreviation table, and by one
# question to a model for what is left.


NAME_PROMPTS = ("same_name",)
_MOST_SHARING = 50
"""A word that more names have tells nothing of what they mean."""
_MAX_QUESTIONS = 12
_SCHEMA = object_schema({"same": {"type": "array", "items": {"type": "integer"}}})


class NameIndex:
    """The names of a bank's entities by their words, kept up as names come; looking one up takes no longer in a large
    bank."""

    def __init__(self, bank: Bank) -> None:
        self._by_words: dict[tuple[str, ...], dict[str, None]] = {}
        self._by_word: dict[str, dict[str, None]] = {}
        for name in bank.entity_names():
            self.add(name)

    def add(self, name: str) -> None:
        """Add a name."""
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
        made += await _ask_same_name(bank, pairs[:_MAX_QUESTIONS], asker, budget)
    return made


def _other_meanings(bank: Bank, name: str, others: Sequence[str]) -> list[str]:
    """Return the names that do not mean the same as an earlier name."""
    graph = bank.graph()
    own = graph.entity(name)
    return [other for other in others if graph.entity(other) != own]


def _words(name: str) -> tuple[str, ...]:
    return tuple(sorted(plain_words(name).split()))


def _shares_half(first: set[str], second: set[str]) -> bool:
    return 2 * len(first & second) >= len(first | second)


async def _ask_same_name(bank: Bank, pairs: Sequence[tuple[str, str]], asker: Asker, budget: AskingBudget) -> int:
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
