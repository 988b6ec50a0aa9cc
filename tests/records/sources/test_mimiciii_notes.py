"""What of a discharge summary dictated in the style of MIMIC-III's years is there at admission."""

from __future__ import annotations

import pytest

from wardround.records.ingest.sections import admission_sections

MEDICINE = """Admission Date:  [**2118-6-2**]       Discharge Date:  [**2118-6-14**]

Service:  MICU and then to [**Doctor Last Name **] Medicine

HISTORY OF PRESENT ILLNESS:  This is a woman with a history
of emphysema (not on home O2), who presents with KEEP1.

PAST MEDICAL HISTORY:
1.  COPD.  Last pulmonary function tests showed KEEP2.
2.  Hypertension.

MEDICATIONS ON ADMISSION:
1.  KEEP3 25 q.d.

ALLERGIES:  KEEP4 leads to lightheadedness.

FAMILY HISTORY:  Noncontributory.

SOCIAL HISTORY:  KEEP5.

PHYSICAL EXAMINATION ON ADMISSION:  Vital signs DROP.

LABORATORY STUDIES:  DROP white blood cell count.

HOSPITAL COURSE:
1.  COPD exacerbation/DROP.

CONDITION ON DISCHARGE:  DROP

DISCHARGE DIAGNOSES:
DROP
"""
NEWBORN = """Service: NB

HISTORY:  Baby boy [**Known lastname **] is a KEEP1 gestation infant.
Born to a G2, KEEP2 mother.

PHYSICAL EXAM AT DISCHARGE: DROP

SUMMARY OF HOSPITAL COURSE BY SYSTEMS:
1. Respiratory: DROP

CONDITION AT DISCHARGE: DROP
"""
SURGERY = """HISTORY OF PRESENT ILLNESS:  Man with KEEP1.

CARDIAC CATHETERIZATION:  DROP three vessel disease.

BRIEF SUMMARY OF HOSPITAL COURSE:  DROP

PAST MEDICAL HISTORY:  Significant for
KEEP2.

HOSPITAL COURSE BY SYSTEM:  DROP

The patient was taken to the operating room on [**3-4**] DROP.

CONCISE SUMMARY OF HOSPITAL COURSE BY ISSUE/SYSTEM:  DROP
TRANSFUSIONS:  DROP
DISPOSITION:  DROP
"""


@pytest.mark.parametrize(("text", "kept"), [(MEDICINE, 5), (NEWBORN, 2), (SURGERY, 2)])
def test_dictated_summaries_keep_the_history_and_nothing_of_the_stay(text: str, kept: int) -> None:
    found = admission_sections(text)
    assert "DROP" not in found
    assert [f"KEEP{number}" in found for number in range(1, kept + 1)] == [True] * kept
