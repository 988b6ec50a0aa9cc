"""A flipped bit in anything of ours is seen: when it is read, or by ``audit files``."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from effort import often
from extras import needs
from memory.memory_doubles import key, lesson
from stream.stream_lines import lab, written
from wardround.cli import main
from wardround.core import RecordError, UserError
from wardround.log import LogReader, damage_of_log
from wardround.memory import Bank
from wardround.records import load_source_spec
from wardround.runs import RunFolder, RunSettings, check_files, execute, start
from wardround.stream import FollowSettings, follow
from wardround.tools.knowledge import Corpus, add_corpus
from wardround.tools.knowledge.corpus import INDEX

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
    assert "manifest.json is not as it was written" in said
    with pytest.raises(UserError, match="no folder"):
        check_files(tmp_path / "nothing")


def _bank(folder: Path) -> None:
    with Bank.open(folder / "bank.sqlite") as bank:
        for number in range(12):
            bank.add([lesson(bank, f"lesson {number}", number)], key=key(1, number))
        bank.add_feedback(bank.experiences()[0].id, "used", value=1.0, episode="agent|model|task|sample|0")
        bank.revise(bank.experiences()[1].id, content="otherwise", reason="seen")


def _stream(folder: Path) -> None:
    hours = [(subject, hour) for hour in range(8, 20) for subject in (7, 8, 9)]
    lines = [lab(subject, f"2150-01-02 {hour:02}:30:00", hour / 3, f"{subject}-{hour}") for subject, hour in hours]
    row = {"subject_id": 7, "hadm_id": 1, "admittime": "2150-01-02 08:00:00"}
    source = written(folder.parent / "lines", [json.dumps({"table": "admissions", "row": row}), *lines, "no line"])
    follow(load_source_spec("mimiciv"), source, folder, settings=FollowSettings(once=True, finish=True))


def _corpus(folder: Path) -> None:
    pages = folder.parent / "pages"
    pages.mkdir()
    for number in range(20):
        (pages / f"{number}.md").write_text(f"# Page {number}\n\nLactate, page {number} of a book. " * 20, "utf-8")
    add_corpus(folder, "book", pages, licence="ours", date="2024-01-01")


def _content(path: Path) -> object:
    """What can be read of a file: of a database its rows, of a corpus its documents, of another its bytes."""
    if path.parent.name == INDEX:
        return Corpus.open(path.parent.parent).search("lactate page book", 50)
    if path.suffix != ".sqlite":
        return path.read_bytes()
    with sqlite3.connect(path) as connection:
        connection.create_function("row_seal", -1, lambda *values: 7, deterministic=True)
        return [text for text in connection.iterdump() if "sqlite_" not in text]


def _replace(path: Path, data: bytes) -> None:
    """By another file: what is mapped from the one before stays whole."""
    path.with_name("new").write_bytes(data)
    path.with_name("new").replace(path)


CORPORA = pytest.param("corpora", marks=needs("tantivy"))


@pytest.mark.parametrize("kind", ["stores", "benchmarks", "runs", "banks", "streams", CORPORA])
def test_no_flipped_bit_is_silent(
    kind: str, played: RunFolder, synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    """In any file of it, larger ones more often; a page of a database that holds nothing may change."""
    folder = tmp_path / kind
    there = {"stores": synthetic_store_path, "benchmarks": synthetic_benchmark_path, "runs": played.path}
    if kind in there:
        shutil.copytree(there[kind], folder)
    else:
        folder.mkdir()
        {"banks": _bank, "streams": _stream, "corpora": _corpus}[kind](folder)
    whole = check_files(tmp_path)
    assert (whole.checked[kind], whole.damaged) == (1, ())
    draw = random.Random(kind)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    silent = []
    for _ in range(often(20, 200)):
        (path,) = draw.choices(files, [path.stat().st_size ** 0.5 for path in files])
        before, data = _content(path), path.read_bytes()
        place, bit = draw.randrange(len(data)), draw.randrange(8)
        _replace(path, data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
        if not check_files(tmp_path).damaged and _content(path) != before:
            silent.append(f"{path.relative_to(folder)}, byte {place}, bit {bit}")
        _replace(path, data)
    assert not silent, silent
