"""``wardround memory forget``: the one operation on a bank that cannot be undone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from wardround.log import LogReader
from wardround.memory import Bank, forget
from wardround.retrieval import VectorCache
from wardround.runs import RunFolder
from wardround.runs.banks import VECTORS


def forget_source(bank_path: Path, arguments: argparse.Namespace) -> int:
    """Forget, then say which runs still hold what was forgotten; status 1 where one does."""
    with Bank.open(bank_path) as bank:
        done = forget(bank, arguments.source, reason=arguments.reason)
        print(f"{len(done.experiences)} experiences are forgotten for good; the file was rebuilt")
    if arguments.store is not None and (arguments.store / VECTORS).is_file():
        cache = VectorCache(arguments.store / VECTORS)
        print(f"{cache.forget(done.text_hashes)} cached vectors of their texts were deleted")
        cache.close()
    holding = [path for path in arguments.run if _holds(path, done.experiences)]
    for path in holding:
        print(f"{path} still holds them in its log: delete the folder")
    return 1 if holding else 0


def _holds(path: Path, experiences: Sequence[str]) -> bool:
    """Whether a run was served any of some experiences, or holds the replies they were drawn from."""
    folder = RunFolder.open(path)
    with LogReader(folder.logs, may_be_empty=True) as reader:
        notes = [detail for _, detail in reader.notes("experiences")]
    served = {str(one["id"]) for detail in notes for one in detail.get("served", ())}
    return bool(served & set(experiences)) or _taught(folder.path, experiences)


def _taught(path: Path, experiences: Sequence[str]) -> bool:
    wanted = set(experiences)
    for place in ("reflections", "construction"):
        if (path / place).is_dir():
            with LogReader(path / place, may_be_empty=True) as reader:
                drawn = {name for entry in reader.episodes() for name in (entry.outcome or {}).get("ids", ())}
            if drawn & wanted:
                return True
    return False
