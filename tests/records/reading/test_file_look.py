"""What a first look at a file says of it: encoding, delimiter, names, types, and which cells are empty."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wardround.core import UserError
from wardround.records.drafts import look as file_look
from wardround.records.drafts import look as first_rows
from wardround.records.drafts.look import look_at, spelt


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Fall", "fall"),
        (" geb. am ", "geb_am"),
        ("Größe", "groesse"),
        ("prénom-là", "prenom_la"),
        ("2nd", "c_2nd"),
        ("___", "c"),
        ("", "c"),
    ],
)
def test_a_name_is_one_that_a_rule_can_write(text: str, name: str) -> None:
    assert spelt(text) == name


def looked(folder: Path, text: str | bytes, name: str = "Werte.csv") -> Any:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return look_at([folder / name], "sub/Werte", "sub/Werte.csv", "werte")


@pytest.mark.parametrize(
    ("cells", "kind", "comma"),
    [
        (["1", "-2", "+3"], "int", False),
        (["1", "1.5"], "float", False),
        (["1,5", "2"], "float", True),
        (["058", "1.5"], "text", False),
        (["0.5", "1.5"], "float", False),
        (["2150-01-02", "2150-01-03"], "date", False),
        (["2150-01-02 10:00:00"], "time", False),
        (["a", "1"], "text", False),
        (["", "n/a"], "text", False),
        (["n/a", "7"], "int", False),
    ],
)
def test_the_type_of_a_column_is_that_of_its_filled_cells(
    tmp_path: Path, cells: list[str], kind: str, comma: bool
) -> None:
    look = looked(tmp_path, "x;Y\n" + "".join(f"k;{cell}\n" for cell in cells))
    column = look.column("y")
    assert (column.kind, column.has_comma, column.header) == (kind, comma, "y")
    assert look.column("z") is None


def test_full_and_unique_are_said_of_what_is_filled(tmp_path: Path) -> None:
    look = looked(tmp_path, "a,b,c,d,e\n1,x,,1,7\n2,x,-,1,-\n3,y,,2,8\n")
    found = {column.name: (column.is_full, column.is_unique) for column in look.columns}
    assert found == {"a": (True, True), "b": (True, False), "c": (False, False), "d": (True, False), "e": (False, True)}
    assert look.empty == {"-"}
    assert not looked(tmp_path, "a,b\n1,-\n2,x\n").empty, "among texts it may be a name"


def test_several_files_are_looked_at_together(tmp_path: Path) -> None:
    for n, text in enumerate(("a,b\n1,x\n2,y\n", "b,a,c\nz,3,1\n", "a,b\n1.5,z\n")):
        (tmp_path / f"x_{n}.csv").write_text(text, encoding="utf-8")
    look = look_at(sorted(tmp_path.glob("*.csv")), "x_*", "x", "x")
    assert [(c.name, c.kind, c.is_full, c.is_unique) for c in look.columns] == [
        ("a", "float", True, True),
        ("b", "text", True, False),
        ("c", "int", False, True),
    ]
    assert look.rows == 4


def test_what_a_look_is_called(tmp_path: Path) -> None:
    look = looked(tmp_path, "a\n1\n2\n3\n")
    assert (look.rows, look.name, look.path, look.shown) == (3, "werte", "sub/Werte", "sub/Werte.csv")
    assert look.times == ()


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2\n", ";"),
        ("a\tb\n1,5\t2\n", "\t"),
        ("a|b|c\n1|2|3\n", "|"),
        ('a;b\n"1;2;3";4\n', ";"),
    ],
)
def test_the_delimiter_cuts_all_lines_into_as_many_cells(tmp_path: Path, text: str, delimiter: str) -> None:
    look = looked(tmp_path, text)
    assert look.delimiter == delimiter
    assert [column.name for column in look.columns] == ["a", "b", "c"][: len(look.columns)]


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"a,b\n1,2\n", ""),
        ("a,b\nä,2\n".encode(), "utf-8"),
        ("a,b\nä,2\n".encode("cp1252"), "cp1252"),
        (b"a,b\n\x81,2\n", "latin-1"),
        ("a,b\nä,2\n".encode("utf-16"), "utf-16"),
        (b"\xef\xbb\xbfa,b\n1,2\n", "utf-8"),  # a byte order mark: no other encoding of the folder reads it
    ],
)
def test_the_encoding_is_said_where_it_matters(tmp_path: Path, data: bytes, encoding: str) -> None:
    look = looked(tmp_path, data)
    assert look.encoding == encoding
    assert [column.header for column in look.columns] == ["a", "b"]


def test_only_whole_lines_of_the_beginning_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "BYTES_READ", 13)
    look = looked(tmp_path, "a,b\n1,2\n3,4\n5,x\n")
    assert (look.rows, look.column("b").kind) == (2, "int")
    monkeypatch.setattr(file_look, "ROWS_READ", 1)
    assert looked(tmp_path, "a,b\n1,2\n3,4\n").rows == 1


def test_rows_of_another_length_are_left_out(tmp_path: Path) -> None:
    look = looked(tmp_path, "a,b\n1,2\n3\n4,5,6\n7,8\n")
    assert look.rows == 2
    assert look.column("a").cells == {"1", "7"}


def test_a_file_of_nothing_is_refused(tmp_path: Path) -> None:
    for data in (b"", b" \n"):
        with pytest.raises(UserError, match=r"Werte\.csv: the file is empty"):
            looked(tmp_path, data)
    with pytest.raises(UserError, match=r"x\.parquet: cannot be read as Parquet"):
        looked(tmp_path, b"no", "x.parquet")


def test_bare_dates_among_times_are_seen(tmp_path: Path) -> None:
    look = looked(tmp_path, "a,b\n2150-01-02 10:00:00,1\n2150-01-03,2\n")
    assert look.times == ("a",)
    assert look.column("a").has_bare_dates
    assert not looked(tmp_path, "a,b\n2150-01-02 10:00:00,1\n").column("a").has_bare_dates
    assert not looked(tmp_path, "a,b\n2150-01-02,1\n").column("a").has_bare_dates


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (pa.array([1, None]), "int"),
        (pa.array([1.0, 2.0]), "float"),
        (pa.array([datetime(2150, 1, 1)] * 2, pa.timestamp("us")), "time"),
        (pa.array([date(2150, 1, 1)] * 2), "date"),
        (pa.array(["1", "2"]), "int"),
        (pa.array(["a", "2"]), "text"),
        (pa.array([True, False]), "text"),
    ],
)
def test_a_parquet_file_says_its_types_itself_but_for_text(tmp_path: Path, cells: Any, kind: str) -> None:
    pq.write_table(pa.table({"Value": cells}), tmp_path / "x.PARQUET")
    look = look_at([tmp_path / "x.PARQUET"], "x", "x.parquet", "x")
    (column,) = look.columns
    assert (column.name, column.header, column.kind) == ("value", "value", kind)
    assert column.is_full == (cells.null_count == 0)
    assert (look.rows, look.delimiter, look.encoding) == (2, "", "")
