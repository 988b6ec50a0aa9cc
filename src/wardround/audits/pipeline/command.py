"""Runs a foreign pipeline on a copy of raw files: a command without a shell, under a time limit."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.core import UserError, WardroundError

RunPipeline = Callable[[Path, Path], object]
"""Takes the folder of raw files and an empty folder for results."""
_LAST_LINES = 8


class PipelineFailed(WardroundError):
    """A run of the pipeline ended otherwise than well. ``last`` is what it wrote last."""

    def __init__(self, words: str, last: str = "") -> None:
        super().__init__(words)
        self.last = last


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCommand:
    """A command line with ``{raw}`` (``{raw0}``, ``{raw1}`` of several source folders), ``{out}`` and ``{samples}``.

    It is split as a shell would split it and run without one. PipelineFailed: a status other than 0, or the time is up.
    """

    words: tuple[str, ...]
    limit_s: float = 3600.0

    @classmethod
    def parse(cls, text: str, *, limit_s: float = 3600.0) -> PipelineCommand:
        """Read a command line. UserError: it names neither ``{raw}`` nor ``{raw0}``, or has an open quote."""
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise UserError(f"--run: {error}: {text}") from error
        if not any("{raw" in word for word in words):
            raise UserError(f"--run {text}: it names no {{raw}}, so it cannot read the copies")
        return cls(words=words, limit_s=limit_s)

    def __call__(self, raws: Sequence[Path], out: Path, samples: Path) -> None:
        """Run it; its output is kept beside the results in ``run.log``."""
        places = {f"{{raw{n}}}": str(raw) for n, raw in enumerate(raws)}
        places |= {"{raw}": str(raws[0]), "{out}": str(out), "{samples}": str(samples)}
        words = []
        for word in self.words:
            for name, text in places.items():
                word = word.replace(name, text)
            words.append(word)
        log = out.with_suffix(".log")
        with log.open("wb") as stream:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, "PYTHONHASHSEED": "0"},
                )
            except OSError as error:
                raise UserError(f"--run: {words[0]}: {error.strerror or error}") from error
            try:
                status = process.wait(self.limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise PipelineFailed(f"not finished after {self.limit_s:g} s (--limit-s)", _last(log)) from None
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if status != 0:
            raise PipelineFailed(f"ended with status {status}; all it wrote: {log}", _last(log))


def _last(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(line[:300] for line in lines[-_LAST_LINES:])
