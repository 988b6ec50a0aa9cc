"""Construction of a graph of experiences from several attempts at each training sample (section 4.1 of the GSEM paper).

Experiences are drawn, parsed, compared and linked here; which episodes are read and how a killed construction goes on
is the business of ``runs``.
"""

from wardround.memory.construction.drafts import (
    DRAFT_PROMPTS,
    MOST_CALLS,
    AskingBudget,
    Attempt,
    Case,
    Drafting,
    ask_value,
    draw_by_rules,
    names_answer,
    nearest_success,
)
from wardround.memory.construction.linking import (
    SYNERGIES,
    SYNERGY_PROMPTS,
    Comparing,
    Judgement,
    LinkSettings,
    Synergy,
    edges_of,
    relation_by_rule,
    says_the_same,
)
from wardround.memory.construction.structure import (
    NAME_PROMPTS,
    STRUCTURE_PROMPTS,
    NameIndex,
    grounded_edges,
    grounded_entities,
    normalise_names,
    with_structure,
)
from wardround.memory.scope import setting_of

CONSTRUCTION_PROMPTS = (*DRAFT_PROMPTS, *STRUCTURE_PROMPTS, *NAME_PROMPTS, *SYNERGY_PROMPTS)

__all__ = [
    "CONSTRUCTION_PROMPTS",
    "MOST_CALLS",
    "SYNERGIES",
    "AskingBudget",
    "Attempt",
    "Case",
    "Comparing",
    "Drafting",
    "Judgement",
    "LinkSettings",
    "NameIndex",
    "Synergy",
    "ask_value",
    "draw_by_rules",
    "edges_of",
    "grounded_edges",
    "grounded_entities",
    "names_answer",
    "nearest_success",
    "normalise_names",
    "relation_by_rule",
    "says_the_same",
    "setting_of",
    "with_structure",
]
