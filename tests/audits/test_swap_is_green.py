"""The outcome swap finds nothing on the untouched product: one invented hospital here, twenty in make long."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from effort import often
from wardround.audits import audit_swap
from wardround.benchmarks.other_futures import differing_answers, differing_candidates
from wardround.benchmarks.other_questions import differing_questions
from wardround.bundles.futures import differing_bundles, differing_records
from wardround.records import Store, ingest
from wardround.synth import synthesize

SEEDS = often([2], list(range(1, 21)))
PATIENTS = often(8, 30)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_swap_finds_nothing_where_nothing_was_planted(tmp_path: Path, seed: int) -> None:
    synthesize(tmp_path / "raw", patients=PATIENTS, seed=seed, compress=False)
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
