"""S_synergy: how much two experiences are worth together. The default asks for joint use, which is what the paper
defines; its released prompt asks for likeness, and is the published option. What nobody judged is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from wardround.core import FormatError, load_prompt
from wardround.memory.construction.asking import AskingBudget, ask_value
from wardround.memory.edges import RELATIONS, Relation
from wardround.memory.experience import Experience
from wardround.memory.extract import Asker

Synergy = Literal["joint_use", "similarity", "unjudged"]
SYNERGIES: tuple[Synergy, ...] = get_args(Synergy)
SYNERGY_PROMPTS = ("joint_use", "similarity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was judged of a pair; ``relation`` only where joint use was asked for."""

    value: float | None
    relation: Relation | None = None


async def judge_pair(
    asker: Asker, first: Experience, second: Experience, *, synergy: Synergy, budget: AskingBudget
) -> Judgement:
    """Ask about a pair; unjudged where the budget is spent or the reply cannot be read."""
    if synergy == "unjudged":
        return Judgement(value=None)
    prompt = load_prompt("wardround.memory", synergy).render(first=first, second=second)
    try:
        value = await ask_value(asker, prompt, _schema(synergy), purpose=f"judge_{synergy}", budget=budget)
    except FormatError as error:
        asker.note("synergy_unjudged", {"pair": [first.id, second.id], "problem": str(error)})
        return Judgement(value=None)
    return Judgement(value=float(value[synergy]), relation=value.get("relation"))


def _schema(synergy: Synergy) -> Mapping[str, Any]:
    properties: dict[str, Any] = {
        synergy: {"type": "number", "minimum": 0, "maximum": 1},
        "reason": {"type": "string"},
    }
    if synergy == "joint_use":
        properties["relation"] = {"type": "string", "enum": list(RELATIONS)}
    return {"type": "object", "properties": properties, "required": [synergy]}
