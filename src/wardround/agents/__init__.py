"""Agents: one loop, and methods as compositions over it. They see a model, an environment, a bank; never a target."""

from wardround.agents.catalogue import (
    ADDITIONS,
    AGENTS,
    Addition,
    AgentName,
    Budget,
    Method,
    NoSettings,
    Paper,
    get_agent,
    get_method,
    kinds_read,
    list_agents,
)
from wardround.agents.loop.calls import Observation
from wardround.agents.loop.context import (
    CONTEXT_POLICIES,
    Block,
    ContextFactory,
    ContextPolicy,
    Decision,
    EstimatedTokens,
    FileTokens,
    FullContext,
    History,
    Rendered,
    TokenCounter,
)
from wardround.agents.loop.episode import Ending, Episode, Exchange, Finish, Limits, Outcome, Prompt, Recorder
from wardround.agents.loop.loop import AgentSpec, Hooks, LoopSettings, check_question, run_episode
from wardround.agents.loop.steps import (
    PredictedAction,
    StepFeed,
    StepPlayer,
    StepPrediction,
    answer_of,
)
from wardround.agents.methods.react import ReflexionSettings
from wardround.agents.methods.reflectool import RefinementSettings, SelectionSettings
from wardround.agents.methods.retrosum import SummarySettings
from wardround.agents.recall import Memory

__all__ = [
    "ADDITIONS",
    "AGENTS",
    "CONTEXT_POLICIES",
    "Addition",
    "AgentName",
    "AgentSpec",
    "Block",
    "Budget",
    "ContextFactory",
    "ContextPolicy",
    "Decision",
    "Ending",
    "Episode",
    "EstimatedTokens",
    "Exchange",
    "FileTokens",
    "Finish",
    "FullContext",
    "History",
    "Hooks",
    "Limits",
    "LoopSettings",
    "Memory",
    "Method",
    "NoSettings",
    "Observation",
    "Outcome",
    "Paper",
    "PredictedAction",
    "Prompt",
    "Recorder",
    "RefinementSettings",
    "ReflexionSettings",
    "Rendered",
    "SelectionSettings",
    "StepFeed",
    "StepPlayer",
    "StepPrediction",
    "SummarySettings",
    "TokenCounter",
    "answer_of",
    "check_question",
    "get_agent",
    "get_method",
    "kinds_read",
    "list_agents",
    "run_episode",
]
