"""What users did with the cards: one JSON line each, appended to a file beside the run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from wardround.core import UserError
from wardround.serve.cds.requests import FeedbackRequest, MalformedRequest, read_body
from wardround.serve.cds.services import CardShelf
from wardround.serve.private_lines import PrivateLines


class FeedbackFile:
    """A file of feedback on the cards of one shelf. UserError: it lies in the run's folder."""

    def __init__(self, path: Path, run: Path, shelf: CardShelf) -> None:
        if path.resolve().is_relative_to(run.resolve()):
            raise UserError(f"{path} lies in the run; feedback is kept beside a run, never in it")
        self._lines = PrivateLines(path)
        self._run = shelf.run
        self._cards = shelf.names()

    def store(self, service: str, body: bytes) -> int:
        """Append all that a request says, and return of how many cards. MalformedRequest: none of it was kept."""
        told = read_body(FeedbackRequest, body).feedback
        if any(one.card not in self._cards for one in told):
            raise MalformedRequest("card: it is none of this run's cards")
        head = {"received": datetime.now(UTC).isoformat(timespec="milliseconds"), "run": self._run, "service": service}
        self._lines.write(head | one.model_dump(mode="json", by_alias=True, exclude_unset=True) for one in told)
        return len(told)
