"""A store has its manifest, and opens, only when everything in it is on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wardround.records.shards.layout import MANIFEST, write_manifest


def test_every_file_is_synced_before_the_manifest_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = tmp_path / "shards" / "00000"
    shard.mkdir(parents=True)
    (shard / "labevents.arrow").write_bytes(b"rows")
    synced: list[str] = []
    rename = os.replace

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    def replace(source: Path, target: Path) -> None:
        assert {"labevents.arrow", "00000", "shards", MANIFEST + ".tmp"} <= set(synced)
        rename(source, target)

    if not Path("/proc/self/fd").exists():
        pytest.skip("names of open files are read from /proc")
    monkeypatch.setattr("wardround.core.files.os.fsync", fsync)
    monkeypatch.setattr("wardround.core.files.os.replace", replace)
    write_manifest(tmp_path, {"source": "x"})
    assert (tmp_path / MANIFEST).is_file()
    assert synced[-1] == tmp_path.name, "the name of the manifest too"
