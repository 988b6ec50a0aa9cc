"""Log: what an episode did, kept as a content-addressed message tree and turn rows in SQLite; readers and exports.

It knows neither models nor tools: a request, a reply and a tool result reach it as plain data.
"""

from wardround.log.database import LOG_SUFFIX, settle_logs
from wardround.log.export import (
    atif_documents,
    conversations,
    episode_line,
    spans_document,
    write_conversations,
    write_trajectories,
)
from wardround.log.reader import LogReader, Outline, Played, PlayedCall, PlayedTurn, damage_of_log
from wardround.log.rows import (
    USAGE_FIELDS,
    AskedRequest,
    EpisodeEntry,
    GivenReply,
    KeptReply,
    Note,
    ToolRecord,
    Trajectory,
    Turn,
)
from wardround.log.writer import EpisodeLog, EpisodeRecorder, PromptPath

__all__ = [
    "LOG_SUFFIX",
    "USAGE_FIELDS",
    "AskedRequest",
    "EpisodeEntry",
    "EpisodeLog",
    "EpisodeRecorder",
    "GivenReply",
    "KeptReply",
    "LogReader",
    "Note",
    "Outline",
    "Played",
    "PlayedCall",
    "PlayedTurn",
    "PromptPath",
    "ToolRecord",
    "Trajectory",
    "Turn",
    "atif_documents",
    "conversations",
    "damage_of_log",
    "episode_line",
    "settle_logs",
    "spans_document",
    "write_conversations",
    "write_trajectories",
]
