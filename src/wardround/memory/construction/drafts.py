"""Draft indications and contraindications from several attempts, by a model or by rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wardround.core import FormatError, Message, PromptFile, load_prompt
from wardround.memory.experience import TASK_TYPES, Entity, Experience, Polarity, Provenance, RoleEdge, SeenIn, TaskType
from wardround.memory.extract import Asker, Room
from wardround.memory.material import Material, reduced_trajectory
from wardround.memory.reflector import tables_naming_answers, tables_read
from wardround.memory.words import plain_words
from wardround.models import Reply, ask_for_value
from wardround.models.schema import object_schema

# The material of construction: several attempts at one training sample, some of them successes.


_COMPARED_TOKENS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One trajectory: its episode, what it left behind, the rows that each of its steps showed."""

    episode: str
    material: Material
    success: bool
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One training sample with its attempts. ``setting``: phrases that say which patient this was, without identity;
    ``description``: what the record looked like then; ``provenance`` is that of the sample, without an episode."""

    provenance: Provenance
    attempts: tuple[Attempt, ...]
    setting: tuple[str, ...] = ()
    description: str = ""

    @property
    def successes(self) -> tuple[Attempt, ...]:
        """The attempts that succeeded."""
        return tuple(attempt for attempt in self.attempts if attempt.success)

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """The attempts that failed."""
        return tuple(attempt for attempt in self.attempts if not attempt.success)


def evidence_of(attempts: Sequence[Attempt]) -> tuple[SeenIn, ...]:
    """Return every row that some attempts showed, once each, at the step that showed it first. A lesson from these
    attempts may rest on any of these rows, whichever steps it cites."""
    seen: set[str] = set()
    found: list[SeenIn] = []
    for attempt in attempts:
        for step, rows in enumerate(attempt.rows, start=1):
            fresh = tuple(row for row in dict.fromkeys(rows) if row not in seen)
            seen.update(fresh)
            if fresh:
                found.append(SeenIn(step=step, rows=fresh))
    return tuple(found)


def nearest_success(failure: Attempt, successes: Sequence[Attempt]) -> Attempt | None:
    """Return the success whose trajectory shares most words with a failure's; None without a success. The earliest wins
    a tie."""
    own = _words(failure)
    return max(successes, key=lambda attempt: (_overlap(own, _words(attempt)), -successes.index(attempt)), default=None)


def _words(attempt: Attempt) -> frozenset[str]:
    text = reduced_trajectory(attempt.material.messages, _COMPARED_TOKENS).text
    return frozenset(plain_words(text).split())


def _overlap(first: frozenset[str], second: frozenset[str]) -> float:
    union = first | second
    return len(first & second) / len(union) if union else 0.0


# Asking a model for a value of a schema: one repair, every call recorded and counted against a budget.


MOST_CALLS = 12
"""The most model calls that the graph of one experience may take, repairs included."""


@dataclass(slots=True, kw_only=True)
class AskingBudget:
    """How many more calls are allowed; ``calls`` and ``refused`` count the calls made and those over the limit."""

    left: int = MOST_CALLS
    calls: int = 0
    refused: int = 0

    def take(self) -> bool:
        """Use one call, if one is left; return whether it was."""
        if not self.left:
            self.refused += 1
            return False
        self.left -= 1
        self.calls += 1
        return True


async def ask_value(
    asker: Asker, text: str, schema: Mapping[str, Any], *, purpose: str, budget: AskingBudget | None = None
) -> Any:
    """Ask for a value of a JSON schema; ask once more, with the problem, if the reply is invalid.

    Raises FormatError if the second reply is invalid too, or if the budget is spent.
    """

    async def ask(messages: Sequence[Message]) -> Reply:
        if budget is not None and not budget.take():
            raise FormatError("no call was left", correction="no call was left")
        return await asker.ask(messages, purpose=purpose, schema=schema)

    try:
        return await ask_for_value(ask, [Message(role="user", content=text)], schema)
    except FormatError as error:
        raise FormatError(f"{purpose}: {error}", correction=error.correction) from error


# Drawing indications and contraindications from the attempts at a sample by asking a model (section 4.1).
#
# Indications come of all successes together; every failure gives one contraindication, by way of where it parted from
# the success most like it. Where nothing succeeded, a failure is compared with the right answer alone.


DRAFT_PROMPTS = ("indication", "divergence", "contraindication")
MOST_INDICATIONS = 2
DIVERGENCE_FIELDS = ("divergence_step", "success_decision", "failure_decision", "why_fatal", "consequence")
_TEXT = {"type": "string", "minLength": 1, "maxLength": 2_000}
_DRAFT = object_schema(
    {
        "title": {"type": "string", "minLength": 1, "maxLength": 200},
        "condition": {"type": "string", "minLength": 1, "maxLength": 600},
        "exclusions": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}},
        "content": _TEXT,
        "task_type": {"type": "string", "enum": list(TASK_TYPES)},
        "steps": {"type": "array", "items": {"type": "integer"}},
    },
    optional=(
        "exclusions",
        "steps",
    ),
)
_DIVERGENCE = {
    "type": "object",
    "properties": {"divergence_step": {"type": "integer"}, **dict.fromkeys(DIVERGENCE_FIELDS[1:], _TEXT)},
    "required": list(DIVERGENCE_FIELDS),
}
_LEAST_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """What drawing from a case takes: who asks, and how much room a prompt has."""

    asker: Asker
    room: Room = field(default_factory=Room)

    async def indications(self, case: Case) -> tuple[Experience, ...]:
        """Return one or two experiences drawn from all successes; none without a success. Raises FormatError."""
        if not case.successes:
            return ()
        prompt, first = _prompt("indication"), case.successes[0]
        values = {"question": first.material.question, "setting": list(case.setting), **_task_types()}
        text = self._filled(prompt, {"attempts": list(case.successes)}, values)
        schema = {"type": "array", "items": _DRAFT, "minItems": 1, "maxItems": MOST_INDICATIONS}
        drafts = await ask_value(self.asker, text, schema, purpose="draw_indication")
        origin = _origin(case, first, (prompt,))
        facts = {"attempts": [attempt.episode for attempt in case.attempts], "successes": len(case.successes)}
        return tuple(_experience(draft, "indication", case.successes, origin, facts) for draft in drafts)

    async def contraindication(self, case: Case, failure: Attempt) -> Experience:
        """Return the one experience drawn from a failure. Raises FormatError."""
        success = nearest_success(failure, case.successes)
        divergence = await self._divergence(failure, success)
        prompt = _prompt("contraindication")
        values = {
            "question": failure.material.question,
            "setting": list(case.setting),
            **_task_types(),
            **{name: divergence[name] for name in DIVERGENCE_FIELDS},
        }
        text = self._filled(prompt, {"failure": [failure], "success": _listed(success)}, values)
        draft = await ask_value(self.asker, text, _DRAFT, purpose="draw_contraindication")
        steps = draft.get("steps") or [divergence["divergence_step"]]
        facts = {
            "divergence": {name: divergence[name] for name in DIVERGENCE_FIELDS},
            "nearest_success": "" if success is None else success.episode,
            "successes": len(case.successes),
        }
        origin = _origin(case, failure, (_prompt("divergence"), prompt))
        return _experience({**draft, "steps": steps}, "contraindication", (failure, *_listed(success)), origin, facts)

    async def _divergence(self, failure: Attempt, success: Attempt | None) -> Mapping[str, Any]:
        material = failure.material
        values = {
            "question": material.question,
            "target": list(material.target or ()),
            "prediction": list(material.prediction or ()),
        }
        text = self._filled(_prompt("divergence"), {"failure": [failure], "success": _listed(success)}, values)
        found: Mapping[str, Any] = await ask_value(self.asker, text, _DIVERGENCE, purpose="find_divergence")
        return found

    def _filled(self, prompt: PromptFile, attempts: Mapping[str, list[Attempt]], values: Mapping[str, Any]) -> str:
        """Fill a template; the trajectories share what room the rest leaves, the newest turns longest."""
        frame = self.room.count(
            prompt.render(**{name: ["" for _ in some] for name, some in attempts.items()}, **values)
        )
        count = sum(map(len, attempts.values())) or 1
        share = max(_LEAST_TOKENS, (self.room.context_tokens - self.room.reply_tokens - frame) // count)
        texts = {
            name: [reduced_trajectory(attempt.material.messages, share, count=self.room.count).text for attempt in some]
            for name, some in attempts.items()
        }
        return prompt.render(**texts, **values)


def names_answer(text: str, target: Sequence[str] | None) -> bool:
    """Return whether a text holds every word of one of the right answers."""
    words = set(plain_words(text).split())
    wanted = [set(plain_words(label).split()) for label in target or ()]
    return any(label and label <= words for label in wanted)


def _experience(
    draft: Mapping[str, Any], kind: Polarity, seen: Sequence[Attempt], origin: Provenance, facts: Mapping[str, Any]
) -> Experience:
    material = seen[0].material
    text = f"{draft['title']} {draft['condition']} {draft['content']}"
    return Experience(
        kind=kind,
        title=draft["title"],
        description="",
        content=draft["content"],
        condition=draft["condition"],
        exclusions=tuple(exclusion for exclusion in draft.get("exclusions", ()) if exclusion.strip()),
        task=material.task,
        task_type=draft["task_type"],
        score=material.score,
        provenance=origin,
        evidence=evidence_of(seen),
        facts={**facts, "cited_steps": draft.get("steps", []), "names_answer": names_answer(text, material.target)},
    )


def _origin(case: Case, attempt: Attempt, prompts: Sequence[PromptFile]) -> Provenance:
    hashes = {prompt.name: prompt.sha256 for prompt in prompts}
    return replace(case.provenance, episode=attempt.episode, prompts={**case.provenance.prompts, **hashes})


def _listed(attempt: Attempt | None) -> list[Attempt]:
    return [] if attempt is None else [attempt]


def _task_types() -> dict[str, Any]:
    return {"task_types": list(TASK_TYPES)}


def _prompt(name: str) -> PromptFile:
    return load_prompt("wardround.memory", name)


# Indications and contraindications by rules, without a language model: a baseline, and named so.
#
# An attempt's success tells which tables named what was right; a failure, which tables the success most like it read
# and it did not. Nothing of the right answer itself is written down.


CONSTRUCTION_RULES = "construction-rules-1"
_MOST_TABLES = 3
_TASK_WORDS: Sequence[tuple[str, TaskType]] = (
    ("diagnos", "diagnosis"),
    ("prescription", "medication"),
    ("medication", "medication"),
    ("procedure", "procedure"),
    ("lab", "test"),
    ("microbio", "test"),
    ("transfer", "transfer"),
    ("disposition", "disposition"),
    ("hospitalization", "disposition"),
    ("discharge", "disposition"),
    ("mortality", "prognosis"),
    ("readmission", "prognosis"),
)
_OUTCOME = Entity(name="right answer", role="outcome")


def draw_by_rules(case: Case) -> tuple[Experience, ...]:
    """Return one indication of a successful attempt, and one contraindication of each failure that explains itself."""
    found = [_indication(case, one) for one in case.successes[:1]]
    found += [_contraindication(case, failure) for failure in case.failures]
    unique = {one.content: one for one in found if one is not None}
    return tuple(unique.values())


def _indication(case: Case, success: Attempt) -> Experience | None:
    tables = tables_naming_answers(success.material)[:_MOST_TABLES]
    if not tables:
        return None
    listed = ", ".join(tables)
    content = f"Read {listed} early: in this case rows of {listed} led to the right answer."
    return _rule_experience(case, success, "indication", f"Start from {listed}", content, tables)


def _contraindication(case: Case, failure: Attempt) -> Experience | None:
    success = nearest_success(failure, case.successes)
    read = tables_read(failure.material)
    known = tables_naming_answers(success.material) if success is not None else ()
    missed = [table for table in known if table not in read][:_MOST_TABLES]
    if missed:
        listed = ", ".join(missed)
        content = f"Do not finish before reading {listed}: rows of {listed} led to the right answer elsewhere."
        return _rule_experience(case, failure, "contraindication", f"Finishing without {listed}", content, missed)
    if not read:
        return None
    listed = ", ".join(read[:_MOST_TABLES])
    content = f"Do not settle after reading only {listed}: in this case that did not lead to the right answer."
    return _rule_experience(case, failure, "contraindication", f"Settling after {listed}", content, read[:_MOST_TABLES])


def _rule_experience(
    case: Case, attempt: Attempt, kind: Polarity, title: str, content: str, tables: Sequence[str]
) -> Experience:
    task = attempt.material.task
    actions = [Entity(name=table, role="action") for table in tables[:2]]
    question = Entity(name=f"{task} question", role="condition")
    entities = (question, *actions, _OUTCOME)
    edges = [RoleEdge(source=question.name, target=action.name) for action in actions]
    edges += [RoleEdge(source=action.name, target=_OUTCOME.name) for action in actions]
    return Experience(
        kind=kind,
        title=title,
        description="",
        content=content,
        condition="; ".join((question.name, *case.setting)),
        task=task,
        task_type=next((named for word, named in _TASK_WORDS if word in task.casefold()), "other"),
        score=attempt.material.score,
        provenance=replace(case.provenance, episode=attempt.episode, model=CONSTRUCTION_RULES),
        entities=entities,
        role_edges=tuple(edges),
        evidence=evidence_of((attempt, *case.successes)),
        facts={"names_answer": False, "successes": len(case.successes)},
    )
