"""Marks of reviewers in a file of JSON lines beside a run: one line each, appended, never changed.

The first line holds a secret of the file. Items are named by it: no name tells the episode, its contender or its place.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from wardround.core import UserError, private_file
from wardround.memory.experience import utc_now
from wardround.serve.viewer.viewed_run import ViewedRun

_SCHEMA = 1
LONGEST_COMMENT, LONGEST_NAME = 4_000, 40
QUESTIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    "answer": ("Is the answer right?", ("right", "partly", "wrong", "cannot tell")),
    "evidence": ("Do the cited rows support it?", ("support", "partly", "do not support", "cannot tell")),
}
"""What is asked of every episode, and what may be said."""
UNDECIDED = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewMark:
    """What one reviewer said of one item. ``at`` is UTC, ISO 8601."""

    item: str
    reviewer: str
    answer: str
    evidence: str
    comment: str = ""
    at: str = field(default_factory=utc_now)


class MarksFile:
    """One file of marks. UserError: it lies in a run's folder, or is something else."""

    def __init__(self, path: Path, runs: Sequence[ViewedRun]) -> None:
        for run in runs:
            if path.resolve().is_relative_to(run.folder.path.resolve()):
                raise UserError(f"{path} lies in the run {run.name!r}; marks are kept beside a run, never in it")
        self.path = path
        if not path.exists() or not path.stat().st_size:
            private_file(path)
            self._append({"schema": _SCHEMA, "secret": secrets.token_hex(16)})
        head = self._lines()[0]
        if head.get("schema") != _SCHEMA or "secret" not in head:
            raise UserError(f"{path} is no file of marks that this wardround can read; name a new one")
        self._secret = bytes.fromhex(head["secret"])

    def item_of(self, run: ViewedRun, episode: str) -> str:
        """The name of an episode in this file; the order of names is one that nothing of an episode decides."""
        told = f"{run.folder.manifest['settings_sha256']}|{episode}".encode()
        return hmac.new(self._secret, told, sha256).hexdigest()[:20]

    def add(self, mark: ReviewMark) -> None:
        """Append a mark: a later one of the same reviewer on the same item takes the place of an earlier one."""
        self._append(asdict(mark))

    def marks(self) -> dict[tuple[str, str], ReviewMark]:
        """The marks that hold, by item and reviewer."""
        names = {one.name for one in fields(ReviewMark)}
        told = [{name: value for name, value in line.items() if name in names} for line in self._lines()[1:]]
        return {(one.item, one.reviewer): one for one in (ReviewMark(**line) for line in told)}

    def _append(self, body: Mapping[str, Any]) -> None:
        """One write of one line: several reviewers' viewers may share a file."""
        line = json.dumps(body, ensure_ascii=False) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)

    def _lines(self) -> list[dict[str, Any]]:
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
            return [json.loads(line) for line in lines if line] or [{}]
        except (ValueError, OSError) as error:
            raise UserError(f"{self.path} is no file of marks: {error}") from error


def read_mark(item: str, reviewer: str, given: Mapping[str, str]) -> ReviewMark:
    """Read what a form says. UserError: a question has no answer, or one that was not offered."""
    for name, (question, offered) in QUESTIONS.items():
        if given.get(name) not in offered:
            raise UserError(f"{question} Choose one of: {', '.join(offered)}")
    comment = given.get("comment", "").replace("\r\n", "\n").strip()
    if len(comment) > LONGEST_COMMENT:
        raise UserError(f"a comment has at most {LONGEST_COMMENT:,} characters, this one has {len(comment):,}")
    return ReviewMark(
        item=item,
        reviewer=read_reviewer(reviewer),
        answer=given["answer"],
        evidence=given["evidence"],
        comment=comment,
    )


def read_reviewer(name: str) -> str:
    """Read a reviewer's name. UserError: it is empty or too long."""
    said = " ".join(name.split())
    if not said or len(said) > LONGEST_NAME:
        raise UserError(f"a reviewer's name has 1 to {LONGEST_NAME} characters")
    return said
