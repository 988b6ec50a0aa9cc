"""What a command prints and how it ends: tables, JSON, safe output, SIGTERM as Ctrl-C, errors as one clear line."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Protocol

from wardround.core import LeakError, WardroundError, printable, printing
from wardround.core.table import Table, as_text

# Plain text tables for the terminal.


def print_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns; columns of numbers align right."""
    print(as_text(Table(header=header, rows=rows)))


# Figures as JSON, with ``--json``. Notes and progress go to standard error.


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def print_json(figures: Any) -> None:
    """Print a report (a dataclass, tables or lists of them) as JSON."""
    print(json.dumps(plain(figures), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """Return JSON-ready tables, lists, texts and numbers; other values become their text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value) if field.name[0] != "_"}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(plain, value), key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


# SIGTERM ends a command like Ctrl-C, and printed text cannot control the terminal.


INTERRUPTED, TERMINATED = 130, 143


@contextmanager
def printable_output() -> Iterator[None]:
    """Everything that is printed goes through :func:`wardround.core.printable`, a bug's traceback too."""

    def show_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(printable("".join(traceback.format_exception(kind, error, trace))))

    before, sys.excepthook = sys.excepthook, show_bug
    with redirect_stdout(printing(sys.stdout)), redirect_stderr(printing(sys.stderr)):
        yield
    sys.excepthook = before  # not restored after a bug: the interpreter prints its traceback after this


@contextmanager
def terminable() -> Iterator[list[int]]:
    """Within the context the first SIGTERM raises KeyboardInterrupt, as Ctrl-C does.

    Yields the list of received signals, from which the exit status is chosen.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # only the main thread may set handlers
        return

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:  # the first one is being handled
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


class Dispatch(Protocol):
    """Finds and runs the command of some words."""

    def __call__(self, words: list[str], *, is_process: bool) -> int:
        """Return the exit status."""
        ...


def ended(dispatch: Dispatch, words: list[str], *, is_process: bool) -> int:
    """Run a command line's words; return the exit status."""
    with printable_output(), terminable() as terminated:
        try:
            return dispatch(words, is_process=is_process)
        except LeakError as error:
            return _fail(f"stopped, because something from the future was about to be seen: {error}")
        except WardroundError as error:
            return _fail(str(error))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("wardround."):
                raise
            return _fail(f"this installation was made without the part {error.name}; install wardround whole")
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader is gone: `wardround ... | head`
            return 141
        except OSError as error:
            return _fail(_explain(error))
        except KeyboardInterrupt:
            print(f"\nwardround: interrupted; what was finished is kept{_how_to_go_on(words)}", file=sys.stderr)
            return TERMINATED if terminated else INTERRUPTED


_RESUMED = ("run", "grid", "memory evolve")
_REPEATED = ("ingest", "reproduce", "train predictors")
"""Commands that continue with --resume, and those that continue when they are run again."""


def _how_to_go_on(words: Sequence[str]) -> str:
    """Return the command that continues an interrupted one; empty if there is none."""
    command = next((name for name in (*_RESUMED, *_REPEATED) if " ".join(words).startswith(f"{name} ")), "")
    if command in _REPEATED:
        return "; give the same command again to go on"
    out = _value_of(words, "--resume") or _value_of(words, "--out")
    if not command or out is None or not (Path(out) / "manifest.json").is_file():
        return ""
    bank = _value_of(words, "--bank") if command == "memory evolve" else None
    rest = [] if bank is None else ["--bank", bank]
    return f"; go on with: {shlex.join(['wardround', *command.split(), '--resume', out, *rest])}"


def _value_of(words: Sequence[str], option: str) -> str | None:
    for place, word in enumerate(words):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option and place + 1 < len(words):
            return words[place + 1]
    return None


def _explain(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"the disk is full{where}; free some space and run the same command again, it continues where it was"
    return f"{error.strerror or error}{where}"


def _fail(line: str) -> int:
    if os.environ.get("WARDROUND_TRACEBACK"):
        raise
    print("wardround: " + " ".join(line.split()), file=sys.stderr)
    return 2
