"""What short clinical texts say: the phrase set's two halves, each line by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from phrase_sets import lines_of
from wardround.clinical.vocabulary.quantities import parse_quantity
from wardround.clinical.vocabulary.text import KnownFindings, as_past, read_text
from wardround.clinical.vocabulary.text_values import read_person
from wardround.clinical.vocabulary.units import read_unit

PHRASES = Path(__file__).parent / "text_phrases.txt"


def failures(line: str) -> list[str]:
    """What a line of the set expects and is not so."""
    said, _, expected = line.rpartition(" => ")
    section = re.match(r"\[([^\]]+)\] ", said)
    text = (said[section.end() :] if section else said).replace("\\n", "\n")
    reading = read_text(text, section[1] if section else None)
    known = KnownFindings()
    known.add(reading)
    person, found = read_person(text), []
    for one in expected.split("; "):
        if "=" in one.split("~")[0]:
            name, status = one.rsplit("=", 1)
            if name.endswith(" allergy"):
                truth = known.allergic_to(name.removesuffix(" allergy"))
                got = {True: "present", False: "absent", None: "-"}[truth]
            else:
                statuses = known.statuses(name)
                got = "present" if "present" in statuses else "/".join(sorted(statuses)) or "-"
                if status == "-" and not statuses & {"present", "absent", "past"}:
                    got = "-"
        else:
            name, status = one.split("~")
            if name == "age":
                got = str(person.age)
            elif name == "sex":
                got = str(person.sex)
            else:
                got, status = _value(reading, name, status)
        if got != status:
            found.append(f"{text!r}: {name} is {got}, expected {status}")
    return found


def _value(reading: object, name: str, wanted: str) -> tuple[str, str]:
    from wardround.clinical.vocabulary.concepts import find_concept

    asked = find_concept(name)
    values = [one.quantity for one in reading.findings if one.quantity is not None and one.concept == asked]  # type: ignore[attr-defined]
    if wanted == "none":
        return ("none" if not values else str(values), "none")
    expected = parse_quantity(wanted)
    assert expected is not None, wanted
    return tuple(  # type: ignore[return-value]
        "none" if one is None else f"{one.comparator or ''}{one.value:g}-{one.high} {_size(one.unit)}"
        for one in (values[-1] if values else None, expected)
    )


def _size(unit: str | None) -> object:
    """A unit as what it measures and how large it is, so that its spellings are one."""
    return None if unit is None else read_unit(unit)


@pytest.mark.parametrize(
    ("text", "name", "status"),
    [
        ("Sepsis.", "sepsis", {"past"}),
        ("Diabetes mellitus.", "diabetes", {"present"}),
        ("Status post appendectomy.", "appendectomy", {"past"}),
        ("No sepsis.", "sepsis", set()),
        ("Possible sepsis.", "sepsis", set()),
        ("Mother with asthma.", "asthma", {"family"}),
    ],
)
def test_what_an_earlier_stay_said_is_past_now_but_for_what_lasts(text: str, name: str, status: set[str]) -> None:
    told = as_past(read_text(f"{text} Allergic to penicillin."))
    assert {one.status for one in told.findings if one.concept is not None and one.concept.name == name} == status
    assert [(one.allergen, one.is_denied) for one in told.allergies] == [("penicillin", False)]


@pytest.mark.parametrize(
    "line",
    [
        "Denies fever or (this week) cough. => fever=absent; cough=absent",
        "Denies fever or this week had cough. => fever=absent; cough=present",
        "Brought in by ambulance early this morning and mother: she reports fever. => fever=present",
        "Brought in by ambulance early this morning and mother, at bedside, with fever. => fever=family",
        "Brought in by ambulance early this morning and mother: diabetes. => diabetes=family",
    ],
)
def test_what_stands_between_a_word_and_whom_it_is_said_of(line: str) -> None:
    assert failures(line) == []


@pytest.mark.parametrize(
    ("text", "asked", "statuses"),
    [
        ("chest pain/leg ulcer", "leg ulcer", {"present"}),
        ("chest pain/leg ulcer", "leg pain", set()),
        ("chest pain/leg ulcer", "chest ulcer", set()),
        ("chest pain (old leg ulcer)", "chest pain", {"present"}),
        ("chest pain (old leg ulcer)", "leg pain", set()),
        ("chest pain, leg ulcer", "chest ulcer", set()),
        ("chest pain and leg ulcer", "chest ulcer", set()),
        ("no chest pain/leg ulcer", "leg ulcer", {"absent"}),
        ("systolic (congestive) heart failure", "systolic heart failure", {"present"}),
        ("leg (left) ulcer", "leg ulcer", {"present"}),
        ("chest-wall pain", "chest pain", {"present"}),
    ],
)
def test_words_of_two_statements_are_no_third(text: str, asked: str, statuses: set[str]) -> None:
    known = KnownFindings()
    known.add(read_text(text))
    assert known.statuses(asked) == statuses


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("potassium - 4.2", 4.2),
        ("potassium - low 3.0", 3.0),
        ("potassium -4.2", None),
        ("potassium -low 3.0", None),
        ("potassium-sparing 4.2", None),
        ("potassium -", None),
    ],
)
def test_a_dash_that_stands_alone_leads_to_a_value_and_one_at_a_word_does_not(text: str, value: float | None) -> None:
    found = [one.quantity.value for one in read_text(text).findings if one.quantity is not None]
    assert found == ([] if value is None else [value])


@pytest.mark.parametrize(
    ("text", "asked", "statuses"),
    [
        ("Non-diabetic man with cough.", "diabetes", {"absent"}),
        ("Non-diabetic man with cough.", "cough", {"present"}),
        ("Non diabetic.", "diabetes", {"absent"}),
        ("non-diabetic and hypertensive", "diabetes", {"absent"}),
        ("non-diabetic and hypertensive", "hypertension", {"present"}),
        ("non-diabetic kidney disease", "diabetes", set()),
        ("non-diabetic kidney disease", "kidney disease", {"present"}),
        ("diabetic kidney disease", "diabetes", {"present"}),
    ],
)
def test_non_denies_the_next_word_of_a_person_and_only_sets_apart_that_of_a_disease(
    text: str, asked: str, statuses: set[str]
) -> None:
    known = KnownFindings()
    known.add(read_text(text))
    assert known.statuses(asked) == statuses


@pytest.mark.parametrize("kept", [False, True])
def test_texts_say_what_a_clinician_reads_in_them(kept: bool) -> None:
    lines = lines_of(PHRASES, kept=kept)
    wrong = [one for line in lines for one in failures(line)]
    total = sum(line.count("; ", line.rindex(" => ")) + 1 for line in lines)
    assert len(wrong) <= 0.02 * total, "\n".join(wrong)
