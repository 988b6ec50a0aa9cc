"""How a command is told to end, and what it prints through: SIGTERM ends it like Ctrl-C, and no text commands the
terminal."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import FrameType, TracebackType

from wardround.core import printable, printing

INTERRUPTED, TERMINATED = 130, 143


@contextmanager
def printable_output() -> Iterator[None]:
    """Everything that is printed goes through :func:`wardround.core.printable`, a bug's traceback too."""
    before, sys.excepthook = sys.excepthook, _show_bug
    with redirect_stdout(printing(sys.stdout)), redirect_stderr(printing(sys.stderr)):
        yield
    sys.excepthook = before  # kept where a bug ends the program: the interpreter shows it after this


def _show_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(printable("".join(traceback.format_exception(kind, error, trace))))


@contextmanager
def terminable() -> Iterator[list[int]]:
    """SIGTERM does in here what Ctrl-C does, once: a KeyboardInterrupt where nobody handles it otherwise.

    Yields what came, so that the exit status can tell the two apart.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # only the main thread may set handlers
        return

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:  # the first one is being answered
            return
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # ignored: a shell's background job
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)
