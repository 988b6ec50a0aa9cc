"""Where the tests put their files: in memory, where the system keeps a folder there that has room.

On a disk the file system takes half of what a small ingest costs. At length (``make long``), and where ``TMPDIR`` is
set, files lie where they are told to: that is also how to keep them after a failure.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path

from effort import LONG

IN_MEMORY = Path("/dev/shm")
ROOM = 6 * 2**30
"""Bytes: the suite's files come to one and a half gigabytes."""
_NAME = "wardround-tests-"


@contextmanager
def working_folder(
    parent: Path = IN_MEMORY, *, room: int = ROOM, variables: MutableMapping[str, str] = os.environ
) -> Iterator[Path | None]:
    """Let temporary files of this process and of those that it starts lie in a folder of ``parent`` for as long; None
    where it is not there, lacks room, or where the variables say otherwise."""
    if LONG or "TMPDIR" in variables or not _has_room(parent, room):
        yield None
        return
    _remove_left_behind(parent)
    made = Path(tempfile.mkdtemp(prefix=f".{_NAME}", dir=parent))
    before = tempfile.tempdir
    with _held(made):
        folder = made.rename(parent / made.name.removeprefix("."))  # seen by others only once it is held
        variables["TMPDIR"] = tempfile.tempdir = str(folder)
        try:
            yield folder
        finally:
            tempfile.tempdir = before
            del variables["TMPDIR"]
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder until the end of this process at the latest. BlockingIOError: another process has it."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)


def _has_room(parent: Path, room: int) -> bool:
    """Whether a folder takes files and lets them run, and has as much room, and the machine as much memory besides.

    Containers often mount theirs so that nothing in it runs; some tests run scripts that they wrote.
    """
    if not os.access(parent, os.W_OK | os.X_OK) or os.statvfs(parent).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(parent).free >= room and _memory_left() >= 2 * room


def _memory_left() -> int:
    """Return the bytes that programs may still take; 0 where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)


def _remove_left_behind(parent: Path) -> None:
    """Remove the folders of runs that were killed."""
    for folder in parent.glob(f"{_NAME}*"):
        with suppress(BlockingIOError), _held(folder):
            shutil.rmtree(folder, ignore_errors=True)
