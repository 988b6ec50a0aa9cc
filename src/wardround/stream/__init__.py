"""Live patients: lines of rows as they come in, folded into states, told bundle by bundle, exactly once."""

from wardround.stream.closing import Responder
from wardround.stream.follow import FollowSettings, StreamReport, follow
from wardround.stream.lines import StreamLine
from wardround.stream.replay import write_replay
from wardround.stream.roles import coded_responder
from wardround.stream.spool import Spool

__all__ = [
    "FollowSettings",
    "Responder",
    "Spool",
    "StreamLine",
    "StreamReport",
    "coded_responder",
    "follow",
    "write_replay",
]
