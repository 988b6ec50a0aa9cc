"""A file that is written whole is on the disk, its name too; one that can be made again is not waited for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from wardround.core import sync_tree, write_atomically


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, in order, with renames between: 'file', 'folder', 'rename'."""
    done: list[str] = []
    rename = os.replace

    def fsync(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    def replace(source: Path, target: Path) -> None:
        done.append("rename")
        rename(source, target)

    monkeypatch.setattr("wardround.core.files.os.fsync", fsync)
    monkeypatch.setattr("wardround.core.files.os.replace", replace)
    return done


def test_a_file_is_on_the_disk_before_its_name_and_its_name_before_it_returns(
    tmp_path: Path, synced: list[str]
) -> None:
    write_atomically(tmp_path / "a.json", iter(["", "é"]))
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == "é"
    assert synced == ["file", "rename", "folder"]
    synced.clear()
    write_atomically(tmp_path / "page.html", "x", durable=False)
    assert synced == ["rename"]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.json", "page.html"]


def test_a_tree_is_on_the_disk_whole(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("a", "inner/b"):
        (tmp_path / name).write_text(name)
    sync_tree(tmp_path)
    assert sorted(synced) == ["file", "file", "folder", "folder"]
