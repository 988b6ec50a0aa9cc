"""The page of formats names every field of the files that we write, and every format is version 1."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest

from wardround.clinical.bundles import files as bundle_files
from wardround.clinical.protocols import rules as protocol_file
from wardround.clinical.protocols.rules import ProtocolRule, RuleOrigin
from wardround.core import register_seals
from wardround.log import EpisodeLog
from wardround.log.database import LOG_FORMAT
from wardround.memory import Bank, transfer
from wardround.memory.bank_file import BANK_FORMAT
from wardround.predictors import results as predictions
from wardround.records.shards import layout
from wardround.records.shards.shard_file import INDEX_SCHEMA, TableFile
from wardround.runs import RunSettings, WorkQueue, evolution_record, folder, start
from wardround.runs.queue import QUEUE_FORMAT
from wardround.stream.ledger import LEDGER_FORMAT, StreamLedger
from wardround.stream.watching import OutputBundle
from wardround.tasks.benchmarks import Benchmark, benchmark, sharing
from wardround.tasks.scoring import EpisodeScore, episodes
from wardround.tools.candidates import space
from wardround.tools.knowledge import corpus as corpus

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
SECTIONS = {title: body for title, _, body in (part.partition("\n") for part in PAGE.split("\n## ")[1:])}
VERSIONS = (
    benchmark.SCHEMA,
    sharing.SHARE_SCHEMA,
    bundle_files.SCHEMA_VERSION,
    corpus.SCHEMA,
    LOG_FORMAT.version,
    transfer._VERSION,
    BANK_FORMAT.version,
    predictions.SCHEMA,
    protocol_file.SCHEMA,
    layout.STORE_VERSION,
    evolution_record._SCHEMA,
    folder.SCHEMA,
    episodes.SCHEMA,
    LEDGER_FORMAT.version,
    QUEUE_FORMAT.version,
    space.SCHEMA,
)


def missing(section: str, names: Iterable[str]) -> set[str]:
    """The names that stand in no code span of a section."""
    return set(names) - set(re.findall(r"[\w.:-]+", " ".join(re.findall(r"`([^`]+)`", SECTIONS[section]))))


def tables_of(path: Path) -> dict[str, set[str]]:
    """The columns of a database by table, without seals and what SQLite keeps for itself."""
    with closing(sqlite3.connect(path)) as connection:
        register_seals(connection)
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        own = [name for name in names if not name.startswith(("sqlite_", "words_"))]
        return {
            name: {row[1] for row in connection.execute(f"PRAGMA table_xinfo({name})") if not row[6] or row[6] == 3}
            - {"seal", "words", "rank"}
            for name in own
        }


def rows_of(section: str) -> dict[str, set[str]]:
    """What a section's tables of two columns name: in each row the names of the first cell, and those of the second."""
    found: dict[str, set[str]] = {}
    for line in SECTIONS[section].splitlines():
        cells = line.split("|")
        if line.startswith("| `"):
            for name in re.findall(r"`(\w+)`", cells[1]):
                found[name] = set(re.findall(r"`([^`]+)`", "|".join(cells[2:])))
    return found


def test_every_format_is_version_1() -> None:
    assert set(VERSIONS) == {1}


def test_every_table_and_column_of_a_database_is_on_the_page(tmp_path: Path) -> None:
    EpisodeLog(tmp_path / "log").close()
    Bank.open(tmp_path / "bank").close()
    StreamLedger(tmp_path / "ledger", {}).close()
    WorkQueue(tmp_path / "queue").close()
    for section, name in (
        ("Episode log", "log"),
        ("Bank", "bank"),
        ("Stream folder", "ledger"),
        ("Run folder", "queue"),
    ):
        told = rows_of(section)
        for table, columns in tables_of(tmp_path / name).items():
            assert table in told, f"{section}: {table}"
            assert columns <= told[table], f"{section}: {table}"


def test_every_field_of_a_run_its_store_and_its_benchmark_is_on_the_page(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    settings = RunSettings.of(benchmark=str(synthetic_benchmark_path), store=str(synthetic_store_path), limit=1)
    run = start(tmp_path / "run", settings)
    assert missing("Run folder", json.loads((run.path / "manifest.json").read_text(encoding="utf-8"))) == set()
    store = json.loads((synthetic_store_path / "manifest.json").read_text(encoding="utf-8"))
    assert missing("Store", {*store, *next(iter(store["tables"].values())), *INDEX_SCHEMA.names}) == set()
    manifest = json.loads((synthetic_benchmark_path / "manifest.json").read_text(encoding="utf-8"))
    sample = Benchmark.open(synthetic_benchmark_path).all_samples[0].to_json()
    assert missing("Benchmark", {*manifest, *sample}) == set()


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("Store", [one.name for one in fields(TableFile)]),
        ("Scored rows", [one.name for one in fields(EpisodeScore)]),
        ("Predictions of predictors", [one.name for one in fields(predictions.FitRow)]),
        ("Corpus", [one.name for kind in (corpus.CorpusManifest, corpus.AddedFile) for one in fields(kind)]),
        ("Protocol", [one.name for kind in (ProtocolRule, RuleOrigin) for one in fields(kind)]),
        ("Stream folder", OutputBundle.__struct_fields__),
        ("Exports of our own", [*bundle_files.EVENTS.names, *bundle_files.TARGETS.names]),
    ],
)
def test_every_field_is_on_the_page(section: str, names: Iterable[str]) -> None:
    assert missing(section, names) == set()
