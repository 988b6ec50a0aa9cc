"""Write the synthetic hospital in other forms: the same invented people as MIMIC-III, eICU, OMOP, FHIR or MEDS.

Every writer starts from files in MIMIC-IV's form, so that availability times can be compared between sources.
"""

from wardround.synth.dialects.hospital import DIALECTS, time_zone_of, write_dialect
from wardround.synth.dialects.traps import plant_traps

__all__ = ["DIALECTS", "plant_traps", "time_zone_of", "write_dialect"]
