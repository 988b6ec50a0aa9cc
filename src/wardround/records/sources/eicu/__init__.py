"""eICU: minutes since unit admission made into times, before ingest."""

from wardround.records.sources.eicu.flattening import flatten_eicu
from wardround.records.sources.eicu.stays import HospitalStay, UnitStay, place_stays

__all__ = ["HospitalStay", "UnitStay", "flatten_eicu", "place_stays"]
