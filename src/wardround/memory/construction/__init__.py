"""Construction of a graph of experiences from several attempts at each training sample (section 4.1 of the GSEM paper).

Experiences are drawn, parsed, compared and linked here; which episodes are read and how a killed construction goes on
is the business of ``runs``.
"""

from wardround.memory.construction.asking import MOST_CALLS, AskingBudget, ask_value
from wardround.memory.construction.attempts import Attempt, Case, nearest_success
from wardround.memory.construction.drafts import DRAFT_PROMPTS, Drafting, names_answer
from wardround.memory.construction.duplicates import says_the_same
from wardround.memory.construction.linking import Comparing, LinkSettings, edges_of, relation_by_rule
from wardround.memory.construction.names import NAME_PROMPTS, NameIndex, normalise_names
from wardround.memory.construction.rules import CONSTRUCTION_RULES, draw_by_rules
from wardround.memory.construction.structure import (
    ROLE_CAPS,
    STRUCTURE_PROMPTS,
    grounded_edges,
    grounded_entities,
    with_structure,
)
from wardround.memory.construction.synergy import SYNERGIES, SYNERGY_PROMPTS, Judgement, Synergy, judge_pair
from wardround.memory.setting import setting_of

CONSTRUCTION_PROMPTS = (*DRAFT_PROMPTS, *STRUCTURE_PROMPTS, *NAME_PROMPTS, *SYNERGY_PROMPTS)

__all__ = [
    "CONSTRUCTION_PROMPTS",
    "CONSTRUCTION_RULES",
    "MOST_CALLS",
    "ROLE_CAPS",
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
    "judge_pair",
    "names_answer",
    "nearest_success",
    "normalise_names",
    "relation_by_rule",
    "says_the_same",
    "setting_of",
    "with_structure",
]
