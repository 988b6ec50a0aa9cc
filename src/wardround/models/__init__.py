"""Models: language-model clients and what answers like one (scripted, replayed, played by hand, rule-based).

Nothing here knows records, tools or agents.
"""

from wardround.models.client import ChatModel
from wardround.models.endpoint import Endpoint, RetryPolicy
from wardround.models.guard import DataUseGuard
from wardround.models.offline import OfflineModel
from wardround.models.opening import (
    MODELS,
    ModelConfig,
    ModelEntry,
    ModelOptions,
    NamedModel,
    find_model,
    list_models,
    open_model,
)
from wardround.models.protocol import USAGE_FIELDS, FinishReason, Model, ModelSettings, Reply, Request
from wardround.models.relay import RelayModel
from wardround.models.replay import (
    Recorded,
    RecordedModel,
    ReplayModel,
    ScriptedModel,
    beside,
    call,
    calls,
    recorded_replies,
    reply_of,
    resumed,
    say,
)
from wardround.models.schema import (
    LabelScores,
    Structured,
    ask_for_value,
    complete_structured,
    read_value,
    score_labels,
)
from wardround.models.schema_calls import TOOL_CALLS
from wardround.models.tool_questions import AskOwnModel, EpisodeQuestions, ask_alone

__all__ = [
    "MODELS",
    "TOOL_CALLS",
    "USAGE_FIELDS",
    "AskOwnModel",
    "ChatModel",
    "DataUseGuard",
    "Endpoint",
    "EpisodeQuestions",
    "FinishReason",
    "LabelScores",
    "Model",
    "ModelConfig",
    "ModelEntry",
    "ModelOptions",
    "ModelSettings",
    "NamedModel",
    "OfflineModel",
    "Recorded",
    "RecordedModel",
    "RelayModel",
    "ReplayModel",
    "Reply",
    "Request",
    "RetryPolicy",
    "ScriptedModel",
    "Structured",
    "ask_alone",
    "ask_for_value",
    "beside",
    "call",
    "calls",
    "complete_structured",
    "find_model",
    "list_models",
    "open_model",
    "read_value",
    "recorded_replies",
    "reply_of",
    "resumed",
    "say",
    "score_labels",
]
