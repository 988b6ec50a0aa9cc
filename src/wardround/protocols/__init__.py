"""Protocols: an institution's rules as people write them, and what makes their triggers plain code.

Reads, checks, compares and indexes rules. Knows no model and no agent; ``Facts`` says what a rule may ask.
"""

from wardround.protocols.conditions import (
    RELATIONS,
    AtLevel,
    AtValue,
    Condition,
    HoursSince,
    Joined,
    Moving,
    Negated,
    Node,
    Stated,
    Truth,
    conditions_of,
    spell,
)
from wardround.protocols.examples import ExampleResult, ProtocolExample, check_examples, read_examples
from wardround.protocols.facts import (
    ChartedValue,
    Direction,
    DrugKey,
    Facts,
    GivenFacts,
    Level,
    drug_key,
    drug_keys,
    is_allergy,
    is_drug,
    is_problem,
)
from wardround.protocols.file import protocol_text, read_protocol, write_protocol
from wardround.protocols.index import CompiledRule, RuleIndex, asked_keys, compile_rule, keys_of
from wardround.protocols.language import Trigger, compile_trigger
from wardround.protocols.lint import ProtocolFault, lint_protocol
from wardround.protocols.meaning import can_hold_together, implies, is_same
from wardround.protocols.merge import MergedProtocol, ProtocolDiff, diff_protocols, found_rules, merge_protocols
from wardround.protocols.planted import planted_rules
from wardround.protocols.rules import (
    FORBIDDING,
    ActionKind,
    Dose,
    GlobalProtocol,
    InducedFrom,
    ProtocolRule,
    RuleAction,
    RuleOrigin,
    Verb,
)

__all__ = [
    "FORBIDDING",
    "RELATIONS",
    "ActionKind",
    "AtLevel",
    "AtValue",
    "ChartedValue",
    "CompiledRule",
    "Condition",
    "Direction",
    "Dose",
    "DrugKey",
    "ExampleResult",
    "Facts",
    "GivenFacts",
    "GlobalProtocol",
    "HoursSince",
    "InducedFrom",
    "Joined",
    "Level",
    "MergedProtocol",
    "Moving",
    "Negated",
    "Node",
    "ProtocolDiff",
    "ProtocolExample",
    "ProtocolFault",
    "ProtocolRule",
    "RuleAction",
    "RuleIndex",
    "RuleOrigin",
    "Stated",
    "Trigger",
    "Truth",
    "Verb",
    "asked_keys",
    "can_hold_together",
    "check_examples",
    "compile_rule",
    "compile_trigger",
    "conditions_of",
    "diff_protocols",
    "drug_key",
    "drug_keys",
    "found_rules",
    "implies",
    "is_allergy",
    "is_drug",
    "is_problem",
    "is_same",
    "keys_of",
    "lint_protocol",
    "merge_protocols",
    "planted_rules",
    "protocol_text",
    "read_examples",
    "read_protocol",
    "spell",
    "write_protocol",
]
