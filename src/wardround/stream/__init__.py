"""Live patients: lines of rows as they come in, folded into states, told bundle by bundle, exactly once."""

from wardround.stream.closing import Responder
from wardround.stream.follow import FollowSettings, StreamReport, follow
from wardround.stream.lines import StreamLine
from wardround.stream.replay import write_replay
from wardround.stream.roles import coded_responder
from wardround.stream.spool import Spool
from wardround.stream.watching import PatientReading, ToldBundle, ToldReading, is_stream, watched_ledger

__all__ = [
    "FollowSettings",
    "PatientReading",
    "Responder",
    "Spool",
    "StreamLine",
    "StreamReport",
    "ToldBundle",
    "ToldReading",
    "coded_responder",
    "follow",
    "is_stream",
    "watched_ledger",
    "write_replay",
]
