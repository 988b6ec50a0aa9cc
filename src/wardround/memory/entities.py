"""What an experience is made of beyond its words: entities in five roles, the edges between them, the rows behind it.

Names are compared in one normal form; which names mean the same is the bank's business (its aliases).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Role = Literal["condition", "constraint", "action", "rationale", "outcome"]
ROLES: tuple[Role, ...] = get_args(Role)
ALLOWED_ROLE_EDGES: Mapping[Role, frozenset[Role]] = MappingProxyType(
    {
        "condition": frozenset(ROLES),
        "constraint": frozenset(("action", "rationale", "outcome")),
        "action": frozenset(("outcome", "rationale", "constraint", "action")),
        "rationale": frozenset(("action", "outcome", "constraint")),
    }
)
"""The 15 edges of the paper's schema: an outcome leads nowhere."""
TaskType = Literal[
    "diagnosis",
    "treatment",
    "medication",
    "procedure",
    "test",
    "transfer",
    "disposition",
    "prognosis",
    "prevention",
    "mechanism",
    "other",
]
TASK_TYPES: tuple[TaskType, ...] = get_args(TaskType)


def normal_name(name: str) -> str:
    """The form in which names of entities are compared: case folded, single spaces."""
    return " ".join(name.casefold().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One thing an experience speaks of, as it is called there, in the role it plays there."""

    name: str
    role: Role

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"an entity of an experience is one of {', '.join(ROLES)}, not {self.role!r}")
        if not normal_name(self.name):
            raise ValueError("an entity of an experience needs a name")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleEdge:
    """One step of an experience's reasoning, between two of its entities by name."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenIn:
    """Where in its episode an experience was seen: a step of the trajectory, and the rows that step showed."""

    step: int
    rows: tuple[str, ...] = ()


def check_structure(entities: tuple[Entity, ...], edges: tuple[RoleEdge, ...]) -> None:
    """Raise ValueError where an edge joins what is not there, or roles that the schema does not let it join."""
    roles = {normal_name(entity.name): entity.role for entity in entities}
    if len(roles) != len(entities):
        raise ValueError("an experience names an entity twice")
    for edge in edges:
        ends = (normal_name(edge.source), normal_name(edge.target))
        if not set(ends) <= roles.keys():
            raise ValueError(f"an experience has no entities for its edge {edge.source!r} to {edge.target!r}")
        source, target = roles[ends[0]], roles[ends[1]]
        if target not in ALLOWED_ROLE_EDGES.get(source, ()):
            raise ValueError(f"an experience may not lead from {source} to {target}")
