"""Writing small files whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never a half."""
    scratch = path.with_name(path.name + ".tmp")
    scratch.write_text(text, encoding="utf-8")
    os.replace(scratch, path)


def is_read_only(error: OSError) -> bool:
    """Whether an error says that one may not write there, rather than that writing went wrong."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
