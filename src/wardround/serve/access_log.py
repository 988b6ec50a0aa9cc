"""The access log: who called which tool on whose chart, and when. Never a value, an argument or a result."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from wardround.core import format_time
from wardround.serve.private_lines import PrivateLines
from wardround.tools import Environment


class AccessLog:
    """JSON lines, appended whole, so that several servers may write one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = PrivateLines(path)

    def write(self, *, who: str, environment: Environment, tool: str, is_error: bool) -> None:
        """Note one call. A tool that does not exist is ``unknown``: its name is the caller's own text."""
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
