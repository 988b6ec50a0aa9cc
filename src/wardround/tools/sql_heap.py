"""How much memory SQLite holds in this process, so that a statement that takes too much can be stopped.

SQLite's own hard heap limit is a process-wide setting: hitting it would fail the episode log's database too. So the
gate reads the figure and stops only its own statement.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

if sys.platform != "win32":
    import resource


@cache
def heap_probe() -> Callable[[], int]:
    """Return a cheap function that gives the bytes in use: SQLite's own count, else the process's resident size."""
    try:
        library = ctypes.PyDLL(getattr(_sqlite3, "__file__", None))
        count = library.sqlite3_memory_used
    except (OSError, AttributeError):
        return _resident_probe()
    count.restype = ctypes.c_int64
    count.argtypes = ()
    return count if _counts(count) else _resident_probe()


def _counts(count: Callable[[], int]) -> bool:
    """Whether the library keeps its statistics (some builds do not) and is the one Python uses."""
    before = count()
    connection = _sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t(a)")
    grown = count() > before
    connection.close()
    return grown


def _resident_probe() -> Callable[[], int]:
    """Return the process's resident size where Linux tells it, else its peak (macOS), else nothing (Windows)."""
    if sys.platform == "win32":
        return int
    if not Path("/proc/self/statm").exists():
        return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    page = resource.getpagesize()
    return lambda: int(os.pread(file, 128, 0).split()[1]) * page
