"""The roles of a stay, run bundle by bundle (TRACE, section 3.3), in code or by the model."""

from wardround.agents.stays.charted import StateFacts
from wardround.agents.stays.model_roles import REFLECTOR
from wardround.agents.stays.player import CodedRoles, Parts, TracePlayer, coded_roles
from wardround.agents.stays.router import PRIOR, HeldRule, RuleMemory, due_actions
from wardround.agents.stays.settings import TraceSettings
from wardround.agents.stays.steward import newest_bundles, shown_state

__all__ = [
    "PRIOR",
    "REFLECTOR",
    "CodedRoles",
    "HeldRule",
    "Parts",
    "RuleMemory",
    "StateFacts",
    "TracePlayer",
    "TraceSettings",
    "coded_roles",
    "due_actions",
    "newest_bundles",
    "shown_state",
]
