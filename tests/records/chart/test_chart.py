"""The chart: what is visible when. Times are those of small_source.py."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from records.small_source import FILES, moment, small_store
from wardround.core import RecordError, UserError
from wardround.records import Chart, Store
from wardround.records.shards.row_ids import occurrences


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return small_store(tmp_path_factory.mktemp("chart"))


def rows(chart: Chart, table: str) -> list[dict[str, Any]]:
    return list(chart.table(table).batch.to_pylist())


def ids(chart: Chart, table: str) -> list[str]:
    return [row["row_id"] for row in rows(chart, table)]


@pytest.mark.parametrize(
    ("as_of", "expected"),
    [("01 07:29", []), ("01 07:30", ["labs:101"]), ("01 08:59", ["labs:101"]), ("01 09:00", ["labs:100", "labs:101"])],
)
def test_a_row_is_there_once_it_is_available_and_not_before(store: Store, as_of: str, expected: list[str]) -> None:
    assert ids(store.chart(1, moment(as_of)), "labs") == expected


def test_a_lab_without_a_result_time_waits_for_the_median_delay(store: Store) -> None:
    assert store.manifest["median_delay_seconds"] == {"labs.charttime.storetime": [3600.0, 3600.0]}
    assert "labs:102" not in ids(store.chart(1, moment("10 07:59")), "labs")
    assert "labs:102" in ids(store.chart(1, moment("10 08:00")), "labs")


def test_an_encounter_number_is_late_until_the_admission(store: Store) -> None:
    before, after = store.chart(1, moment("01 07:45")), store.chart(1, moment("01 08:00"))
    assert [row["hadm_id"] for row in rows(before, "labs")] == [None]
    assert [row["hadm_id"] for row in rows(after, "labs")] == [10]


def test_discharge_cells_stay_empty_until_discharge(store: Store) -> None:
    [row] = rows(store.chart(1, moment("05 11:59")), "admissions")
    assert (row["dischtime"], row["discharge_location"]) == (None, None)
    [row] = rows(store.chart(1, moment("05 12:00")), "admissions")
    assert (row["dischtime"], row["discharge_location"]) == (moment("05 12:00"), "HOME")


def test_a_late_cell_without_a_time_stays_empty_for_good(store: Store) -> None:
    [row] = rows(store.chart(2, moment("2190-01-01 00:00")), "admissions")
    assert row["discharge_location"] is None


def test_a_date_is_known_at_the_end_of_its_day(store: Store) -> None:
    assert rows(store.chart(1, moment("2150-03-01 23:59:58")), "patients")[0]["dod"] is None
    assert rows(store.chart(1, moment("2150-03-01 23:59:59")), "patients")[0]["dod"] == date(2150, 3, 1)


def test_age_takes_the_place_of_the_anchor(store: Store) -> None:
    young, old = store.chart(1, moment("2152-05-01 00:00")), store.chart(2, moment("2150-05-01 00:00"))
    assert (young.age, old.age) == (62, 90)
    assert young.table("patients").columns == ("row_id", "subject_id", "gender", "dod", "age")
    assert rows(young, "patients")[0]["age"] == 62


def test_a_key_is_late_until_the_row_it_names_is_known(store: Store) -> None:
    def stopped_by(as_of: str) -> dict[str, str | None]:
        return {row["order_id"]: row["stopped_by"] for row in rows(store.chart(1, moment(as_of)), "orders")}

    assert stopped_by("03 08:59") == {"1-1": None}
    assert stopped_by("03 09:00") == {"1-1": "1-2", "1-2": None}
    assert stopped_by("31 00:00")["1-3"] is None


def test_a_row_whose_parent_is_nowhere_is_never_visible_and_counted(store: Store) -> None:
    drugs = [row["drug"] for row in rows(store.chart(1, moment("2190-01-01 00:00")), "drugs")]
    assert drugs == ["Aspirin", "Aspirin", "Heparin"]
    assert store.manifest["tables"]["drugs"]["never_visible"] == 1


def test_ids_of_a_table_without_a_key_hold_no_late_cell_and_tell_equal_rows_apart(store: Store) -> None:
    early = ids(store.chart(1, moment("01 12:00")), "drugs")
    late = ids(store.chart(1, moment("31 12:00")), "drugs")
    assert len(set(late)) == 3
    assert set(early) < set(late)


def test_the_coding_lag_delays_diagnoses(tmp_path: Path, store: Store) -> None:
    assert ids(store.chart(1, moment("05 12:00")), "diagnoses") == ["diagnoses:10-1", "diagnoses:10-2"]
    lagging = small_store(tmp_path, coding_lag=timedelta(days=3))
    assert ids(lagging.chart(1, moment("08 11:59")), "diagnoses") == []
    assert ids(lagging.chart(1, moment("08 12:00")), "diagnoses") == ["diagnoses:10-1", "diagnoses:10-2"]


def test_codes_get_their_labels(store: Store) -> None:
    chart = store.chart(1, moment("31 00:00"))
    assert {row["ccs_label"] for row in rows(chart, "diagnoses")} == {"Essential hypertension"}
    assert [row["label"] for row in rows(chart, "labs")] == ["Glucose", "Ketone", "Glucose"]
    assert rows(store.chart(2, moment("31 00:00")), "labs")[0]["label"] is None


class TestCultures:
    """Blood: two organisms at 04 06:00; its gram stain is a reflex test; urine has a date only; the swab never ends."""

    def shown(self, store: Store, as_of: str) -> list[tuple[str, str | None]]:
        return [(row["test_name"], row["organism"]) for row in rows(store.chart(1, moment(as_of)), "cultures")]

    def test_an_order_shows_once_and_without_its_result(self, store: Store) -> None:
        assert self.shown(store, "02 05:59") == []
        assert self.shown(store, "02 06:00") == [("BLOOD CULTURE", None)]

    def test_a_specimen_with_a_date_only_shows_at_its_result_or_the_end_of_the_day(self, store: Store) -> None:
        assert ("URINE CULTURE", "NONE") in self.shown(store, "02 18:00")
        assert ("SWAB", None) not in self.shown(store, "02 18:00")
        assert ("SWAB", None) in self.shown(store, "2150-01-02 23:59:59")

    def test_the_rows_come_with_the_result(self, store: Store) -> None:
        before, after = self.shown(store, "04 05:59"), self.shown(store, "04 06:00")
        assert before.count(("BLOOD CULTURE", None)) == 1
        assert {organism for name, organism in after if name == "BLOOD CULTURE"} == {"E. COLI", "KLEBSIELLA"}
        assert ("SWAB", None) in after

    def test_a_reflex_test_shows_only_with_its_result(self, store: Store) -> None:
        reflex = ("Aerobic Bottle Gram Stain", None)
        assert reflex not in self.shown(store, "03 05:59")
        assert reflex in self.shown(store, "03 06:00")

    def test_withheld_numbers_are_handed_out_under_no_policy_and_ids_tell_nothing(self, store: Store) -> None:
        for policy in ("known_at", "published"):
            table = store.chart(1, moment("31 00:00"), policy=policy).table("cultures")  # type: ignore[arg-type]
            assert "test_seq" not in table.columns
        pending = ids(store.chart(1, moment("02 06:00")), "cultures")
        resulted = ids(store.chart(1, moment("31 00:00")), "cultures")
        assert not set(pending) & set(resulted)
        assert len(set(resulted)) == len(resulted)


def test_the_published_clock_is_apart_and_named(store: Store) -> None:
    chart = store.chart(1, moment("01 08:00"), policy="published")
    assert chart.policy == "published"
    assert ids(chart, "labs") == ["labs:100", "labs:101"]
    assert rows(chart, "labs")[0]["hadm_id"] == 10
    assert ids(store.chart(1, moment("01 07:00"), policy="published"), "labs") == []
    [row] = rows(chart, "admissions")
    assert "discharge_location" not in row
    assert row["dischtime"] == moment("05 12:00")


def test_rows_are_in_time_order_and_event_times_go_with_them(store: Store) -> None:
    table = store.chart(1, moment("2190-01-01 00:00")).table("labs")
    assert [row["row_id"] for row in table.batch.to_pylist()] == ["labs:100", "labs:101", "labs:102", "labs:103"]
    assert table.event_time.tolist() == [row["charttime"] for row in table.batch.to_pylist()]
    assert np.isnat(store.chart(1, moment("01 00:00")).table("patients").event_time).all()


def test_events_flatten_rows_in_time_order(store: Store) -> None:
    events = list(store.chart(1, moment("31 00:00")).events())
    assert events[0].time is None
    times = [event.time for event in events if event.time is not None]
    assert times == sorted(times)
    [glucose] = [event for event in events if event.row_id == "labs:100"]
    assert (glucose.code, glucose.numeric_value, glucose.text_value) == ("small-lab//501", 7.1, "7.1")
    assert (glucose.unit, glucose.table, glucose.time) == ("mg/dL", "labs", moment("01 07:00"))


def test_default_columns_come_first(store: Store) -> None:
    assert store.chart(1, moment("31 00:00")).table("labs").columns[:3] == ("row_id", "charttime", "label")


def test_a_table_without_rows_has_its_columns(store: Store) -> None:
    full, empty = store.chart(1, moment("31 00:00")), store.chart(2, moment("31 00:00"))
    assert empty.table("orders").num_rows == 0
    assert empty.table("orders").batch.schema == full.table("orders").batch.schema
    assert empty.table("labs").columns == full.table("labs").columns


def test_unknown_names_are_told(store: Store) -> None:
    chart = store.chart(1, moment("31 00:00"))
    with pytest.raises(RecordError, match=r"no table 'lab'.*labs"):
        chart.table("lab")
    with pytest.raises(RecordError, match="no subject 3"):
        store.chart(3, moment("31 00:00"))
    with pytest.raises(UserError, match="policy must be one of known_at, published"):
        store.chart(1, moment("31 00:00"), policy="happened_at")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="time zone"):
        store.chart(1, datetime(2150, 1, 1, tzinfo=UTC))


def test_one_chart_serves_many_threads(store: Store) -> None:
    chart = store.chart(1, moment("31 00:00"))
    seen: list[object] = []
    threads = [threading.Thread(target=lambda: seen.append(chart.table("labs"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(table) for table in seen}) == 1


def test_equal_rows_are_numbered_in_the_order_in_which_they_become_known() -> None:
    words, available = np.array([5, 7, 5, 5]), np.array([30, 1, 10, 20])
    assert occurrences(words, available).tolist() == [2, 0, 0, 1]
    known = available <= 20
    assert occurrences(words[known], available[known]).tolist() == [0, 0, 1]


def test_row_ids_say_nothing_of_withheld_numbers(store: Store, tmp_path: Path) -> None:
    """A hash of a withheld number gives the number back to whoever tries them all: ids must not depend on it."""
    lines = FILES["hosp/cultures.csv"].splitlines()
    renumbered = [lines[0]]
    for line in lines[1:]:
        cells = line.split(",")
        cells[2] = str(int(cells[2]) + 40)
        renumbered.append(",".join(cells))
    other = small_store(tmp_path, {"hosp/cultures.csv": "\n".join(renumbered) + "\n"})
    for time in ("02 07:00", "02 19:00", "03 07:00", "05 00:00"):
        ours, theirs = (one.chart(1, moment(time)).table("cultures").batch for one in (store, other))
        assert ours.num_rows
        assert ours.equals(theirs)


def test_tests_that_look_alike_while_they_run_keep_their_own_ids(tmp_path: Path) -> None:
    start = "1,9,{},2150-01-02 00:00:00,2150-01-02 06:00:00,{},BLOOD CULTURE,{}\n"
    header = FILES["hosp/cultures.csv"].partition("\n")[0] + "\n"
    first = start.format(1, "2150-01-05 06:00:00", "E. COLI")
    second = start.format(2, "2150-01-04 06:00:00", "NONE")
    store = small_store(tmp_path, {"hosp/cultures.csv": header + first + second})
    running = store.chart(1, moment("03 00:00")).table("cultures").batch
    assert len(set(running.column("row_id").to_pylist())) == running.num_rows == 2
    between = store.chart(1, moment("04 06:00")).table("cultures").batch
    assert sorted(map(str, between.column("organism").to_pylist())) == ["NONE", "None"]
