"""Where a user's own files are: code tables, corpora, imaging weights.

The only place that reads ``WARDROUND_HOME`` and ``XDG_DATA_HOME``. None of these folders need exist.
"""

from __future__ import annotations

import os
from pathlib import Path


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
