"""The SQL gate: what it answers, and that nothing gets past it or costs more than it may."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from fake_chart import FakeChart, FakeTable, small_chart
from sql_attacks import BOUNDED, REFUSED

from effort import drawn
from wardround.core import ToolFailure
from wardround.tools import SqlGate

SECONDS = 0.5
BYTES = 200 * 2**20
SUITE = {"refused": 60, "bounded": 20}
"""How many attacks of each kind are tried at every commit."""


def attacked_chart() -> FakeChart:
    """Enough rows for joins to hurt, and two notes as long as notes get."""
    labs = small_chart(3000).table("labevents")
    note = "the lungs are clear " * 9_000
    notes = FakeTable("notes", {"text": ("text", [note, note + "z"])})
    return FakeChart([labs, notes])


def measure() -> None:
    """Run every attack in this process; print outcome, CPU seconds and the growth of peak memory of each as JSON."""
    import resource
    import time

    chart = attacked_chart()
    with_gate = SqlGate(chart)  # type: ignore[arg-type]
    with_gate.query("SELECT (SELECT count(*) FROM labevents), (SELECT count(*) FROM notes)")
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = []
    for kind, attacks in (("refused", REFUSED), ("bounded", BOUNDED)):
        for name, sql in drawn(list(attacks.items()), SUITE[kind]):
            before = time.process_time()
            try:
                answer = with_gate.query(sql)
                outcome = f"{len(answer.rows)} rows" + (", cut" if answer.truncated else "")
                size = sum(len(str(value)) for row in answer.rows for value in row)
            except ToolFailure as failure:
                outcome, size = f"failed: {failure}", 0
            seconds = time.process_time() - before
            peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) * 1024
            report.append([kind, name, outcome, round(seconds, 3), peak, size])
    sys.stdout.write(json.dumps(report))


@pytest.fixture(scope="module")
def attacks() -> list[tuple[str, str, str, float, int, int]]:
    here = Path(__file__)
    folders = [str(here.parent), str(here.parents[1])]
    program = f"import sys; sys.path[:0] = {folders!r}; import {here.stem} as t; t.measure()"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [tuple(entry) for entry in json.loads(done.stdout)]


def test_there_are_enough_attacks() -> None:
    assert len(REFUSED) + len(BOUNDED) >= 60


def test_what_must_be_refused_is(attacks: list[tuple[str, str, str, float, int, int]]) -> None:
    through = [(name, outcome) for kind, name, outcome, *_ in attacks if kind == "refused" and "failed" not in outcome]
    assert through == []


def test_every_attack_is_bounded_in_time_and_memory(attacks: list[tuple[str, str, str, float, int, int]]) -> None:
    slow = [(name, seconds) for _, name, _, seconds, _, _ in attacks if seconds > SECONDS]
    fat = [(name, peak >> 20) for _, name, _, _, peak, _ in attacks if peak > BYTES]
    assert (slow, fat) == ([], [])
    assert all(size <= 40_000_000 for *_, size in attacks)


@pytest.fixture
def gate() -> Iterator[SqlGate]:
    gate = SqlGate(small_chart(400))  # type: ignore[arg-type]
    yield gate
    gate.close()


def test_now_is_the_charts_time_however_it_is_asked_for(gate: SqlGate) -> None:
    sql = (
        "SELECT datetime('now'), date(), time('NOW'), strftime('%Y-%m-%d %H'), current_timestamp, current_date, "
        "current_time, datetime('now', 'localtime'), datetime('now', '-1 day'), "
        "julianday('now') = julianday('2150-06-01 12:00:00')"
    )
    moment = "2150-06-01 12:00:00"
    day, hour = moment.split()
    expected = (moment, day, hour, "2150-06-01 12", moment, day, hour, moment, "2150-05-31 12:00:00", 1)
    assert gate.query(sql).rows == (expected,)
    assert gate.query("SELECT datetime(charttime, '+1 day') FROM labevents LIMIT 1").rows == (("2150-05-31 08:00:00",),)


NOW = {
    "date": "date({})",
    "time": "time({})",
    "datetime": "datetime({})",
    "julianday": "julianday({})",
    "unixepoch": "unixepoch({})",
    "strftime": "strftime('%Y-%m-%d %H:%M:%f', {})",
}


@pytest.mark.parametrize("name", NOW)
def test_no_time_function_knows_another_now_than_the_charts(name: str, gate: SqlGate) -> None:
    """Without an argument, asked for by name and further modified: as of the chart's time written out."""
    call, moment = NOW[name], "'2150-06-01 12:00:00'"
    pairs = {moment: (" NOW ",), f"{moment}, '+1 day', 'start of day'": ("now", "+1 day", "start of day")}
    for plain, asked in pairs.items():
        words = ", ".join(f"'{one}'" for one in asked)
        assert gate.query(f"SELECT {call.format(words)} = {call.format(plain)}").rows == ((1,),)
    bare = call.format("").replace(", )", ")")
    assert gate.query(f"SELECT {bare} = {call.format(moment)}").rows == ((1,),)


def test_cells_keep_their_types(gate: SqlGate) -> None:
    sql = (
        "SELECT typeof(itemid), typeof(valuenum), typeof(value), typeof(charttime), typeof(flag) FROM labevents LIMIT 2"
    )
    assert gate.query(sql).rows[1] == ("integer", "real", "text", "text", "null")
    assert gate.query("SELECT count(*), max(valuenum) FROM labevents WHERE valuenum > 2.5").rows == ((160, 4.0),)
    assert gate.query("SELECT count(*) FROM labevents WHERE flag IS NULL").rows == ((300,),)


def test_replaced_functions_answer_like_sqlites_own(gate: SqlGate) -> None:
    plain = sqlite3.connect(":memory:")
    for sql in (
        "SELECT instr('hello', 'l'), instr('hello', ''), instr(NULL, 'a'), instr('a', 'b'), instr(123, 2)",
        "SELECT instr(1.5, '.')",
        "SELECT replace('abcabc', 'b', 'zz'), replace('abc', '', 'x'), replace(NULL, 'a', 'b'), replace(1.0, '.', 'x')",
        "SELECT trim('xxaxx', 'x'), ltrim('xyax', 'xy'), rtrim('axyx', 'xy'), trim('a', '')",
        "SELECT trim(NULL, 'x'), trim(' a ')",
        "SELECT printf('%05d|%-5s|%.2f|%s', 42, 'ab', 2.345, NULL), printf('%*d', 6, 3)",
        "SELECT format('%%'), printf('%5.1f%%', 12.34)",
        "SELECT date('2150-02-29', '+1 month'), strftime('%j %W', '2150-03-04'), time('12:30'), datetime('nonsense')",
        "SELECT unixepoch('2150-01-01'), julianday('2150-01-01 06:00'), datetime(2506483.0), datetime(0, 'unixepoch')",
    ):
        assert gate.query(sql).rows == tuple(plain.execute(sql).fetchall())
    plain.close()


@pytest.mark.parametrize("newer", ["concat_ws", "string_agg", "octet_length", "timediff", "median"])
def test_no_function_is_offered_that_this_sqlite_lacks(newer: str, gate: SqlGate) -> None:
    """Of SQLite 3.43 to 3.51; a misspelt name is answered with names that can be called here."""
    with closing(sqlite3.connect(":memory:")) as own:
        there = {name for (name,) in own.execute("SELECT DISTINCT name FROM pragma_function_list")}
    for asked in (newer, newer[:-1]):
        if asked in there:
            continue
        with pytest.raises(ToolFailure, match="no function") as refused:
            gate.query(f"SELECT {asked}('a', 'b')")
        _, _, offered = str(refused.value).partition("Did you mean ")
        assert set(offered.rstrip("?").split(", ")) - {""} <= there


@pytest.mark.parametrize("long", ["printf('%s%s', t, t)", "format('%0200000d', 1)"])
def test_a_text_too_long_to_make_is_said_and_not_null(gate: SqlGate, long: str) -> None:
    sql = f"SELECT length({long}) FROM (SELECT printf('%0150000d', 0) AS t)"
    with pytest.raises(ToolFailure, match=r"printf\(\) would make a text of more than 200,000 characters"):
        gate.query(sql)


def test_a_formatted_null_is_no_refusal(gate: SqlGate) -> None:
    assert gate.query("SELECT printf(NULL), printf(''), printf('%s', NULL)").rows == ((None, None, ""),)


def test_only_the_tables_a_statement_names_are_built(gate: SqlGate) -> None:
    gate.query("SELECT count(*) FROM Diagnoses_ICD")
    assert set(gate._loader.built) == {"diagnoses_icd"}
    with pytest.raises(ToolFailure, match="Columns of diagnoses_icd: row_id, subject_id"):
        gate.query("SELECT nothing_here FROM diagnoses_icd")


def visits_and_wards() -> FakeChart:
    """Two tables that share a column, one of whose others has a name that no statement's words show whole."""
    visits = {"ward": ("int", [1, 2, 1]), "room": ("text", ["a", None, "c"]), "beds": ("float", [1.5, 2.0, None])}
    wards = {"ward": ("int", [1, 2]), "head": ("text", ["Ann", "Bo"])}
    marked = {"ward": ("int", [7]), "bed\N{BED}": ("text", ["x"])}
    return FakeChart([FakeTable("visits", visits), FakeTable("wards", wards), FakeTable("marked", marked)])


COLUMN_FORMS = {
    "count": ("SELECT count(*), count( /* all */ * ) FROM visits", ((3, 3),)),
    "words": ("SELECT ROOM, v.Ward FROM visits v", (("a", 1), (None, 2), ("c", 1))),
    "quotes": ("""SELECT "room", [beds], `ward` FROM visits""", (("a", 1.5, 1), (None, 2.0, 2), ("c", None, 1))),
    "string as a column": ("SELECT v.'room' FROM visits v", (("a",), (None,), ("c",))),
    "all": ("SELECT * FROM wards", (("wards:1", 1, "Ann"), ("wards:2", 2, "Bo"))),
    "all of one": ("SELECT 1, w . * FROM wards w", ((1, "wards:1", 1, "Ann"), (1, "wards:2", 2, "Bo"))),
    "all behind another": ("SELECT ward,/**/* FROM wards LIMIT 1", ((1, "wards:1", 1, "Ann"),)),
    "all, distinct": ("SELECT DISTINCT * FROM (SELECT ALL * FROM wards) LIMIT 1", (("wards:1", 1, "Ann"),)),
    "all in a table of WITH": ("WITH q AS (SELECT * FROM wards) SELECT head FROM q", (("Ann",), ("Bo",))),
    "a table of WITH by a table's name": ("WITH wards AS (SELECT 5 AS head) SELECT head FROM wards", ((5,),)),
    "names of WITH": ("WITH q(a, b, c) AS (SELECT * FROM wards) SELECT c FROM q", (("Ann",), ("Bo",))),
    "product": ("SELECT ward*2, beds * ward FROM visits", ((2, 1.5), (4, 4.0), (2, None))),
    "using": ("SELECT count(*) FROM visits JOIN wards USING (ward)", ((3,),)),
    "natural join": ("SELECT count(*) FROM visits a NATURAL JOIN visits b", ((1,),)),
    "order": ("SELECT room FROM visits ORDER BY beds DESC", ((None,), ("a",), ("c",))),
    "row number": ("SELECT rowid FROM visits WHERE room IS NULL", ((2,),)),
    "window": ("SELECT sum(beds) OVER (PARTITION BY ward) FROM visits", ((1.5,), (1.5,), (2.0,))),
    "type": ("SELECT typeof(beds), typeof(room) FROM visits", (("real", "text"), ("real", "null"), ("null", "text"))),
    "a name that is no word": ("SELECT bed\N{BED} FROM marked", (("x",),)),
}


@pytest.mark.parametrize("form", COLUMN_FORMS)
def test_a_statement_sees_the_values_of_every_column_it_means(form: str) -> None:
    sql, rows = COLUMN_FORMS[form]
    with closing(SqlGate(visits_and_wards())) as gate:  # type: ignore[arg-type]
        assert gate.query(sql).rows == rows


def test_only_the_columns_that_statements_name_are_filled() -> None:
    with closing(SqlGate(visits_and_wards())) as gate:  # type: ignore[arg-type]
        gate.query("SELECT room FROM visits")
        assert gate._loader.built["visits"].unfilled == {"row_id", "ward", "beds"}
        assert gate.query("SELECT beds, rowid FROM visits").rows == ((1.5, 1), (2.0, 2), (None, 3))
        assert gate._loader.built["visits"].unfilled == {"row_id", "ward"}
        assert gate.query("SELECT count(*) FROM visits").rows == ((3,),)
        rows = (("visits:1", 1, "a", 1.5), ("visits:2", 2, None, 2.0), ("visits:3", 1, "c", None))
        assert gate.query("SELECT * FROM visits").rows == rows
        assert gate._loader.built["visits"].unfilled == frozenset()


def test_a_fill_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that SQLite cannot hold comes in the third row: two rows are undone, later statements are answered."""

    def too_large(array: pa.Array, longest: int) -> list[object]:
        return [1, 2, 1 << 64]

    with closing(SqlGate(visits_and_wards())) as gate:  # type: ignore[arg-type]
        gate.query("SELECT room FROM visits")
        for statement in ("SELECT beds FROM visits", "SELECT head, beds FROM wards, visits"):
            with monkeypatch.context() as patched:
                patched.setattr("wardround.tools.sql_tables.python_values", too_large)
                with pytest.raises(OverflowError):
                    gate.query(statement)
        assert gate.query("SELECT beds, head FROM visits v JOIN wards w ON w.ward = v.ward ORDER BY v.row_id").rows == (
            (1.5, "Ann"),
            (2.0, "Bo"),
            (None, "Ann"),
        )


def test_the_engine_says_which_columns_are_read_where_the_words_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a statement misread, its columns would be filled all the same, never shown as null."""
    monkeypatch.setattr("wardround.tools.sql_gate.means_all_columns", lambda statement: False)
    with closing(SqlGate(visits_and_wards())) as gate:  # type: ignore[arg-type]
        assert gate.query("SELECT * FROM wards").rows == (("wards:1", 1, "Ann"), ("wards:2", 2, "Bo"))
        assert gate.query("SELECT * FROM visits ORDER BY ward DESC LIMIT 1").rows == (("visits:2", 2, None, 2.0),)
        with pytest.raises(ToolFailure, match="only reading"):
            gate.query("WITH q AS (SELECT 1) DELETE FROM wards")
        assert gate.query("SELECT count(head) FROM wards").rows == ((2,),)


def test_repeated_column_names_are_the_same_in_every_run(gate: SqlGate) -> None:
    columns = gate.query(
        "WITH q AS (SELECT value, value, value, value, value, value, value FROM labevents) SELECT * FROM q"
    ).columns
    assert columns == ("value", "value:1", "value:2", "value:3", "value:4", "value:5", "value:6")


def test_a_long_note_is_whole_in_sql() -> None:
    text = "x" * 180_000
    with closing(SqlGate(FakeChart([FakeTable("notes", {"text": ("text", [text])})]))) as gate:  # type: ignore[arg-type]
        assert gate.query("SELECT length(text), text FROM notes").rows == ((180_000, text),)
    longer = FakeTable("notes", {"text": ("text", ["y" * 300_000])})
    with closing(SqlGate(FakeChart([longer]))) as gate:  # type: ignore[arg-type]
        assert "more characters; read the row with" in gate.query("SELECT text FROM notes").rows[0][0]


def test_a_neighbour_that_eats_memory_stops_nobody_else() -> None:
    """A statement within its budget succeeds while others of the process are stopped for taking too much."""
    greedy = BOUNDED["recursion that keeps long texts"]
    modest = "SELECT count(DISTINCT s) FROM (SELECT printf('%090000d',0)||row_id AS s FROM labevents LIMIT 300)"
    gates = [SqlGate(attacked_chart()) for _ in range(4)]  # type: ignore[arg-type]
    outcomes: dict[int, list[object]] = {number: [] for number in range(4)}

    def run(number: int) -> None:
        for turn in range(4):
            try:
                outcomes[number].append(gates[number].query((modest if number else greedy) + " " * turn).rows)
            except ToolFailure as failure:
                outcomes[number].append(str(failure))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for gate in gates:
        gate.close()
    assert all("memory" in str(outcome) or "longer than" in str(outcome) for outcome in outcomes[0])
    assert [outcomes[number] for number in (1, 2, 3)] == [[((300,),)] * 4] * 3
