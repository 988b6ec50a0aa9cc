"""Damage to a store's files: whatever bit is turned, reading says so or gives what was written, and nothing crashes."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from records.small_source import FILES, moment, small_store
from wardround.audits import check_store
from wardround.cli.main import main
from wardround.core import RecordError, UserError
from wardround.records import Store
from wardround.records.ingest.reuse import Origin
from wardround.records.shards.layout import map_checked
from wardround.records.shards.shard_file import order_file, read_orders

FLIPS_IN_A_FILE = 8


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two shards, one table of which is packed; a quarantined row."""
    labs = FILES["hosp/labs.csv"].replace("NEG", "seen " * 1500).replace(",1,1,", f",{'none ' * 1500},1,")
    labs += "one-oh-five,1,,501,2150-01-01 07:00:00,,1,1,\n"
    return small_store(tmp_path_factory.mktemp("damage"), {"hosp/labs.csv": labs}, shards=2)


def everything(path: Path) -> Any:
    """All that a store hands out, by every way there is."""
    store = Store.open(path)
    scanned = [list(store.scan(name)) for name in store.table_names]
    fetched = [store.rows(subject, name) for subject in store.subjects.tolist() for name in store.table_names]
    charts = [
        [store.chart(subject, moment("05 00:00")).table(name).batch for name in store.table_names] for subject in (1, 2)
    ]
    whole = [store.shard_rows(shard, name) for shard in range(store.shard_count) for name in store.table_names]
    rows = [None if part is None else (part[1].tolist(), part[2].to_pydict()) for part in whole]
    dictionaries = [store.dictionary(name).to_pydict() for name in store.manifest["dictionaries"]]
    tables = [[(subject, batch.to_pydict()) for subject, batch in table] for table in scanned]
    plain = [[batch.to_pydict() for batch in part] for part in (fetched, *charts)]
    lent = Origin.read(path, store.manifest)
    files = store.manifest["files"]
    orders = [read_orders(map_checked(path / name, files[name])) for name in map(order_file, range(store.shard_count))]
    moved = [{name: places.tolist() for name, places in each.items()} for each in orders]
    return store.manifest, store.spec, store.subjects.tolist(), tables, plain, rows, dictionaries, lent, moved


def turned(path: Path, place: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def test_no_turned_bit_changes_what_is_read(store: Store, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy)
    expected = everything(copy)
    draw, noticed, flips = random.Random(20), 0, 0
    for path in sorted(file for file in copy.rglob("*") if file.is_file()):
        size = path.stat().st_size
        for place in sorted(draw.sample(range(size), min(FLIPS_IN_A_FILE, size))):
            bit = draw.randrange(8)
            turned(path, place, bit)
            flips += 1
            try:
                assert everything(copy) == expected, f"{path.name}, byte {place}, bit {bit}: changed in silence"
            except (RecordError, UserError):
                noticed += 1
            turned(path, place, bit)
    assert everything(copy) == expected
    assert noticed >= 0.9 * flips, "what no reader needs (quarantine, ends of streams) is the audit's"


def test_the_audit_of_a_store_finds_every_turned_bit(store: Store, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy)
    assert check_store(copy).whole
    draw = random.Random(21)
    for path in sorted(file for file in copy.rglob("*") if file.is_file() and file.name != "manifest.json"):
        size = path.stat().st_size
        for place in sorted({0, size - 1, *draw.sample(range(size), min(3, size))}):
            turned(path, place, draw.randrange(8))
            found = check_store(copy).damaged
            shutil.copy(store.path / path.relative_to(copy), path)
            assert len(found) == 1
            assert path.name in found[0]


def test_missing_short_long_and_foreign_files(store: Store, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy)
    packed = next(copy.glob("shards/*/labs.arrows.zst"))
    data = packed.read_bytes()
    for body in (b"", data[: len(data) // 2], data + b"more"):
        packed.write_bytes(body)
        assert [packed.name in line for line in check_store(copy).damaged] == [True]
        if len(body) < len(data):
            with pytest.raises(RecordError, match=r"labs\.arrows\.zst is damaged"):
                everything(copy)
    packed.unlink()
    assert "it is missing" in check_store(copy).damaged[0]
    with pytest.raises(RecordError, match="it is missing"):
        everything(copy)
    packed.write_bytes(data)
    (copy / "shards" / "notes.txt").write_text("mine")
    assert check_store(copy).unknown == ("shards/notes.txt",)


def test_the_command_prints_what_is_damaged_and_ends_with_status_1(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy)
    assert main(["audit", "store", str(copy)]) == 0
    assert "0 damaged" in capsys.readouterr().out
    turned(copy / "shards" / "00000" / "index.arrow", 700, 3)
    assert main(["audit", "store", str(copy)]) == 1
    assert "index.arrow is damaged" in capsys.readouterr().out


def test_an_edited_store_sends_nothing_that_it_did_not_send_before(store: Store, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy)
    spec, manifest = copy / "spec" / "small.toml", copy / "manifest.json"
    text = spec.read_text()
    spec.write_text(text.replace('name = "small"\n', 'name = "small"\nsensitivity = "synthetic"\n'))
    with pytest.raises(RecordError, match=r"small\.toml is damaged"):
        Store.open(copy)
    body = json.loads(manifest.read_text())
    body["files"]["spec/small.toml"] = hashlib.sha256(spec.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(body))
    with pytest.raises(RecordError, match=r"manifest\.json is damaged"):
        Store.open(copy)
    spec.write_text(text)
    manifest.write_text(
        json.dumps({**json.loads((store.path / "manifest.json").read_text()), "sensitivity": "synthetic"})
    )
    with pytest.raises(RecordError, match=r"manifest\.json is damaged"):
        Store.open(copy)
    shutil.copy(store.path / "manifest.json", manifest)
    (copy / "spec" / "more.toml").write_text('[source]\nname = "small"\n')
    with pytest.raises(RecordError, match="not the spec that the records were ingested with"):
        Store.open(copy)
