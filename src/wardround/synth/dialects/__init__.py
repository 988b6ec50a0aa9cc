"""Write the synthetic hospital in other forms: the same invented people as MIMIC-III, eICU, OMOP, FHIR or MEDS.

Every writer starts from files in MIMIC-IV's form, so that availability times can be compared between sources.
"""
