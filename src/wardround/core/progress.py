"""Progress as data: long work reports it, a terminal or a notebook shows it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from wardround.core.errors import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a piece of work is. ``total`` is None when the end is not known; ``note`` is free text.

    ``running``: how many pieces are under way at once; before so many are done, the rate says little.
    """

    label: str
    done: float
    total: float | None = None
    unit: str = ""
    note: str = ""
    running: int = 0


Reporter = Callable[[Progress], None]
"""Called often; must be cheap and must not raise."""


def silent(progress: Progress) -> None:
    """Show nothing."""


# Draws progress on the terminal: one line that says how much, how fast and how long still.


_QUIET_SECONDS = 2.0
_REDRAW_SECONDS = 0.1
_LINE_SECONDS = 15.0


class TerminalProgress:
    """A reporter. On a terminal it redraws one line; in a log it writes a line every 15 s. Short work stays silent."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._label = ""
        self._started = self._drawn = 0.0
        self._first_done = 0.0
        self._shown = False

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.label != self._label:
            self.close()
            self._label, self._started, self._drawn, self._first_done = progress.label, now, now, progress.done
        pause = _REDRAW_SECONDS if self._live else _LINE_SECONDS
        if now - self._started < _QUIET_SECONDS or (self._shown and now - self._drawn < pause):
            return
        self._drawn, self._shown = now, True
        self._write(self._line(progress, now - self._started))

    def close(self) -> None:
        """End the line that is being drawn."""
        if self._shown and self._live:
            self._stream.write("\n")
        self._shown = False
        self._label = ""

    def _line(self, progress: Progress, elapsed: float) -> str:
        done = progress.done - self._first_done
        rate = done / elapsed if elapsed > 0 and done >= progress.running else 0.0
        parts = [progress.label]
        if progress.total:
            parts.append(f"{progress.done / progress.total:4.0%}")
            parts.append(f"{progress.done:,.0f}/{progress.total:,.0f} {progress.unit}".rstrip())
        else:
            parts.append(f"{progress.done:,.0f} {progress.unit}".rstrip())
        if rate > 0:
            parts.append(f"{_short(rate)} {progress.unit}/s".replace(" /s", "/s"))
            if progress.total:
                parts.append(f"{duration_text(max(0.0, progress.total - progress.done) / rate)} left")
        if progress.note:
            parts.append(progress.note)
        return "  ".join(parts)

    def _write(self, line: str) -> None:
        terminal = getattr(self._stream, "terminal", self._stream)  # commands of our own are obeyed
        terminal.write(f"\r\x1b[2K{printable(line)}" if self._live else printable(line) + "\n")
        terminal.flush()


def duration_text(seconds: float) -> str:
    """Write a duration as people read it: ``42 s``, ``3 min 05 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _short(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
