"""After ReMe (Cao et al., 2025): procedural memory. Lessons of successes, failures and their comparison, each with when
to use it, validated before it is kept, found by that scenario, and pruned where it did not help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.memory.construction.drafts import Attempt, Case, draw_by_rules
from wardround.memory.construction.linking import SAME, words_in_common
from wardround.memory.experience import Experience
from wardround.memory.material import reduced_trajectory
from wardround.memory.peer import (
    USED,
    NewNote,
    NoteChanges,
    Peer,
    PeerAsking,
    PeerCase,
    PeerMemory,
    PeerSettings,
    Remembered,
    best_attempt,
    note_of,
    without_identifiers,
)
from wardround.models.schema import object_schema

SOURCES = ("success", "failure", "comparison")
LEAST_VALUE = 0.3
"""A lesson that is judged lower is not kept (released code)."""
LEAST_USES, LEAST_UTILITY = 5, 0.5
"""A lesson that was used so often, and helped in less than this share of its uses, is dropped (released code)."""
_COMPARED = 5
_TEXT = {"type": "string", "minLength": 1, "maxLength": 1_200}
_LESSON = object_schema(
    {
        "source": {"type": "string", "enum": list(SOURCES)},
        "title": {"type": "string", "minLength": 1, "maxLength": 200},
        "when_to_use": {"type": "string", "minLength": 1, "maxLength": 600},
        "content": _TEXT,
    }
)
_LESSONS = {"type": "array", "items": _LESSON, "maxItems": 6}
_VALUES = {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Utility:
    """How often a lesson was shown, and in how many of these episodes the answer was right."""

    uses: int
    helped: float

    @property
    def is_spent(self) -> bool:
        """Return whether it was tried often enough and helped too seldom."""
        return self.uses >= LEAST_USES and self.helped / self.uses < LEAST_UTILITY


async def distil(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
    """Lessons of a case's successes and failures that were judged worth keeping; by rules, none is judged."""
    if asking is None:
        return [
            _lesson(
                case,
                {
                    "source": _SOURCE_OF[draw_by_rule.kind],
                    "when_to_use": draw_by_rule.condition,
                    "title": draw_by_rule.title,
                    "content": draw_by_rule.content,
                },
            )
            for draw_by_rule in draw_by_rules(case)
        ]
    texts = {
        "question": without_identifiers(best_attempt(case).material.question),
        "successes": _trajectories(case.successes, settings),
        "failures": _trajectories(case.failures, settings),
    }
    lessons = await asking.value("reme_distil", _LESSONS, **texts)
    if not lessons:
        return []
    values = await asking.value("reme_validate", _VALUES, lessons=lessons, **texts)
    kept = [(one, value) for one, value in zip(lessons, values, strict=False) if value >= LEAST_VALUE]
    return [_lesson(case, one, value=value, **asking.origin) for one, value in kept]


async def settle_lesson(note: Experience, memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Keep a lesson unless one of its neighbours says the same already."""
    near = memory.nearest(scenario_of(note), limit=_COMPARED)
    if any(words_in_common(note.content, other.content) >= SAME for other, _ in near):
        memory.counts["said already"] += 1
        return NoteChanges()
    return NoteChanges(new=(NewNote(note=note),))


async def prune(memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Drop the lessons that were used and did not help."""
    found = {note.id: utility_of(memory, note.id) for note in memory.notes()}
    return NoteChanges(
        dropped={
            name: f"helped {utility.helped:g} of {utility.uses} times"
            for name, utility in found.items()
            if utility.is_spent
        }
    )


def utility_of(memory: PeerMemory, note: str) -> Utility:
    """Return the results of training episodes that were shown a lesson."""
    values = [event.value or 0.0 for event in memory.bank.feedback(note) if event.kind == USED]
    return Utility(uses=len(values), helped=sum(values))


def recall_lessons(case: PeerCase) -> Sequence[Remembered]:
    """Return the lessons whose scenario is nearest to the case."""
    return case.by_meaning()


def scenario_of(note: Experience) -> str:
    """Return when to use a lesson: the text by which the lesson is found."""
    return note.description


def _lesson(case: Case, fields: Mapping[str, Any], value: float | None = None, **origin: Any) -> Experience:
    return note_of(
        case,
        "reme",
        title=fields["title"],
        description=f"When: {fields['when_to_use']}",
        content=fields["content"],
        facts={"source": fields["source"], "value": value},
        **origin,
    )


def _trajectories(attempts: Sequence[Attempt], settings: PeerSettings) -> list[str]:
    texts = (reduced_trajectory(attempt.material.messages, settings.document_tokens).text for attempt in attempts)
    return [without_identifiers(text) for text in texts]


_SOURCE_OF = {"indication": "success", "contraindication": "failure"}

REME = Peer(
    name="reme",
    title="after ReMe: lessons with their scenario, validated, pruned by use (Cao et al., 2025)",
    draw=distil,
    settle=settle_lesson,
    close=prune,
    recall=recall_lessons,
    keyed_by=scenario_of,
    adapted=True,
    prompts=("reme_distil", "reme_validate"),
    differences=(
        "one call distils successes, failures and their comparison; the published method makes one call each",
        "duplicates are found by their words; in the published method by similar vectors",
        "use is counted in training runs of `reme` given to `memory build`; in the published method during the test",
        "ranking and rewriting for the case are one call; a reply that cannot be used leaves the lessons as recalled",
    ),
)
