"""The synthetic hospital in other forms: the same invented people as MIMIC-III, eICU, OMOP, FHIR or MEDS have them.

Every writer starts from files of MIMIC-IV's form, so that what is known when can be compared between sources.
"""

from wardround.synth.dialects.hospital import DIALECTS, TIME_ZONES, write_dialect
from wardround.synth.dialects.traps import plant_traps

__all__ = ["DIALECTS", "TIME_ZONES", "plant_traps", "write_dialect"]
