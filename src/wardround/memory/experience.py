"""An experience: what was learned, from which episode, with entities and edges."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal, Protocol, get_args

from wardround.core import content_hash

# What an experience is made of beyond its words: entities in five roles, the edges between them, the rows behind it.
#
# Names are compared in one normal form; which names mean the same is the bank's business (its aliases).


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
    """Return the form in which names of entities are compared: case folded, single spaces."""
    return " ".join(name.casefold().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One entity that an experience names, with the name and the role it has there."""

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
    """Raise ValueError if an edge joins unknown entities, or roles that the schema does not allow."""
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


# An experience: one thing learnt from one episode, with where it came from.


ReflectedKind = Literal["actor", "summariser", "tool", "reasoning"]
REFLECTED_KINDS: tuple[ReflectedKind, ...] = get_args(ReflectedKind)
"""The kinds that a reflection on one episode yields."""
Polarity = Literal["indication", "contraindication"]
POLARITIES: tuple[Polarity, ...] = get_args(Polarity)
"""The kinds that say under which condition something is to be done, or not to be done."""
Kind = Literal[ReflectedKind, Polarity, "note"]
"""A note is what another published memory stored, in its own form (``memory.peers``)."""
KINDS: tuple[Kind, ...] = get_args(Kind)


_SCOPE = frozenset(("condition", "exclusions", "task_type", "entities", "role_edges", "evidence"))


class _Chart(Protocol):
    @property
    def person(self) -> int: ...
    @property
    def spec(self) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A person of a source, by number. Two sources that number the same people alike must be given the same name."""

    source: str
    subject_id: int

    @classmethod
    def of_chart(cls, chart: _Chart) -> Subject:
        """Return the subject of a chart."""
        return cls(source=chart.spec.people, subject_id=chart.person)

    def hashed(self, key: bytes) -> str:
        """Recognise the subject without storing the number: HMAC-SHA-256 under a bank's key, 128 bits of it.

        A pseudonym, not anonymity: who holds bank and key can try every number.
        """
        message = f"{self.source.strip().casefold()}\x1f{self.subject_id}".encode()
        return hmac.new(key, message, sha256).hexdigest()[:32]


def plain_text(text: str) -> str:
    """Text without lone surrogates, which a model can write and a file cannot hold."""
    return text.encode("utf-8", "replace").decode()


def duplicate_key(kind: str, tool: str, texts: Sequence[str], exclusions: Sequence[str]) -> str:
    """Join what an experience shows an agent, without case and blanks; equal keys are duplicates."""
    parts = (kind, tool, *texts, *sorted(exclusions))
    return "\x1f".join(" ".join(part.casefold().split()) for part in parts)


def utc_now() -> str:
    """Return the wall clock, UTC, ISO 8601 to the microsecond. These texts sort in time order."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where an experience came from. ``subject`` is a :meth:`Subject.hashed`; ``prompts`` maps template to hash.

    ``split`` is that of the sample in the benchmark it was drawn from. ``created`` is UTC, ISO 8601.
    """

    sample: str
    subject: str
    split: str
    run: str = ""
    episode: str = ""
    model: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    created: str = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """One item of memory. ``score`` is that of the episode it was drawn from (None: not known); ``tool`` is set exactly
    on kind ``tool``, and on a ``note``, where it is the memory that stored it; ``condition`` and ``task_type`` on
    indications and contraindications, whose ``exclusions`` are phrases that forbid their use. ``id`` follows from what
    it says and where it came from: added twice, it is one."""

    kind: Kind
    title: str
    description: str
    content: str
    task: str
    provenance: Provenance
    score: float | None = None
    tool: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    condition: str = ""
    exclusions: tuple[str, ...] = ()
    task_type: str = ""
    entities: tuple[Entity, ...] = ()
    role_edges: tuple[RoleEdge, ...] = ()
    evidence: tuple[SeenIn, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"an experience is one of {', '.join(KINDS)}, not {self.kind!r}")
        if (self.kind in ("tool", "note")) != bool(self.tool):
            raise ValueError(f"a {self.kind} experience has tool {self.tool!r}")
        if not self.title.strip() or not self.content.strip():
            raise ValueError("an experience needs a title and a content")
        for name in ("title", "description", "content", "condition"):
            object.__setattr__(self, name, plain_text(getattr(self, name)))
        object.__setattr__(self, "exclusions", tuple(map(plain_text, self.exclusions)))
        if self.polar != bool(self.condition.strip()) or self.polar != bool(self.task_type):
            raise ValueError(
                f"a {self.kind} experience has condition {self.condition!r} and task type {self.task_type!r}"
            )
        if self.task_type and self.task_type not in TASK_TYPES:
            raise ValueError(f"an experience has a task type of {', '.join(TASK_TYPES)}, not {self.task_type!r}")
        if not self.polar and (self.exclusions or self.entities or self.role_edges):
            raise ValueError(f"a {self.kind} experience has no exclusions and no entities")
        if not all(exclusion.strip() for exclusion in self.exclusions):
            raise ValueError("an experience has an empty exclusion")
        check_structure(self.entities, self.role_edges)
        if not self.id:
            origin = self.provenance
            parts = [self.kind, self.task, self.tool, self.title, self.description, self.content]
            parts += [origin.sample, origin.subject, origin.run, origin.episode]
            scope = [self.condition, self.task_type, *self.exclusions] if self.polar else []
            object.__setattr__(self, "id", content_hash([*parts, *scope])[:20])

    @property
    def polar(self) -> bool:
        """Return whether it is an indication or a contraindication."""
        return self.kind in POLARITIES

    @property
    def duplicate_key(self) -> str:
        """What the experience shows an agent, without case and blanks. Experiences with equal keys are duplicates."""
        texts = (self.title, self.description, self.condition, self.content)
        return duplicate_key(self.kind, self.tool, texts, self.exclusions)

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows of the record that it shows."""
        return tuple(row for seen in self.evidence for row in seen.rows)

    def revised(self, *, title: str, description: str, content: str, score: float | None) -> Experience:
        """Return the same experience (same id, same origin) in other words."""
        return replace(self, title=title, description=description, content=content, score=score)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict. What only some experiences have is left out of the others."""
        body = asdict(self)
        body["facts"], body["provenance"]["prompts"] = dict(self.facts), dict(self.provenance.prompts)
        return {name: value for name, value in body.items() if value or name not in _SCOPE}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Experience:
        """Read what :meth:`to_json` wrote."""
        scope = {
            "exclusions": tuple(body.get("exclusions", ())),
            "entities": tuple(Entity(**one) for one in body.get("entities", ())),
            "role_edges": tuple(RoleEdge(**one) for one in body.get("role_edges", ())),
            "evidence": tuple(SeenIn(step=one["step"], rows=tuple(one["rows"])) for one in body.get("evidence", ())),
        }
        return cls(**{**body, **scope, "provenance": Provenance(**body["provenance"])})
