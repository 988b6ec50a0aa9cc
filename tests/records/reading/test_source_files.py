"""Finding a source's files: what is a table, a part, a release, nothing, and what nobody asked for."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from wardround.core import UserError
from wardround.records import SourceSpec, load_source_spec
from wardround.records.reading import source_files
from wardround.records.reading.source_files import SourceFiles, find_files, is_empty, table_files

TABLE = '[tables.{name}]\npath = "{path}"\nevent_time = "at"\navailable_at = "at"\n[tables.{name}.columns]\n'
COLUMNS = 'subject_id = "int"\nat = "time"\n'


def spec_of(folder: Path, **paths: str) -> SourceSpec:
    tables = "".join(TABLE.format(name=name, path=path) + COLUMNS for name, path in paths.items())
    (folder / "small.toml").write_text(f'[source]\nname = "small"\n{tables}')
    return load_source_spec(folder / "small.toml")


def files_in(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("a\n")
    return folder


def named(files: SourceFiles) -> dict[str, list[str]]:
    return {name: [files.name(path) for path in paths] for name, paths in files.tables.items()}


@pytest.mark.parametrize(
    "name",
    [
        "hosp/labs.csv",
        "hosp/labs.csv.gz",
        "hosp/labs.parquet",
        "labs.csv",
        "HOSP/LABS.CSV.GZ",
        "Hosp/Labs.csv",
        "Labs.TSV.gz",
    ],
)
def test_a_table_is_found_in_its_module_or_beside_it_in_any_case(tmp_path: Path, name: str) -> None:
    files = find_files(spec_of(tmp_path, labs="hosp/labs"), files_in(tmp_path / "raw", name))
    assert named(files) == {"labs": [name]}
    assert (files.missing, files.unknown, files.empty) == ((), (), ())


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("labs.csv", "labs.parquet", "labs.csv.gz"), "labs.csv"),
        (("labs.parquet", "labs.csv.gz"), "labs.csv.gz"),
        (("labs.csv", "hosp/labs.parquet"), "hosp/labs.parquet"),
        (("labs.csv", "LABS.csv"), "LABS.csv"),
        (("labs.csv", "labs/0.csv"), "labs.csv"),
    ],
)
def test_of_several_the_first_counts_and_the_others_are_named(
    tmp_path: Path, names: tuple[str, ...], found: str
) -> None:
    files = find_files(spec_of(tmp_path, labs="hosp/labs"), files_in(tmp_path / "raw", *names))
    assert named(files) == {"labs": [found]}
    assert files.unknown == tuple(sorted(set(names) - {found}))


def test_what_is_missing_unknown_and_empty_is_said_in_order(tmp_path: Path) -> None:
    raw = files_in(tmp_path / "raw", "labs.csv", "z.csv", "b/a.parquet", "notes.txt", "folder.csv/inner.txt")
    (raw / "stays.csv").write_text("")
    (raw / "empty.csv").write_text("")
    files = find_files(spec_of(tmp_path, labs="labs", stays="stays", drugs="drugs"), raw)
    assert files.missing == ("drugs", "stays")
    assert files.unknown == ("b/a.parquet", "z.csv")
    assert files.empty == ("empty.csv", "stays.csv")


def test_nothing_there_says_what_is_expected_and_what_is_empty(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    with pytest.raises(UserError, match=r"raw: no such folder; give the folder that holds hosp/labs\.csv\.gz"):
        find_files(spec_of(tmp_path, labs="hosp/labs"), raw)
    raw.mkdir()
    with pytest.raises(UserError, match=r"no table of source 'small' is there; expected files like x/\*\.parquet$"):
        find_files(spec_of(tmp_path, labs="x/*"), raw)
    for place in range(9):
        (raw / f"t{place}.csv").write_text("")
    (raw / "labs.csv").write_text("")
    with pytest.raises(UserError) as error:
        find_files(spec_of(tmp_path, labs="labs"), raw)
    names = ", ".join(["labs.csv", *(f"t{place}.csv" for place in range(7))])
    assert str(error.value).endswith(f"expected files like labs.csv.gz (empty: {names})")


def test_the_release_below_is_taken_and_not_the_folder_inside_it(tmp_path: Path) -> None:
    raw = files_in(tmp_path / "raw", "x/2.2/hosp/labs.csv", "x/2.2/icu/stays.csv", "readme/labs.txt")
    files = find_files(spec_of(tmp_path, labs="hosp/labs", stays="icu/stays"), raw)
    assert files.folders == (raw / "x" / "2.2",)
    assert named(files) == {"labs": ["hosp/labs.csv"], "stays": ["icu/stays.csv"]}


def test_tables_of_two_folders_below_are_one_source_unless_both_hold_one(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, labs="labs", stays="stays")
    raw = files_in(tmp_path / "raw", "one/labs.csv", "two/stays.csv")
    assert named(find_files(spec, raw)) == {"labs": ["labs.csv"], "stays": ["stays.csv"]}
    files_in(raw, "two/labs.csv")
    with pytest.raises(UserError, match=r"raw/one and .*raw/two both hold 'labs'; give the folder that is meant"):
        find_files(spec, raw)


def test_several_folders_are_searched_in_their_order(tmp_path: Path) -> None:
    one, two = files_in(tmp_path / "one", "labs.csv"), files_in(tmp_path / "two", "labs.csv", "stays.csv")
    files = find_files(spec_of(tmp_path, labs="labs", stays="stays"), [one, two])
    assert files.tables == {"labs": (one / "labs.csv",), "stays": (two / "stays.csv",)}
    assert files.name(tmp_path / "elsewhere" / "x.csv") == "x.csv"


def test_a_pattern_is_all_that_matches_and_no_hidden_or_empty_file(tmp_path: Path) -> None:
    raw = files_in(tmp_path / "raw", "data/b/1.parquet", "data/a/0.parquet", "data/a/.0.parquet", "data/a/n.txt")
    (raw / "data" / "a" / "2.parquet").write_bytes(b"")
    files = find_files(spec_of(tmp_path, events="data/*/*"), raw)
    assert named(files) == {"events": ["data/a/0.parquet", "data/b/1.parquet"]}


@pytest.mark.parametrize("folder", ["labs", "LABS", "labs.csv", "hosp/labs.parquet"])
def test_a_folder_of_its_name_holds_a_tables_parts(tmp_path: Path, folder: str) -> None:
    names = (f"{folder}/b.csv", f"{folder}/y=1/a.csv", f"{folder}/_log/c.csv", f"{folder}/.d.csv", f"{folder}/e.txt")
    raw = files_in(tmp_path / "raw", *names)
    assert named(find_files(spec_of(tmp_path, labs="hosp/labs"), raw)) == {"labs": list(names[:2])}


def test_a_folder_without_a_part_is_no_table(tmp_path: Path) -> None:
    raw = files_in(tmp_path / "raw", "labs/readme.txt", "labs.csv/1.csv")
    assert named(find_files(spec_of(tmp_path, labs="labs"), raw)) == {"labs": ["labs.csv/1.csv"]}


def test_a_fingerprint_is_name_size_and_time_of_every_used_file(tmp_path: Path) -> None:
    raw = files_in(tmp_path / "raw", "b.csv", "a.csv", "unused.csv")
    for name in ("a.csv", "b.csv"):
        os.utime(raw / name, ns=(7, 7_000_000_000))
    files = find_files(spec_of(tmp_path, one="b", two="a"), raw)
    assert files.fingerprint() == [["one", "b.csv", 2, 7_000_000_000], ["two", "a.csv", 2, 7_000_000_000]]


def test_a_search_below_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = files_in(tmp_path / "raw", "one/labs.csv")
    assert find_files(spec_of(tmp_path, labs="labs"), raw).folders == (raw / "one",)
    monkeypatch.setattr(source_files, "_MOST_FOLDERS", 0)
    with pytest.raises(UserError, match="no table of source"):
        find_files(spec_of(tmp_path, labs="labs"), raw)


@pytest.mark.parametrize(
    ("name", "data", "empty"),
    [
        ("a.csv", b"", True),
        ("a.csv", b"\n", False),
        ("a.csv.gz", b"", True),
        ("a.csv.gz", gzip.compress(b"", mtime=0), True),
        ("A.CSV.GZ", gzip.compress(b"", mtime=0), True),
        ("a.csv.gz", gzip.compress(b"x", mtime=0), False),
        ("a.csv.gz", gzip.compress(b"xyz" * 100, mtime=0)[:15], False),
        ("a.csv.gz", b"no gzip", False),
        ("a.csv", gzip.compress(b"", mtime=0), False),
    ],
)
def test_a_file_of_nothing_is_empty_compressed_or_not(tmp_path: Path, name: str, data: bytes, empty: bool) -> None:
    (tmp_path / name).write_bytes(data)
    assert is_empty(tmp_path / name) is empty


def test_only_a_small_compressed_file_is_opened_to_see_whether_it_is_empty(tmp_path: Path) -> None:
    nothing = gzip.compress(b"") * 52
    assert len(nothing) > 1_024
    (tmp_path / "a.gz").write_bytes(nothing)
    assert not is_empty(tmp_path / "a.gz")


def test_a_folders_tables_are_its_files_and_numbered_ones_are_parts(tmp_path: Path) -> None:
    raw = files_in(
        tmp_path / "raw",
        "hosp/Labs.csv.gz",
        "notes.PARQUET",
        "events/part-00.csv",
        "events/year=2020/1.csv",
        "events/year=2021/chunk_2.csv",
        "1.csv",
        "_log/x.csv",
        "readme.txt",
    )
    found = table_files(raw)
    assert [(name, shown) for name, shown, _ in found] == [
        ("1", "1.csv"),
        ("events", "events/part-00.csv and 2 more"),
        ("hosp/Labs", "hosp/Labs.csv.gz"),
        ("notes", "notes.PARQUET"),
    ]
    assert [len(paths) for *_, paths in found] == [1, 3, 1, 1]
    with pytest.raises(UserError, match="nowhere: no such folder"):
        table_files(tmp_path / "nowhere")
