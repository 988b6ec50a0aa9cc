"""What certainly lies in the future, by its own event time, apart from what only could not be known yet."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

import pytest

from wardround.audits.swap import load_swap_table, write_swapped
from wardround.audits.swap.knowledge import Clockwork, parse_swap_table, read_clock
from wardround.audits.swap.raw_records import TableRow

NOW = datetime(2150, 1, 2)
PAST, LATER = "2150-01-01 10:00:00", "2150-01-02 05:00:00"
ROWS = {
    "patients": [{"subject_id": "1", "gender": "F", "dod": ""}],
    "admissions": [
        {
            "subject_id": "1",
            "hadm_id": "10",
            "admittime": PAST,
            "dischtime": LATER,
            "deathtime": "",
            "admission_type": "EU OBSERVATION",
            "discharge_location": "HOME",
            "hospital_expire_flag": "0",
        }
    ],
    "labevents": [
        {"labevent_id": str(n), "subject_id": "1", "hadm_id": "10", "charttime": at, "storetime": LATER, "value": "5"}
        for n, at in enumerate([PAST, PAST, LATER, LATER])
    ],
    "procedureevents": [
        {"subject_id": "1", "hadm_id": "10", "starttime": PAST, "endtime": PAST, "storetime": LATER, "value": str(n)}
        for n in range(4)
    ],
    "hcpcsevents": [{"subject_id": "1", "hadm_id": "10", "chartdate": "2150-01-01", "hcpcs_cd": "A", "seq_num": "1"}],
    "omr": [{"subject_id": "1", "chartdate": "2150-01-02", "seq_num": "1", "result_value": "5"}],
    "drgcodes": [{"subject_id": "1", "hadm_id": "10", "drg_code": str(n), "description": "x"} for n in range(9)],
}


def swapped(tmp_path: Path, clocks: str) -> dict[str, list[dict[str, str]]]:
    raw = tmp_path / "raw"
    raw.mkdir()
    for name, rows in ROWS.items():
        with (raw / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    (copy,), _ = write_swapped(load_swap_table("mimiciv"), [raw], tmp_path / "copy", {1: NOW}, clocks=clocks)  # type: ignore[arg-type]
    found = {}
    for name in ROWS:
        with (copy / f"{name}.csv").open(newline="") as stream:
            found[name] = list(csv.DictReader(stream))
    return found


def test_certain_changes_only_what_happened_after_the_moment(tmp_path: Path) -> None:
    found = swapped(tmp_path, "certain")
    past = [row for row in found["labevents"] if row["charttime"] == PAST]
    assert sorted(past, key=lambda row: row["labevent_id"]) == ROWS["labevents"][:2]
    assert not [row for row in found["labevents"] if row in ROWS["labevents"][2:]]
    assert sorted(found["procedureevents"], key=str) == sorted(ROWS["procedureevents"], key=str)
    assert found["hcpcsevents"] == ROWS["hcpcsevents"]  # billed at the end, dated before the moment
    assert found["omr"] == ROWS["omr"]  # of the same day: before or after, nobody can say
    (admission,) = found["admissions"]
    assert admission["dischtime"] > LATER or "2150-01-02 00:00:00" < admission["dischtime"] < LATER
    assert (admission["hospital_expire_flag"], admission["discharge_location"]) == ("1", "DIED")
    assert admission["admission_type"] == "EU OBSERVATION"
    assert found["patients"][0]["dod"] > "2150-01-02"  # who lived dies, after the moment
    assert not [row for row in found["drgcodes"] if row in ROWS["drgcodes"]]  # no time of its own: the stay's end


def test_strict_changes_what_could_not_be_known(tmp_path: Path) -> None:
    found = swapped(tmp_path, "strict")
    for name in ("labevents", "procedureevents", "hcpcsevents", "omr"):
        assert not [row for row in found[name] if row in ROWS[name]], name


ROW = TableRow({"time": PAST, "stored": LATER, "date": "2150-01-02", "month": "2150-01", "dawn": "2150-01-02 00:00:00"})


@pytest.mark.parametrize(
    ("words", "happened"),
    [
        ("time", datetime(2150, 1, 1, 10)),
        ("stored", None),
        ("stored | time", datetime(2150, 1, 1, 10)),
        ("time + 3h", datetime(2150, 1, 1, 10)),
        ("date", datetime(2150, 1, 2)),
        ("day time", datetime(2150, 1, 1)),
        ("day date", datetime(2150, 1, 2)),
        ("dated dawn", datetime(2150, 1, 2)),
        ("month", datetime(2150, 1, 1)),
        ("never", None),
        ("always", datetime.min),
    ],
)
def test_an_event_time_is_what_the_record_says_and_no_assumption(words: str, happened: datetime | None) -> None:
    assert read_clock(words)(ROW, Clockwork(own=True, recorded=frozenset({"stored"}))) == happened


def test_a_table_says_when_rows_and_cells_happened_and_which_columns_say_when_they_were_stored() -> None:
    table = parse_swap_table(
        """
        source = { name = "x", subject = "who", recorded = ["stored"] }
        [files.labs]
        row = "stored"
        event = "time"
        cells = { value = { known = "stored", event = "time" }, unit = "stored" }
        """
    )
    assert table.recorded == {"stored"}
    (rule,) = table.of("labs") or ()
    assert [len(clocks) for clocks in (rule.event, *(cell.event for cell in rule.cells))] == [1, 1, 0]
