"""JSON lines in a private file, appended whole, so that several servers may write one file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wardround.core import private_file, private_folder


class PrivateLines:
    """A file that lines are only ever added to."""

    def __init__(self, path: Path) -> None:
        private_folder(path.parent)
        private_file(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Append a line for each, all in one write."""
        lines = "".join(json.dumps(body, ensure_ascii=False) + "\n" for body in bodies)
        os.write(self._file, lines.encode("utf-8", "replace"))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
