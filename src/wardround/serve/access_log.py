"""The access log: who called which tool on which chart, in private JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.core import format_time, private_file, private_folder
from wardround.tools import Environment

# JSON lines in a private file. Each line is appended in one write, so that several servers may share a file.


class PrivateLines:
    """A file to which lines are only appended."""

    def __init__(self, path: Path) -> None:
        private_folder(path.parent)
        private_file(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Append a line for each body, all in one write."""
        lines = "".join(json.dumps(body, ensure_ascii=False) + "\n" for body in bodies)
        os.write(self._file, lines.encode("utf-8", "replace"))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


# The access log: who called which tool on which chart, and when. Never a value, an argument or a result.


class AccessLog:
    """JSON lines, each appended in one write, so that several servers may share a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = PrivateLines(path)

    def write(self, *, who: str, environment: Environment, tool: str, is_error: bool) -> None:
        """Log one call. A tool that does not exist is logged as ``unknown``: its name is the caller's text."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "who": who,
            "subject_id": environment.chart.subject_id,
            "as_of": format_time(environment.chart.as_of),
            "tool": tool if tool in environment.toolset.names else "unknown",
            "is_error": is_error,
        }
        self._lines.write([line])

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
