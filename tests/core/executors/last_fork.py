"""What a process does that must not be the one from which the tests' other workers are forked: its own is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def end_who_forked(marks: str) -> str:
    """Kill, the first time, who would say how this process ends, and go on for long."""
    mark = Path(marks) / str(os.getpid())
    if not any(Path(marks).iterdir()):
        mark.touch()
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    return "done"
