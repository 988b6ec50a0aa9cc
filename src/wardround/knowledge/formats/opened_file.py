"""Opening a file that may be gzipped, so that one that cannot be unpacked is named."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from wardround.core import UserError


@contextmanager
def opened(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a file, unpacked where its name ends in ``.gz``. UserError names one that cannot be unpacked to its end."""
    try:
        with cast("IO[bytes]", gzip.open(path)) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(name, error) from None


def damaged(name: str, error: Exception) -> UserError:
    """Say which file is damaged, how, and what to do."""
    return UserError(f"{name} is damaged ({error}); fetch it again and add it again")
