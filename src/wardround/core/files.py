"""Writing small files whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def write_atomically(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a file so that a reader sees the old one or the new one, never a half.

    ``durable``: it is on the disk when this returns, its name too, so that a power cut leaves one of the two as well;
    what can be made again at any time does without.
    """
    scratch = path.with_name(path.name + ".tmp")
    with scratch.open("w", encoding="utf-8") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(scratch, path)
    if durable:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """See the names in a folder onto the disk, where the system can open one."""
    try:
        folder = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def sync_tree(path: Path) -> None:
    """See everything under a folder onto the disk, before it is given its name."""
    for file in sorted(path.rglob("*")):
        if file.is_dir():
            sync_folder(file)
        else:
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
    sync_folder(path)


def this_boot() -> str:
    """Name this run of the machine, from its start on, where the system tells it: what was written before it and not
    synced may be gone."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def is_read_only(error: OSError) -> bool:
    """Whether an error says that one may not write there, rather than that writing went wrong."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
