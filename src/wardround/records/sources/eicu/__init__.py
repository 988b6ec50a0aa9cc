"""eICU: convert minutes since unit admission to times, before ingest."""

from wardround.records.sources.eicu.flattening import HospitalStay, UnitStay, flatten_eicu, place_stays

__all__ = ["HospitalStay", "UnitStay", "flatten_eicu", "place_stays"]
