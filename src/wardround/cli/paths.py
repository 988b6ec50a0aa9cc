"""Where the command line keeps a user's own files. The only place that reads these environment variables."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return wardround's own folder: ``WARDROUND_HOME``, else the XDG data folder."""
    named = os.environ.get("WARDROUND_HOME")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "wardround"


def user_codes_home() -> Path:
    """Return the folder of user-supplied code tables; it need not exist."""
    return home() / "codes"


def corpora_home() -> Path:
    """Return the folder of installed corpora; it need not exist."""
    return home() / "corpora"


def library_of(named: Path | None) -> str | None:
    """Return the folder of corpora that was named, else the user's own where it is there."""
    usual = corpora_home()
    return str(named) if named is not None else str(usual) if usual.is_dir() else None


def imaging_models_home() -> Path:
    """Return the folder of installed imaging weights; it need not exist."""
    return home() / "imaging-models"
