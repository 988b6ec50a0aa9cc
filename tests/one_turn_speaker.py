"""A scripted model for runs that are killed: an episode is two calls, and the test says when it falls silent."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import Any

from fake_server import Answer, text, tools
from wardround.runs import RunFolder, score_run


class Speaker:
    """Plays one turn, then finishes; what it says follows from the request. After ``last`` calls it says nothing until
    ``released`` is set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls = 0
        self.last = sys.maxsize
        self.released = threading.Event()

    def __call__(self, body: Any) -> Answer:
        with self._lock:
            self.calls += 1
            is_held = self.calls > self.last
        return replace(self._answer(body), held_until=self.released) if is_held else self._answer(body)

    @property
    def held(self) -> int:
        """How many calls it has not answered."""
        return max(0, self.calls - self.last)

    @staticmethod
    def _answer(body: Any) -> Answer:
        if "tools" not in body:
            return text("nothing")
        acted = any(message["role"] == "tool" for message in body["messages"])
        return tools(("finish", '{"response": ["Gout"]}')) if acted else tools(("get_table_names", "{}"))


def without_times(folder: RunFolder) -> list[object]:
    """The scores of a run, but for how long things took."""
    scores = score_run(folder)
    return [replace(score, use=replace(score.use, model_seconds=0.0, tool_seconds=0.0)) for score in scores]
