"""The outcome swap on the open samples of real records, where they are: some people of each, cut out first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from effort import LONG, often
from records.fhir_resources import SAMPLES_ZONE
from wardround.audits import audit_swap, random_moments
from wardround.audits.outcome_swap import placement_of
from wardround.audits.swap import load_swap_table, write_swapped
from wardround.clinical.bundles.futures import differing_bundles, differing_records
from wardround.exports import differing_exports
from wardround.records import IngestSettings, Store, ingest
from wardround.tasks.benchmarks.other_futures import differing_answers, differing_questions

SAMPLES = {
    "mimiciv demo": ("mimiciv", ["mimic-iv-demo-2.2", "mimic-iv-ed-demo-2.2-rebuilt"], 3),
    "meds demo": ("meds", ["mimic-iv-demo-meds/meds"], 3),
    "omop demo": ("omop", ["mimic-iv-demo-omop-0.9/1_omop_data_csv"], 8),
    "omop synthea": ("omop", ["omop-synthea27nj-5.4/csv"], 8),
    "fhir demo": ("fhir", ["mimic-iv-demo-fhir-2.1.0/fhir"], 2),
    "fhir synthea": ("fhir", ["synthea-fhir-r4"], 4),
    "fhir synthea bulk": ("fhir", ["synthea-bulk-fhir-10"], often(3, 6)),
    "eicu mini": ("eicu", ["eicu-crd-demo-mini"], 12),
    "eicu edge": ("eicu", ["eicu-crd-demo-edge"], often(8, 16)),
}


MOMENTS = 200
DEAR = SAMPLES.keys() - {"eicu edge"}
"""Looked at in make long or with WARDROUND_WHOLE_SAMPLES=1 only: the suite has one sample for each way of reading, and
the invented hospital in all six forms."""


@pytest.mark.parametrize("name", SAMPLES)
def test_another_future_changes_nothing_of_a_sample(shared_data: Path, tmp_path: Path, name: str) -> None:
    source, names, count = SAMPLES[name]
    folders = [shared_data / part for part in names]
    if not all(folder.is_dir() for folder in folders):
        pytest.skip(f"{name} is not here")
    if name in DEAR and not LONG and not os.environ.get("WARDROUND_WHOLE_SAMPLES"):
        pytest.skip(f"{name} is dear: set WARDROUND_WHOLE_SAMPLES=1")
    store, raw = _cut(source, folders, count, tmp_path)
    samples = list(_moments(store))
    report = audit_swap(
        store,
        samples,
        raw,
        others=False,
        charts=[differing_answers, differing_bundles],
        stores=[differing_questions, differing_records, differing_exports],
    )
    assert report.clean, report.as_text()
    assert report.samples >= count - 1
    assert report.changed_rows > 20


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLES)
def test_another_future_changes_nothing_at_200_random_moments(shared_data: Path, tmp_path: Path, name: str) -> None:
    """Of everybody in a sample: charts, tool answers, questions of every benchmark, whole records, the export."""
    source, names, _ = SAMPLES[name]
    folders = [shared_data / part for part in names]
    if not all(folder.is_dir() for folder in folders):
        pytest.skip(f"{name} is not here")
    store, raw = _cut(source, folders, MOMENTS, tmp_path)
    samples = random_moments(store, MOMENTS, seed=23)
    report = audit_swap(
        store,
        samples,
        raw,
        others=False,
        charts=[differing_answers, differing_bundles],
        stores=[differing_questions, differing_records, differing_exports],
    )
    assert report.clean, report.as_text()
    assert report.samples == MOMENTS


def _cut(source: str, folders: list[Path], count: int, folder: Path) -> tuple[Store, list[Path]]:
    """Return a store of some subjects and the raw files that it was made from."""
    settings = IngestSettings(time_zone=SAMPLES_ZONE if source == "fhir" else None)
    ingest(source, folders, folder / "whole", settings=settings)
    whole = Store.open(folder / "whole")
    everyone = whole.subjects.tolist()
    chosen = dict.fromkeys(everyone[:: max(1, len(everyone) // count)][:count])
    table, placement = load_swap_table(source), placement_of(whole)
    raw, _ = write_swapped(table, folders, folder / "cut", chosen, placement=placement, others=False)
    ingest(source, raw, folder / "store", settings=settings)
    return Store.open(folder / "store"), raw


def _moments(store: Store) -> Iterator[tuple[int, datetime]]:
    """Yield, for each subject in turn, a moment early, in the middle or late in the record."""
    for place, subject in enumerate(store.subjects.tolist()):
        times = sorted(
            at
            for name in store.table_names
            for at in store.rows(subject, name).column("_event").to_pylist()
            if at is not None and 1902 < at.year < 2500
        )
        if times:
            yield subject, times[int(len(times) * (0.35, 0.6, 0.85, 0.97)[place % 4])]
