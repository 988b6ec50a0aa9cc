"""One table's file: how subjects share messages, what a read takes, and that damage is met on the first read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from wardround.core import RecordError
from wardround.records.shards.shard_file import TableFile, TableShard, _groups, _open, write_table

ROW = 8
"""Bytes of a row of one whole number."""


def written(folder: Path, subjects: list[int]) -> TableShard:
    """A table of one whole number a row: the row's own place."""
    batch = pa.record_batch({"n": np.arange(len(subjects))})
    blocks = write_table(folder, "t", batch, np.array(subjects))
    return _open(folder, blocks.file, blocks.index)


def each(*rows: int) -> list[int]:
    """Subjects 10, 11, ... with so many rows."""
    return [10 + place for place, count in enumerate(rows) for _ in range(count)]


def spoilt(shard: TableShard, place: int) -> None:
    data = bytearray(shard.path.read_bytes())
    data[place] ^= 1
    shard.path.write_bytes(data)


@pytest.mark.parametrize(
    ("rows", "wanted", "groups"),
    [
        ([3, 3, 3], 6, [0, 0, 1]),
        ([3, 4], 6, [0, 1]),
        ([7, 1, 1], 6, [0, 1, 1]),
        ([1, 1, 1], 1, [0, 1, 2]),
        ([6], 6, [0]),
        ([2, 4, 1, 5, 1], 6, [0, 0, 1, 1, 2]),
    ],
)
def test_subjects_share_a_group_until_it_would_hold_too_many_rows(
    rows: list[int], wanted: int, groups: list[int]
) -> None:
    assert _groups(np.array(rows), wanted).tolist() == groups
    assert len(_groups(np.array([], np.int64), wanted)) == 0


@pytest.mark.parametrize("rows", [(2, 1, 3), (512, 600, 700), (1,), (5000, 1)])
def test_every_subject_gets_its_own_rows(tmp_path: Path, rows: tuple[int, ...]) -> None:
    subjects = each(*rows)
    shard = written(tmp_path, subjects)
    expected = {one: [n for n, other in enumerate(subjects) if other == one] for one in dict.fromkeys(subjects)}
    found = {one: shard.read(one) for one in expected}
    assert {one: None if batch is None else batch.column("n").to_pylist() for one, batch in found.items()} == expected
    assert [shard.read(one) for one in (9, 10 + len(rows))] == [None, None]
    assert {one: batch.column("n").to_pylist() for one, batch in shard.read_all()} == expected
    owners, whole = shard.whole()
    assert owners.tolist() == subjects
    assert whole.column("n").to_pylist() == list(range(len(subjects)))
    shard.check()


def test_an_earlier_table_lends_only_messages_whose_every_byte_is_the_same(tmp_path: Path) -> None:
    subjects, cells = np.array(each(5000, 5000, 5000)), np.arange(15000)
    (tmp_path / "old").mkdir()
    old = written(tmp_path / "old", subjects.tolist())
    assert old.unpacked()[1].column("n").to_pylist() == cells.tolist()
    changed = np.where(cells == 7000, 1, cells)  # of subject 11
    files = []
    for name, earlier in (("plain", None), ("lent", old)):
        (tmp_path / name).mkdir()
        blocks = write_table(tmp_path / name, "t", pa.record_batch({"n": changed}), subjects, earlier=earlier)
        files.append((blocks.file, blocks.index, (tmp_path / name / blocks.file.name).read_bytes()))
    assert files[0] == files[1]
    lent = [
        old.stored_message(11 + place, pa.record_batch({"n": part}).serialize()) is not None
        for place, part in (
            (-1, cells[:5000]),
            (0, changed[5000:10000]),
            (0, cells[5000:10000]),
            (1, cells[5000:10000]),
        )
    ]
    assert lent == [True, False, True, False]
    assert old.stored_message(99, pa.record_batch({"n": cells[10000:]}).serialize()) is None


@pytest.mark.parametrize("rows", [(2, 1, 3), (300, 300, 300, 1), (5000, 1, 5000)])
def test_a_range_of_subjects_is_what_the_whole_has_of_them(tmp_path: Path, rows: tuple[int, ...]) -> None:
    subjects = np.array(each(*rows))
    shard = written(tmp_path, subjects.tolist())
    for least in range(9, 11 + len(rows)):
        for most in range(least, 12 + len(rows)):
            places = np.flatnonzero((subjects >= least) & (subjects <= most))
            found = shard.between(least, most)
            assert (found is None) == (not len(places))
            if found is not None:
                assert found[0].tolist() == subjects[places].tolist()
                assert found[1].column("n").to_pylist() == places.tolist()


def test_a_range_of_subjects_unpacks_only_its_own_messages(tmp_path: Path) -> None:
    shard = written(tmp_path, each(5000, 5000, 5000))
    spoilt(shard, int(shard.offset[2]) + 20)
    assert shard.between(10, 11) is not None
    with pytest.raises(RecordError, match="is damaged"):
        shard.between(11, 12)


def test_a_subject_between_two_others_has_no_rows(tmp_path: Path) -> None:
    shard = written(tmp_path, [10, 10, 20])
    assert [shard.read(one) is None for one in (10, 15, 20)] == [False, True, False]


@pytest.mark.parametrize(("rows", "packed"), [((511,), False), ((512,), True), ((1, 1022), False), ((1, 1023), True)])
def test_subjects_of_four_kilobytes_on_average_are_packed(tmp_path: Path, rows: tuple[int, ...], packed: bool) -> None:
    shard = written(tmp_path, each(*rows))
    assert shard.path.name == ("t.arrows.zst" if packed else "t.arrows")
    assert (shard.raw > 0).tolist() == [packed] * len(rows)


@pytest.mark.parametrize(
    ("rows", "heads"),
    [
        ([256] * 129, [0, 128]),  # 128 x 256 rows x 8 bytes: 256 KB
        ([512] * 9, [0, 8]),  # 8 x 512 rows x 8 bytes: 32 KB
        ([4096, 4096], [0, 1]),
        ([5000, 1, 5000], [0, 1, 2]),
    ],
)
def test_a_message_holds_so_many_bytes(tmp_path: Path, rows: list[int], heads: list[int]) -> None:
    shard = written(tmp_path, each(*rows))
    assert shard.message_heads.tolist() == heads
    starts = [sum(rows[max(head for head in heads if head <= place) : place]) for place in range(len(rows))]
    assert shard.start.tolist() == starts
    assert shard.rows.tolist() == rows


@pytest.mark.parametrize("rows", [(1, 2), (256,) * 129, (600, 600)])
def test_a_turned_bit_is_met_when_a_message_is_read_for_the_first_time(tmp_path: Path, rows: tuple[int, ...]) -> None:
    whole = written(tmp_path, each(*rows))
    data = whole.path.read_bytes()
    for place in whole.message_heads.tolist():
        offset, stored = int(whole.offset[place]), int(whole.stored[place])
        for at in (offset, offset + stored // 2, offset + stored - 1):
            shard = written(tmp_path, each(*rows))
            spoilt(shard, at)
            with pytest.raises(RecordError, match="is damaged"):
                shard.read(10 + place)
            with pytest.raises(RecordError, match="is damaged"):
                shard.check()
            whole.path.write_bytes(data)


def test_a_plain_message_is_checked_once_and_every_other_by_itself(tmp_path: Path) -> None:
    shard = written(tmp_path, each(*[256] * 129))
    shard.read(10)
    shard.read(11)
    assert shard._checked == {int(shard.offset[0])}
    shard.read(10 + 128)
    assert shard._checked == {int(shard.offset[0]), int(shard.offset[128])}


def test_the_ends_and_the_length_are_checked_too(tmp_path: Path) -> None:
    shard = written(tmp_path, each(3, 3))
    assert shard.file.size == shard.path.stat().st_size
    spoilt(shard, shard.file.size - shard.file.tail_size)
    with pytest.raises(RecordError, match="not those that were written"):
        shard.check()
    spoilt(shard, shard.file.size - shard.file.tail_size)
    spoilt(shard, shard.file.head_size - 1)
    index = pa.record_batch(
        {name: getattr(shard, name.replace("subject_id", "subjects")) for name in
         ("subject_id", "offset", "stored", "raw", "start", "rows", "checksum")}
    )  # fmt: skip
    with pytest.raises(RecordError, match="not those that were written"):
        _open(tmp_path, shard.file, index)
    spoilt(shard, shard.file.head_size - 1)
    _open(tmp_path, shard.file, index).check()
    shard.path.write_bytes(shard.path.read_bytes() + b"x")
    with pytest.raises(RecordError, match=rf"it has {shard.file.size + 1:,} bytes and should have {shard.file.size:,}"):
        _open(tmp_path, shard.file, index).check()


def test_what_an_index_keeps_of_a_file_is_read_again() -> None:
    file = TableFile(name="t", size=1, head_size=2, head_checksum=3, tail_size=4, tail_checksum=5)
    assert TableFile.from_json(file.to_json()) == file
