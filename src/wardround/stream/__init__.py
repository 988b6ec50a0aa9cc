"""Live patients: lines of rows as they come in, folded into states, told bundle by bundle, exactly once."""

from wardround.stream.clock import CLOCKS
from wardround.stream.closing import Responder
from wardround.stream.damage import damage_of_stream
from wardround.stream.follow import StreamReport, follow
from wardround.stream.lines import StreamLine
from wardround.stream.quarantine import QUARANTINE
from wardround.stream.replay import write_replay
from wardround.stream.roles import CARRIES, coded_responder
from wardround.stream.settings import FollowSettings
from wardround.stream.source_rules import SourceRules
from wardround.stream.spool import Spool
from wardround.stream.watching import (
    LEDGER,
    ToldBundle,
    ToldReading,
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
    "Responder",
    "SourceRules",
    "Spool",
    "StreamLine",
    "StreamReport",
    "ToldBundle",
    "ToldReading",
    "coded_responder",
    "damage_of_stream",
    "follow",
    "is_stream",
    "patient_events",
    "patient_state",
    "watched_ledger",
    "write_replay",
]
