"""Every fault that the audits were made for, put back by hand: an audit finds it.

A copy of the spec with the old clock is ingested twice, from the hospital's files and from those of another future: of
some faults at every commit, of all in ``make long``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from invented import Invented, altered, settings_for

from effort import drawn
from wardround.audits import audit_plausibility
from wardround.audits.leaks import ChartFindings, compare_charts
from wardround.audits.outcome_swap import placement_of
from wardround.audits.swap import load_swap_table, write_swapped
from wardround.records import SourceSpec, Store, ingest, load_source_spec
from wardround.records.sources.eicu import flattening


@dataclass(slots=True)
class Futures:
    """The hospital's files beside those of another future, written once for each form."""

    invented: Invented
    folder: Path
    _copies: dict[str, list[Path]]

    def differences(self, source: str, spec: SourceSpec, folder: Path) -> Mapping[str, int]:
        """Return how many rows and cells of each table differ under a spec."""
        moments = dict(self.invented.samples(source))
        if source not in self._copies:
            placement = placement_of(self.invented.store(source))
            target = self.folder / source
            copies, _ = write_swapped(
                load_swap_table(source), [self.invented.raw(source)], target, moments, placement=placement
            )
            self._copies[source] = copies
        ingest(spec, self.invented.raw(source), folder / "here", settings=settings_for(source))
        ingest(spec, self._copies[source], folder / "there", settings=settings_for(source))
        here, there = Store.open(folder / "here"), Store.open(folder / "there")
        found = ChartFindings(policy="known_at")
        for subject, as_of in moments.items():
            if subject in here.subjects:
                other = there.chart(subject, as_of) if subject in there.subjects else None
                compare_charts(found, here.chart(subject, as_of), other, "in the other future")
        return {
            name: leaks.differing + leaks.missing + leaks.extra
            for name, leaks in found.tables.items()
            if not leaks.clean
        }


@pytest.fixture(scope="module")
def futures(invented: Invented, tmp_path_factory: pytest.TempPathFactory) -> Futures:
    """Copies of all forms."""
    return Futures(invented, tmp_path_factory.mktemp("futures"), {})


FAULTS: Mapping[str, Any] = tomllib.loads((Path(__file__).parent / "faults.toml").read_text(encoding="utf-8"))


def _with(fault: str, folder: Path) -> SourceSpec:
    changes = {change["now"]: change["then"] for change in FAULTS[fault]["changes"]}
    return altered(FAULTS[fault]["source"], folder, changes)


@pytest.mark.parametrize("fault", drawn(list(FAULTS), 5, seed=8))
def test_the_swap_finds_a_fault_put_back(futures: Futures, tmp_path: Path, fault: str) -> None:
    found = futures.differences(FAULTS[fault]["source"], _with(fault, tmp_path / "spec"), tmp_path)
    assert found.get(FAULTS[fault]["table"], 0) > 0, found


def test_the_swap_finds_a_stay_placed_by_its_outcome(
    futures: Futures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A2: stays that end in death are put after the others of a person."""
    died: set[int] = set()
    place, read = flattening.place_stays, flattening._unit_stay

    def noticing(row):  # type: ignore[no-untyped-def]
        if row["hospitaldischargestatus"] == "Expired":
            died.add(row["patienthealthsystemstayid"])
        return read(row)

    def by_outcome(units):  # type: ignore[no-untyped-def]
        placed = place(units)
        for number, stay in placed.items():
            if number in died:
                later = {unit: at + timedelta(days=40) for unit, at in stay.unit_admissions.items()}
                placed[number] = type(stay)(
                    person=stay.person, admitted=stay.admitted + timedelta(days=40), unit_admissions=later
                )
        died.clear()
        return placed

    monkeypatch.setattr(flattening, "_unit_stay", noticing)
    monkeypatch.setattr(flattening, "place_stays", by_outcome)
    found = futures.differences("eicu", load_source_spec("eicu"), tmp_path)
    assert found.get("hospital_stay", 0) > 0


@pytest.mark.parametrize("fault", [fault for fault, body in FAULTS.items() if "plausible" in body])
def test_plausibility_finds_a_fault_put_back(invented: Invented, tmp_path: Path, fault: str) -> None:
    source, what = FAULTS[fault]["source"], FAULTS[fault]["plausible"]
    ingest(_with(fault, tmp_path / "spec"), invented.raw(source), tmp_path / "store", settings=settings_for(source))
    assert audit_plausibility(Store.open(tmp_path / "store")).found[what] > 0
    assert not audit_plausibility(invented.store(source)).found.get(what, 0)
