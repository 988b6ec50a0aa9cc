"""Forget a source in a bank, in the cached vectors beside it, and name the runs whose logs still hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.log import LogReader
from wardround.memory import Bank, forget
from wardround.runs import RunFolder
from wardround.runs.banks import VECTORS
from wardround.tools.retrieval import VectorCache


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenSource:
    """What was forgotten: experiences of the bank, cached vectors of their texts (None: no cache was named), and the
    runs whose logs still hold some of them."""

    experiences: tuple[str, ...]
    vectors: int | None
    runs: tuple[Path, ...]


def forget_source(
    bank: Path, source: str, *, reason: str, store: Path | None = None, runs: Sequence[Path] = ()
) -> ForgottenSource:
    """Forget an experience, a sample or a row for good, and everything that came of it; this cannot be undone.

    ``store``: its folder's cache of vectors forgets the texts too. ``runs``: folders to search; their logs are not
    changed, delete them. UserError: the bank knows nothing of the source.
    """
    with Bank.open(bank) as opened:
        report = forget(opened, source, reason=reason)
    vectors = None
    if store is not None and (store / VECTORS).is_file():
        cache = VectorCache(store / VECTORS)
        vectors = cache.forget(report.text_hashes)
        cache.close()
    forgotten = frozenset(report.experiences)
    return ForgottenSource(
        experiences=tuple(report.experiences),
        vectors=vectors,
        runs=tuple(run for run in runs if _was_served(run, forgotten) or _was_drawn_from(run, forgotten)),
    )


def _was_served(run: Path, experiences: frozenset[str]) -> bool:
    """Whether an episode of the run was given one of the experiences."""
    with LogReader(RunFolder.open(run).logs, may_be_empty=True) as reader:
        notes = [detail for _, detail in reader.notes("experiences")]
    return not experiences.isdisjoint(str(served["id"]) for detail in notes for served in detail.get("served", ()))


def _was_drawn_from(run: Path, experiences: frozenset[str]) -> bool:
    """Whether the run's folder holds the replies that one of the experiences was drawn from."""
    for folder in ("reflections", "construction"):
        if (run / folder).is_dir():
            with LogReader(run / folder, may_be_empty=True) as reader:
                drawn = {name for entry in reader.episodes() for name in (entry.outcome or {}).get("ids", ())}
            if not experiences.isdisjoint(drawn):
                return True
    return False
