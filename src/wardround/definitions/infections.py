"""Infection on a chart: the antibiotics ordered in this encounter, and the cultures taken about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from wardround.definitions.charted import Charted
from wardround.definitions.infection import AFTER_CULTURE, Culture, is_antibiotic, suspected_infection


@dataclass(frozen=True)
class Infection:
    """The suspicion of infection of the encounter that the chart is in."""

    charted: Charted

    @cached_property
    def suspected(self) -> datetime | None:
        """When infection was last suspected in this encounter; None: not, or it is not known (see ``unknown``)."""
        return suspected_infection(self.antibiotics, self.cultures)

    @property
    def unknown(self) -> str:
        """What is not charted where nobody can say that no infection is suspected; else empty."""
        if not self.charted.has_rows("prescriptions"):
            return "a drug ordered in this encounter"
        return "a culture taken" if self.antibiotics and not self.cultures else ""

    @cached_property
    def antibiotics(self) -> list[datetime]:
        """When each antibiotic of this encounter was ordered to start; one ordered just before it has no number yet."""
        encounter = self.charted.encounter
        if encounter is None or "prescriptions" not in self.charted.chart.table_names:
            return []
        batch = self.charted.chart.table("prescriptions").batch
        recent = encounter.began - AFTER_CULTURE
        return [
            row["starttime"]
            for row in batch.select(["hadm_id", "starttime", "drug_type", "drug", "route"]).to_pylist()
            if row["starttime"] is not None
            and (row["hadm_id"] == encounter.number or (row["hadm_id"] is None and row["starttime"] >= recent))
            and row["drug_type"] != "BASE"
            and is_antibiotic(row["drug"] or "", row["route"])
        ]

    @cached_property
    def cultures(self) -> list[Culture]:
        """Every culture of the person, for one taken before an admission counts for its antibiotics."""
        if "microbiologyevents" not in self.charted.chart.table_names:
            return []
        rows = self.charted.chart.table("microbiologyevents").batch.select(["chartdate", "charttime"]).to_pylist()
        timed = [Culture(day=row["charttime"].date(), time=row["charttime"]) for row in rows if row["charttime"]]
        return timed + [Culture(day=row["chartdate"]) for row in rows if row["chartdate"] and not row["charttime"]]
