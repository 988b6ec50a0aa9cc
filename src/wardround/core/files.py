"""Files: written whole, private to their owner; and where a user's own are."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wardround.core.errors import UserError

# Writing small files whole.


def write_atomically(path: Path, text: str | Iterable[str], *, durable: bool = True) -> None:
    """Write a file, whole or in pieces, so that a reader sees the old one or the new one, never a half.

    ``durable``: it is on the disk when this returns, its name too, so that a power cut leaves one of the two as well;
    what can be made again at any time does without.
    """
    scratch = path.with_name(path.name + ".tmp")
    with scratch.open("w", encoding="utf-8") as file:
        file.writelines([text] if isinstance(text, str) else text)
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


# Who may read what wardround makes: its owner, or with a word also the group. Patient data is never made for all.
#
# Folders are made through :func:`private_folder`, which nobody else may enter, whatever the umask. The command line
# calls :func:`keep_private` first, so that every file and folder of the process, whoever makes it (SQLite, Arrow), is
# private.


_OWNER, _GROUP = 0o077, 0o007
"""Umasks: what is kept from others."""


@contextmanager
def keep_private(*, share_group: bool = False) -> Iterator[None]:
    """For a while, make what this process makes 0700 and 0600, with ``share_group`` 0770 and 0660."""
    before = os.umask(_GROUP if share_group else _OWNER)
    try:
        yield
    finally:
        os.umask(before)


def private_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there; a new one is for its owner (and group, where shared)."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(exist_ok=True)
    path.chmod(0o770 if umask() == _GROUP else 0o700)


def must_be_new(folder: Path, *, otherwise: str = "choose another one") -> None:
    """Raise UserError where a folder that is about to be written holds something, or is a file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: the folder is not empty; {otherwise}")


def private_file(path: Path) -> None:
    """Make an empty file for its owner (and group, where shared), unless it is there; SQLite makes its own readable.

    Where it cannot be made, whoever opens it next says so.
    """
    with suppress(OSError):
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.fchmod(file, 0o660 if umask() == _GROUP else 0o600)
        os.close(file)


def umask() -> int:
    """Return the mask of new files; it can only be read by setting it, so for a moment it is the strictest."""
    current = os.umask(_OWNER)
    os.umask(current)
    return current


# Where a user's own files are: code tables, corpora, imaging weights. The only place that reads ``WARDROUND_HOME`` and
# ``XDG_DATA_HOME``. None of these folders need exist.


def user_home() -> Path:
    """Return wardround's own folder: ``WARDROUND_HOME``, else the XDG data folder."""
    named = os.environ.get("WARDROUND_HOME")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "wardround"


def user_codes_home() -> Path:
    """Return the folder of code tables that the user added (``wardround codes add``)."""
    return user_home() / "codes"


def own_codes() -> Path | None:
    """Return the folder of the code tables that the user added, None where there are none."""
    return folder if (folder := user_codes_home()).is_dir() else None


def corpora_home() -> Path:
    """Return the folder of corpora that the user added (``wardround corpus add``)."""
    return user_home() / "corpora"


def library_of(named: Path | None) -> str | None:
    """Return the folder of corpora that was named, else the user's own where it exists."""
    usual = corpora_home()
    return str(named) if named is not None else str(usual) if usual.is_dir() else None


def imaging_models_home() -> Path:
    """Return the folder of imaging weights that the user added (``wardround models add``)."""
    return user_home() / "imaging-models"
