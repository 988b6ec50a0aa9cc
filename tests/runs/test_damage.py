"""A flipped bit in a run, its logs or its benchmark is seen: when it is read, or by ``audit files``."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.core import RecordError, UserError
from wardround.log import LogReader, damage_of_log
from wardround.runs import RunFolder, RunSettings, check_files, execute, start

FLIPS = 60


@pytest.fixture(scope="module")
def played(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> RunFolder:
    settings = RunSettings.of(
        benchmark=str(synthetic_benchmark_path), store=str(synthetic_store_path), tasks=("diagnoses",), limit=3
    )
    folder = start(tmp_path_factory.mktemp("played") / "run", settings)
    execute(folder)
    return folder


def content_of(path: Path) -> list[object]:
    with LogReader(path) as reader:
        return [*reader.trajectories(), *reader.outlines()]


def test_a_flipped_bit_in_a_log_is_never_read_as_something_else(played: RunFolder, tmp_path: Path) -> None:
    (log,) = played.logs.glob("*.episodes.sqlite")
    whole, draw = log.read_bytes(), random.Random(20261123)
    before = content_of(log)
    copy = tmp_path / "copy.episodes.sqlite"
    seen = 0
    for _ in range(FLIPS):
        data = bytearray(whole)
        data[draw.randrange(4096, len(data))] ^= 1 << draw.randrange(8)
        copy.write_bytes(data)
        try:
            same = content_of(copy) == before
        except (UserError, RecordError, sqlite3.Error):
            seen += 1
            continue
        assert same, "read without a word, and other than it was written"
    assert seen > FLIPS / 4, "most of a log's bytes are content"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE tool SET row_ids = replace(row_ids, 'a', 'b'), seal = seal", "rows of tool"),
        ("UPDATE body SET text = text || ' '", "texts"),
        ("UPDATE message SET parent = x'00'", "messages"),
        ("UPDATE episode SET outcome = replace(outcome, 'finish', 'fimish')", "rows of episode"),
    ],
)
def test_what_was_changed_behind_the_seals_is_named(
    played: RunFolder, tmp_path: Path, statement: str, said: str
) -> None:
    (log,) = played.logs.glob("*.episodes.sqlite")
    copy = tmp_path / "copy.episodes.sqlite"
    shutil.copyfile(log, copy)
    connection = sqlite3.connect(copy)
    connection.create_function("row_seal", -1, lambda *values: 7, deterministic=True)
    connection.execute(statement.removesuffix(", seal = seal"))
    connection.commit()
    connection.close()
    (line,) = [line for line in damage_of_log(copy) if said in line]
    assert "not as they were written" in line


def test_audit_files_looks_through_a_folder(
    played: RunFolder, synthetic_benchmark_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(played.path, tmp_path / "all" / "run")
    shutil.copytree(synthetic_benchmark_path, tmp_path / "all" / "bench")
    assert main(["audit", "files", str(tmp_path / "all")]) == 0
    assert "checked 1 benchmarks, 1 runs, 1 logs: 0 damaged" in capsys.readouterr().out
    samples = next((tmp_path / "all" / "bench").glob("samples*"))
    manifest = tmp_path / "all" / "run" / "manifest.json"
    changes: dict[Path, Callable[[bytes], bytes]] = {
        samples: lambda data: data.replace(b"diagnoses", b"diagnosis", 1),
        manifest: lambda data: data.replace(b'"limit": 3', b'"limit": 4', 1),
    }
    for path, change in changes.items():
        data = path.read_bytes()
        assert change(data) != data
        path.write_bytes(change(data))
    assert main(["audit", "files", str(tmp_path / "all")]) == 1
    said = capsys.readouterr().out
    assert "2 damaged" in said
    assert str(samples) in said
    assert "the settings are not as they were written" in said
    with pytest.raises(UserError, match="no folder"):
        check_files(tmp_path / "nothing")
