"""Memory: the bank of experiences, how they are drawn from episodes, and how they are shown again.

A bank never serves an experience to the subject it came from, nor one from outside the training split.
"""

from wardround.memory.bank import Bank
from wardround.memory.contamination import ContaminationReport, Finding, contamination_check
from wardround.memory.experience import (
    KINDS,
    POLARITIES,
    REFLECTED_KINDS,
    ROLES,
    Entity,
    Experience,
    Kind,
    Polarity,
    Provenance,
    ReflectedKind,
    RoleEdge,
    SeenIn,
    Subject,
)
from wardround.memory.extract import (
    Asker,
    Extraction,
    ModelAsker,
    ParsedItem,
    extract_experiences,
    extract_reasoning,
    extract_tool_advice,
    judge_success,
    parse_experiences,
)
from wardround.memory.graph import GraphReader
from wardround.memory.graph_recall import (
    GraphCase,
    GraphRecall,
    GraphRecallSettings,
    OfferedExperience,
    recall_by_graph,
)
from wardround.memory.keys import Key, KeyEncoder, chart_key, text_key
from wardround.memory.material import Material, ReducedText, reduced_trajectory, trajectory_messages
from wardround.memory.phrases import Findings, findings_of_chart, findings_of_text
from wardround.memory.reading import BankReader, Feedback, PinnedBank
from wardround.memory.recall import RecallHit, RecallQuestion, SeedRecall, SeedSettings
from wardround.memory.reflector import RuleReflector
from wardround.memory.rows import Edge, RevisionEntry
from wardround.memory.scope import CheckedPhrase, KnownCase, Scope, known_case, scope_of
from wardround.memory.serve import GRAPH_PROMPT, ServedText, render_experiences, render_offered
from wardround.memory.settings import MemorySettings
from wardround.memory.state import BankState, Match, Recall
from wardround.memory.transfer import Imported, export_bank, import_bank
from wardround.memory.upkeep import (
    BankAudit,
    ForgetReport,
    RollbackReport,
    WithdrawalReport,
    audit_bank,
    forget,
    undo,
    withdraw,
)
from wardround.memory.walk import (
    ACTIONS,
    Action,
    CollectedExperience,
    Neighbour,
    PathEnd,
    Skipped,
    Traversal,
    Walk,
    WalkSettings,
    may_be_served,
    walk,
)

__all__ = [
    "ACTIONS",
    "GRAPH_PROMPT",
    "KINDS",
    "POLARITIES",
    "REFLECTED_KINDS",
    "ROLES",
    "Action",
    "Asker",
    "Bank",
    "BankAudit",
    "BankReader",
    "BankState",
    "CheckedPhrase",
    "CollectedExperience",
    "ContaminationReport",
    "Edge",
    "Entity",
    "Experience",
    "Extraction",
    "Feedback",
    "Finding",
    "Findings",
    "ForgetReport",
    "GraphCase",
    "GraphReader",
    "GraphRecall",
    "GraphRecallSettings",
    "Imported",
    "Key",
    "KeyEncoder",
    "Kind",
    "KnownCase",
    "Match",
    "Material",
    "MemorySettings",
    "ModelAsker",
    "Neighbour",
    "OfferedExperience",
    "ParsedItem",
    "PathEnd",
    "PinnedBank",
    "Polarity",
    "Provenance",
    "Recall",
    "RecallHit",
    "RecallQuestion",
    "ReducedText",
    "ReflectedKind",
    "RevisionEntry",
    "RoleEdge",
    "RollbackReport",
    "RuleReflector",
    "Scope",
    "SeedRecall",
    "SeedSettings",
    "SeenIn",
    "ServedText",
    "Skipped",
    "Subject",
    "Traversal",
    "Walk",
    "WalkSettings",
    "WithdrawalReport",
    "audit_bank",
    "chart_key",
    "contamination_check",
    "export_bank",
    "extract_experiences",
    "extract_reasoning",
    "extract_tool_advice",
    "findings_of_chart",
    "findings_of_text",
    "forget",
    "import_bank",
    "judge_success",
    "known_case",
    "may_be_served",
    "parse_experiences",
    "recall_by_graph",
    "reduced_trajectory",
    "render_experiences",
    "render_offered",
    "scope_of",
    "text_key",
    "trajectory_messages",
    "undo",
    "walk",
    "withdraw",
]
