"""The outcome swap finds nothing on the untouched product: one invented hospital here, twenty in make long."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from invented import Invented, altered

from effort import often
from wardround.audits import audit_swap, random_moments
from wardround.clinical.bundles.futures import differing_bundles, differing_records
from wardround.records import Store, ingest, load_source_spec
from wardround.synth import DIALECTS, synthesize
from wardround.tasks.benchmarks.other_futures import differing_answers, differing_candidates, differing_questions

SEEDS = often([2], list(range(1, 21)))
PATIENTS = often(8, 30)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_swap_finds_nothing_where_nothing_was_planted(tmp_path: Path, seed: int) -> None:
    synthesize(tmp_path / "raw", patients=PATIENTS, seed=seed, compress=False, decoys=False)
    ingest("mimiciv", tmp_path / "raw", tmp_path / "store")
    store = Store.open(tmp_path / "store")
    report = audit_swap(
        store,
        [(subject, moment) for subject in store.subjects.tolist() if (moment := _while_open(store, subject, seed))],
        tmp_path / "raw",
        charts=[differing_answers, differing_bundles],
        stores=[differing_questions, differing_candidates, differing_records],
    )
    assert report.clean, report.as_text()
    assert report.samples > PATIENTS / 2
    assert report.compared["questions of clinseek.ED_Hospitalization"] > 0


def _while_open(store: Store, subject: int, seed: int) -> datetime | None:
    """A moment at which a stay in intensive care has lasted a day, or an emergency visit is about to end."""
    found = [row["intime"] + timedelta(hours=25) for row in _rows(store, subject, "icustays")]
    found += [row["outtime"] - timedelta(minutes=1) for row in _rows(store, subject, "edstays")]
    return found[seed % len(found)] if found else None


def _rows(store: Store, subject: int, table: str) -> list[dict[str, datetime]]:
    return [row for row in store.rows(subject, table).to_pylist() if row["outtime"] is not None]


@pytest.mark.parametrize("source", often(["omop"], list(DIALECTS)))
def test_files_that_end_at_a_moment_show_what_the_whole_files_show_by_then(invented: Invented, source: str) -> None:
    """Stays are open, and everything that could not be known is not there: another cause than a changed future."""
    store = invented.store(source)
    stores = [differing_questions, differing_records]
    report = audit_swap(store, invented.samples(source), invented.raw(source), cut=True, stores=stores)
    assert report.clean, report.as_text()
    assert report.changed_rows > report.raw_rows / 20
    assert "files cut at each moment" in report.as_text()


@pytest.mark.parametrize("cut", [False, True])
def test_events_of_open_stays_are_asked_about(invented: Invented, cut: bool) -> None:
    """Who is still in hospital when the files are exported is asked about what was done before."""
    store = invented.store("mimiciv")
    some = invented.samples("mimiciv")[::3]
    report = audit_swap(store, some, invented.raw("mimiciv"), others=False, cut=cut, stores=[differing_questions])
    assert report.clean, report.as_text()
    assert report.compared["questions of labevents"] > 10


def test_a_key_shown_too_early_is_found_at_random_moments(invented: Invented, tmp_path: Path) -> None:
    """A benchmark asks after admissions; that a visit will lead to one is told before."""
    now, then = 'hadm_id = "known(hadm_id, admissions)"', 'hadm_id = "always"'
    faulty = altered("mimiciv", tmp_path / "spec", {f"[tables.edstays.late]\n{now}": f"[tables.edstays.late]\n{then}"})
    ingest(faulty, invented.raw("mimiciv"), tmp_path / "store")
    store = Store.open(tmp_path / "store")
    chosen = random_moments(store, 40, seed=2)
    assert len(set(chosen)) == 40
    assert chosen == random_moments(store, 40, seed=2) != random_moments(store, 40, seed=3)
    spans = [(row["intime"], row["outtime"]) for one in store.subjects.tolist() for row in _rows(store, one, "edstays")]
    inside = [one for one in chosen if any(start <= one[1] < end for start, end in spans)]
    assert len(inside) > 5
    report = audit_swap(store, inside, invented.raw("mimiciv"), others=False)
    assert "charts: edstays.hadm_id" in " ".join(report.leaking)


TABLE = """
[tables.{name}]
path = "{name}"
id_columns = ["person", "at"]
subject = "person"
event_time = "{clock}"
available_at = "{clock}"
columns = {{ person = "int", at = "time", until = "time" }}
"""
STAYS = """
[roles.stay]
table = "seen"
id = "person"
start = "at"
ends = ["until"]
"""


@pytest.mark.parametrize("has_stays", [False, True])
def test_random_moments_lie_after_a_row_or_inside_a_stay_however_much_has_no_time(
    tmp_path: Path, has_stays: bool
) -> None:
    """Three people with a visit each, one that is not over, and forty tables of things that are always so."""
    names = ["seen", *(f"always{number}" for number in range(40))]
    text = '[source]\nname = "ward"\ntitle = "A ward"\nsensitivity = "synthetic"\n'
    text += "".join(TABLE.format(name=name, clock="at" if name == "seen" else "always") for name in names)
    (tmp_path / "ward.toml").write_text(text + STAYS * has_stays)
    (tmp_path / "raw").mkdir()
    begins = {who: datetime(2150, 1, 10 * who, 8) for who in (1, 2, 3)}
    ends = {1: datetime(2150, 1, 10, 20), 2: datetime(2150, 1, 23, 8), 3: None}
    rows = [f"{who},{begins[who]},{ends[who] or ''}" for who in begins]
    for name in names:
        (tmp_path / "raw" / f"{name}.csv").write_text("\n".join(["person,at,until", *rows]) + "\n")
    ingest(load_source_spec(tmp_path / "ward.toml"), tmp_path / "raw", tmp_path / "store")
    chosen = random_moments(Store.open(tmp_path / "store"), 40, seed=1)
    assert len(chosen) == 40
    after = {who: [moment - begins[who] for one, moment in chosen if one == who] for who in begins}
    longest = {1: 12, 2: 72, 3: 48} if has_stays else {1: 1, 2: 1, 3: 1}
    for who, hours in longest.items():
        assert len(after[who]) > 5, "people take turns"
        assert timedelta() <= min(after[who])
        assert max(after[who]) < timedelta(hours=hours)
    assert not has_stays or max(after[2]) > timedelta(hours=48)
