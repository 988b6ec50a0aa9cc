"""Who may read what the commands make: nobody else, whatever the umask; with a word also the group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from records.small_source import FILES, small_spec, write_files
from wardround.cli import main
from wardround.core import private_folder
from wardround.records import ingest


@pytest.fixture(autouse=True, params=[0o000, 0o277])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    assert os.umask(before) == request.param, "a command leaves the umask as it was"


def modes(folder: Path) -> set[tuple[bool, int]]:
    """(whether a folder, mode) of a folder and of all in it."""
    return {(path.is_dir(), path.stat().st_mode & 0o777) for path in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], {(True, 0o700), (False, 0o600)}), (["--share-group"], {(True, 0o770), (False, 0o660)})],
)
def test_all_that_the_commands_make_is_private(
    words: list[str],
    expected: set[tuple[bool, int]],
    umask: int,
    synthetic_store_path: Path,
    synthetic_benchmark_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    before = os.umask(0o022)
    here = tmp_path_factory.mktemp("private")
    raw, _ = write_files(here / "raw", FILES), small_spec(here / "spec")
    os.umask(before)
    assert main(["ingest", str(here / "spec"), str(raw), "--store", str(here / "deep" / "store"), *words]) == 0
    run = [str(synthetic_benchmark_path), "--store", str(synthetic_store_path), "--out", str(here / "run")]
    some = ["--task", "transfers", "--limit", "1", "--workers", "1"]
    assert main(["run", "--benchmark", *run, *some, *words]) == 0
    assert main(["report", str(here / "run"), *words]) == 0
    assert main(["export", "meds", "--store", str(here / "deep" / "store"), "--out", str(here / "meds"), *words]) == 0
    for name in ("deep/store", "run", "meds"):
        assert modes(here / name) == expected, name


def test_a_store_made_from_python_is_in_a_folder_of_its_owner(tmp_path_factory: pytest.TempPathFactory) -> None:
    before = os.umask(0o022)
    here = tmp_path_factory.mktemp("private")
    raw, spec = write_files(here / "raw", FILES), small_spec(here / "spec")
    os.umask(before & 0o077)
    try:
        ingest(spec, raw, here / "store")
        private_folder(here / "some" / "folder")
    finally:
        os.umask(before)
    assert (here / "store").stat().st_mode & 0o777 == 0o700
    assert (here / "some" / "folder").stat().st_mode & 0o777 == 0o700
