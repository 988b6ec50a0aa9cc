"""Vocabulary: what clinical names, numbers, units, drugs and times mean. Every answer may be unknown.

Knows no record and no chart. Definitions, protocols, a memory's scope and texts understand by it.
"""

from wardround.vocabulary.allergies import Allergy, charted_allergies
from wardround.vocabulary.assertions import Status
from wardround.vocabulary.concepts import Mention, add_concepts, concepts_in, find_concept, is_a
from wardround.vocabulary.drugs import (
    conflicts,
    drug_class,
    drug_classes,
    drug_groups,
    drug_name,
    ingredients,
    is_drug,
    is_known_drug,
    load_drug_classes,
    main_class,
    may_hold,
    read_allergens,
)
from wardround.vocabulary.measurements import Measurement, UsualUnit, convert, find_measurement, usual_units
from wardround.vocabulary.names import Concept, ConceptKind, clinical_name, lab_panel, words_of
from wardround.vocabulary.persons import Person, Sex, read_person
from wardround.vocabulary.quantities import (
    RELATIONS,
    Quantity,
    Relation,
    ThresholdTest,
    compare,
    comparison,
    parse_quantity,
)
from wardround.vocabulary.text import KnownFindings, TextFinding, TextReading, read_findings, read_text
from wardround.vocabulary.time import (
    Series,
    Window,
    baseline,
    change,
    count,
    falls_by,
    held_for,
    highest,
    latest,
    lowest,
    rises_by,
)
from wardround.vocabulary.truth import Truth, all_of, any_of, negate
from wardround.vocabulary.units import Unit, read_unit

__all__ = [
    "RELATIONS",
    "Allergy",
    "Concept",
    "ConceptKind",
    "KnownFindings",
    "Measurement",
    "Mention",
    "Person",
    "Quantity",
    "Relation",
    "Series",
    "Sex",
    "Status",
    "TextFinding",
    "TextReading",
    "ThresholdTest",
    "Truth",
    "Unit",
    "UsualUnit",
    "Window",
    "add_concepts",
    "all_of",
    "any_of",
    "baseline",
    "change",
    "charted_allergies",
    "clinical_name",
    "compare",
    "comparison",
    "concepts_in",
    "conflicts",
    "convert",
    "count",
    "drug_class",
    "drug_classes",
    "drug_groups",
    "drug_name",
    "falls_by",
    "find_concept",
    "find_measurement",
    "held_for",
    "highest",
    "ingredients",
    "is_a",
    "is_drug",
    "is_known_drug",
    "lab_panel",
    "latest",
    "load_drug_classes",
    "lowest",
    "main_class",
    "may_hold",
    "negate",
    "parse_quantity",
    "read_allergens",
    "read_findings",
    "read_person",
    "read_text",
    "read_unit",
    "rises_by",
    "usual_units",
    "words_of",
]
