"""Every file of a folder held against the checksums it was written with: stores, benchmarks, runs, logs, banks,
streams and corpora.

Finds bits that changed on a disk or in a copy, not somebody who changes a file and its checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wardround.audits import check_store
from wardround.core import RecordError, UserError, is_sealed_json
from wardround.log import LOG_SUFFIX, damage_of_log
from wardround.memory.bank_file import damage_of_bank
from wardround.runs.queue import QUEUE_FORMAT
from wardround.stream import LEDGER, damage_of_stream
from wardround.tasks.benchmarks import Benchmark
from wardround.tools.knowledge import CORPUS, damage_of_corpus

_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesCheck:
    """What was checked, by kind, and what is damaged, a line each."""

    checked: Mapping[str, int]
    damaged: tuple[str, ...]

    def as_text(self) -> str:
        """Say it in a few lines."""
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self.checked.items() if count) or "nothing of ours"
        return "\n".join((f"checked {counts}: {len(self.damaged):,} damaged", *self.damaged))


def check_files(folder: Path) -> FilesCheck:
    """Check everything of ours in a folder and below it. UserError: there is no such folder."""
    if not folder.is_dir():
        raise UserError(f"no folder {str(folder)!r}")
    checked = dict.fromkeys(("stores", "benchmarks", "runs", "banks", "logs", "streams", "corpora"), 0)
    damaged: list[str] = []
    for kind, (name, check) in _KINDS.items():
        for path in sorted(folder.rglob(name)):
            if kind not in _WITH_MANIFEST or (path.parent / _MANIFEST).is_file():
                checked[kind] += 1
                damaged += check(path.parent)
    for path in sorted(folder.rglob("*.sqlite")):
        found = None if path.name == LEDGER else damage_of_bank(path)
        if found is not None:
            checked["banks"] += 1
            damaged += [f"{path}: {count:,} {what}" for what, count in found.items() if count]
    for path in sorted(folder.rglob(f"*{LOG_SUFFIX}")):
        checked["logs"] += 1
        damaged += damage_of_log(path)
    return FilesCheck(checked=checked, damaged=tuple(damaged))


def _damage_of_run(folder: Path) -> list[str]:
    return [*_damage_of_manifest(folder / _MANIFEST), *QUEUE_FORMAT.damage(folder / "queue.sqlite")]


def _damage_of_benchmark(folder: Path) -> list[str]:
    found = _damage_of_manifest(folder / _MANIFEST)
    try:
        Benchmark.open(folder)
    except (UserError, RecordError, ValueError) as error:
        found.append(f"{folder} cannot be read: {error}")
    return found


def _damage_of_manifest(path: Path) -> list[str]:
    try:
        whole = is_sealed_json(path.read_bytes())
    except ValueError as error:
        return [f"{path} cannot be read: {error}"]
    return [] if whole else [f"{path} is not as it was written"]


def _damage_of_store(folder: Path) -> list[str]:
    try:
        return list(check_store(folder).damaged)
    except (UserError, RecordError) as error:
        return [str(error)]


_WITH_MANIFEST = ("stores", "benchmarks", "runs")
_KINDS: Mapping[str, tuple[str, Callable[[Path], list[str]]]] = {
    "stores": ("shards", _damage_of_store),
    "benchmarks": ("samples.jsonl", _damage_of_benchmark),
    "runs": ("logs", _damage_of_run),
    "streams": (LEDGER, damage_of_stream),
    "corpora": (CORPUS, damage_of_corpus),
}
"""What lies in a folder of a kind, and how that is checked."""
