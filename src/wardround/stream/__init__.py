"""Live patients: lines of rows as they come in, folded into states, written bundle by bundle, exactly once."""

from wardround.stream.closing import Responder
from wardround.stream.follow import FollowSettings, StreamReport, follow
from wardround.stream.input import CLOCKS, QUARANTINE, Spool, StreamLine
from wardround.stream.replay import write_replay
from wardround.stream.roles import CARRIES, coded_responder
from wardround.stream.source_rules import SourceRules
from wardround.stream.watching import (
    LEDGER,
    OutputBundle,
    OutputReader,
    damage_of_stream,
    is_stream,
    patient_events,
    patient_state,
    watched_ledger,
)

__all__ = [
    "CARRIES",
    "CLOCKS",
    "LEDGER",
    "QUARANTINE",
    "FollowSettings",
    "OutputBundle",
    "OutputReader",
    "Responder",
    "SourceRules",
    "Spool",
    "StreamLine",
    "StreamReport",
    "coded_responder",
    "damage_of_stream",
    "follow",
    "is_stream",
    "patient_events",
    "patient_state",
    "watched_ledger",
    "write_replay",
]
