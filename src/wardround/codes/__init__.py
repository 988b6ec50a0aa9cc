"""Codes: code systems and the labels they lead to (ICD -> CCS, drugs -> ATC, abbreviations).

Knows no record, no tool and no task.
"""

from wardround.codes.abbreviations import load_abbreviations
from wardround.codes.ccs import Category, CodeGrouper, load_ccs, load_ccs_phrases, load_ccs_words, plain_code
from wardround.codes.drug_names import load_drug_synonyms, normalise_drug_name
from wardround.codes.drugs import DrugGrouper, load_drugs
from wardround.codes.lab_words import load_lab_words, load_panels
from wardround.codes.labels import LabelSet, distinct_labels, normalise_label
from wardround.codes.user_codes import UserCodes, add_user_codes, how_to_add, read_user_codes, user_codes
from wardround.codes.word_roots import plain_words

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
