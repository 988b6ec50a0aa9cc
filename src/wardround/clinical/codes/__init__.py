"""Codes: code systems and the labels they lead to (ICD -> CCS, drugs -> ATC, abbreviations).

Knows no record, no tool and no task.
"""

from __future__ import annotations

from wardround.clinical.codes.ccs import Category, CodeGrouper, load_ccs, load_ccs_phrases, load_ccs_words, plain_code
from wardround.clinical.codes.labels import (
    DrugGrouper,
    LabelSet,
    distinct_labels,
    load_abbreviations,
    load_drug_synonyms,
    load_drugs,
    load_lab_words,
    load_panels,
    normalise_drug_name,
    normalise_label,
    plain_words,
)
from wardround.clinical.codes.user_codes import UserCodes, add_user_codes, how_to_add, read_user_codes, user_codes

__all__ = [
    "Category",
    "CodeGrouper",
    "DrugGrouper",
    "LabelSet",
    "UserCodes",
    "add_user_codes",
    "distinct_labels",
    "how_to_add",
    "load_abbreviations",
    "load_ccs",
    "load_ccs_phrases",
    "load_ccs_words",
    "load_drug_synonyms",
    "load_drugs",
    "load_lab_words",
    "load_panels",
    "normalise_drug_name",
    "normalise_label",
    "plain_code",
    "plain_words",
    "read_user_codes",
    "user_codes",
]
