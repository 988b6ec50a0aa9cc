"""Checking a store whole: every byte of every file against the hash or checksum that was written with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wardround.core import Progress, RecordError, Reporter, silent
from wardround.records.ingest import Lineage
from wardround.records.shards import INDEX, MANIFEST, Shard, map_checked, read_manifest, shard_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """What was found. ``damaged`` says per file what is wrong; ``unknown`` files are no part of a store."""

    files: int
    bytes: int
    damaged: tuple[str, ...]
    unknown: tuple[str, ...]
    made_from: Lineage | None = None
    """The earlier release's store that this one was made from."""

    @property
    def whole(self) -> bool:
        """Whether every file is as it was written."""
        return not self.damaged

    def as_text(self) -> str:
        """Say it in a few lines."""
        lines = [f"{self.files:,} files, {self.bytes:,} bytes: {len(self.damaged):,} damaged or missing"]
        lines += self.damaged
        lines += [f"no part of the store: {name}" for name in self.unknown]
        lines += [] if self.made_from is None else [self.made_from.as_text()]
        return "\n".join(lines)


def check_store(store: Path, report: Reporter = silent) -> StoreCheck:
    """Read every file of a store. UserError, RecordError: its manifest cannot be read, so nothing else can be known."""
    manifest = read_manifest(store)
    known = {store / MANIFEST}
    damaged: list[str] = []
    for name, sha256 in manifest["files"].items():
        known.add(store / name)
        try:
            map_checked(store / name, sha256)
        except RecordError as error:
            damaged.append(str(error))
    for number, sha256 in enumerate(manifest["indexes"]):
        shard = Shard(shard_folder(store, number), sha256)
        known.add(shard.folder / INDEX)
        damaged += _check_shard(shard, known)
        report(Progress(label="check shards", done=number + 1, total=len(manifest["indexes"]), unit="shards"))
    there = {path for path in store.rglob("*") if path.is_file()}
    return StoreCheck(
        files=len(known),
        bytes=sum(path.stat().st_size for path in known & there),
        damaged=tuple(damaged),
        unknown=tuple(sorted(path.relative_to(store).as_posix() for path in there - known)),
        made_from=None if manifest.get("made_from") is None else Lineage(**manifest["made_from"]),
    )


def _check_shard(shard: Shard, known: set[Path]) -> Iterator[str]:
    try:
        names = shard.table_names
    except RecordError as error:
        yield str(error)
        return
    for name in names:
        known.add(shard.path_of(name))
        try:
            table = shard.table(name)
            if table is not None:
                table.check()
        except RecordError as error:
            yield str(error)
