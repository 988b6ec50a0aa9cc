"""Live patients: lines of rows as they come in, folded into states, told bundle by bundle, exactly once."""

from wardround.stream.engine import Responder, StreamEngine
from wardround.stream.follow import FollowSettings, StreamReport, follow
from wardround.stream.lines import StreamLine
from wardround.stream.replay import write_replay

__all__ = [
    "FollowSettings",
    "Responder",
    "StreamEngine",
    "StreamLine",
    "StreamReport",
    "follow",
    "write_replay",
]
