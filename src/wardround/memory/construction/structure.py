"""Parsing an experience into entities in five roles and the edges between them, by asking a model; whatever is not in
the text, too long, one too many for its role, or not allowed by the schema is left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wardround.core import FormatError, load_prompt
from wardround.memory.construction.asking import AskingBudget, ask_value
from wardround.memory.entities import ALLOWED_ROLE_EDGES, ROLES, Entity, Role, RoleEdge, normal_name
from wardround.memory.experience import Experience
from wardround.memory.extract import Asker
from wardround.memory.words import plain_words

STRUCTURE_PROMPTS = ("entities", "role_edges")
ROLE_CAPS: Mapping[Role, int] = {"condition": 2, "constraint": 1, "action": 2, "rationale": 1, "outcome": 1}
MOST_ENTITIES = sum(ROLE_CAPS.values())
LONGEST_NAME = 3
_ENTITIES = {
    "type": "object",
    "properties": {
        "entities": {
            "type": "array",
            "maxItems": 20,
            "items": {
                "type": "object",
                "properties": {"entity": {"type": "string"}, "role": {"type": "string", "enum": list(ROLES)}},
                "required": ["entity", "role"],
            },
        }
    },
    "required": ["entities"],
}
_EDGES = {
    "type": "object",
    "properties": {
        "edges": {
            "type": "array",
            "maxItems": 20,
            "items": {
                "type": "object",
                "properties": {"from": {"type": "string"}, "to": {"type": "string"}},
                "required": ["from", "to"],
            },
        }
    },
    "required": ["edges"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Entities and edges of one experience, and what was left out, by reason."""

    entities: tuple[Entity, ...]
    edges: tuple[RoleEdge, ...] = ()
    left_out: Mapping[str, int]


async def with_structure(asker: Asker, experience: Experience, *, budget: AskingBudget) -> Experience:
    """An experience with its structure; without one where the model gave nothing usable. Its id stays."""
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
    """The entities that may stand, in order, and what was left out."""
    said = set(plain_words(f"{experience.title} {experience.condition} {experience.content}").split())
    kept: dict[str, Entity] = {}
    roles: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for one in named:
        name, role = normal_name(one["entity"]), one["role"]
        words = plain_words(name).split()
        reason = _unfit(name, words, role, said, kept, roles)
        if reason:
            left_out[reason] += 1
            continue
        kept[name] = Entity(name=name, role=role)
        roles[role] += 1
    return tuple(kept.values()), left_out


def grounded_edges(
    joined: Sequence[Mapping[str, str]], entities: Sequence[Entity]
) -> tuple[tuple[RoleEdge, ...], Counter[str]]:
    """The edges between entities that there are, in roles that may be joined."""
    roles = {entity.name: entity.role for entity in entities}
    kept: dict[RoleEdge, None] = {}
    left_out: Counter[str] = Counter()
    for one in joined:
        source, target = normal_name(one["from"]), normal_name(one["to"])
        if source not in roles or target not in roles or source == target:
            left_out["edge of no entity"] += 1
        elif roles[target] not in ALLOWED_ROLE_EDGES.get(roles[source], ()):
            left_out["edge not allowed"] += 1
        else:
            kept[RoleEdge(source=source, target=target)] = None
    return tuple(kept), left_out


def allowed_edges() -> list[str]:
    """The 15 edges of the schema, as text."""
    return [
        f"{source} -> {target}" for source in ROLES for target in ROLES if target in ALLOWED_ROLE_EDGES.get(source, ())
    ]


def _unfit(
    name: str, words: Sequence[str], role: Role, said: set[str], kept: Mapping[str, Entity], roles: Counter[str]
) -> str:
    if not 0 < len(words) <= LONGEST_NAME:
        return "not 1 to 3 words"
    if not said.issuperset(words):
        return "not in the text"
    if name in kept:
        return "named twice"
    return "one too many" if roles[role] >= ROLE_CAPS[role] or len(kept) >= MOST_ENTITIES else ""
