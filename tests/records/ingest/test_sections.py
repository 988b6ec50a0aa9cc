"""What a discharge summary gives back as known at admission, and that it never gives back anything else."""

from __future__ import annotations

import base64
import csv
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.records.ingest.sections import ADMISSION_SECTIONS, admission_sections

LONG = """
Name:  ___                     Unit No:   ___

Admission Date:  ___              Discharge Date:   ___

Date of Birth:  ___             Sex:   M

Service: MEDICINE

Allergies:
Penicillins / shellfish derived

Attending: ___.

Chief Complaint:
swelling of both legs

Major Surgical or Invasive Procedure:
right heart catheterisation

History of Present Illness:
Three weeks of leg swelling and breathlessness on stairs.
In the ED, initial vitals: 98.1 92 151/88 20 94% RA.
ROS: no fever, no chest pain.

Past Medical History:
1. CARDIAC RISK FACTORS: hypertension, smoker
2. Kidney stones: 2019
PSH: appendectomy

Social History:
___
Family History:
Father: heart attack at 60.

Physical Exam:
ADMISSION PHYSICAL EXAM:
VS: 98.0 148/80
HEENT: no icterus

Pertinent Results:
PROBNP-8040

Brief Hospital Course:
# Heart failure: diuresed eight litres.

Medications on Admission:
The Preadmission Medication list is accurate and complete.
1. Lisinopril 10 mg PO DAILY

Discharge Medications:
1. Torsemide 40 mg PO DAILY

Discharge Disposition:
Home

Discharge Diagnosis:
acute on chronic systolic heart failure

Followup Instructions:
___
"""
KEPT = ("leg swelling", "swelling of both legs", "Penicillins", "Kidney stones", "appendectomy", "heart attack at 60")
KEPT += ("Lisinopril", "98.1 92", "no chest pain", "hypertension")
GONE = ("catheterisation", "148/80", "icterus", "PROBNP", "diuresed", "Torsemide", "systolic", "Home", "MEDICINE")

ONE_LINE = (
    "ADMISSION DIAGNOSIS: , Broken hip.,HISTORY OF PRESENT ILLNESS: , Fell at home, could not stand.  Was well before."
    ",PAST MEDICAL HISTORY: , Gout.,PROCEDURE PERFORMED: , Hip screw.,SOCIAL HISTORY: , Widow.,HOSPITAL COURSE: , "
    "Transfused twice.,HOME MEDICATIONS:, Allopurinol.,DISCHARGE MEDICATIONS:,  Enoxaparin."
)
MARKDOWN = """# **Chief Complaint**
cough

## hpi
A week of cough.

## Assessment and Plan
pneumonia

### Drug Allergies -
none known
"""
NO_EXAM_HEADER = """CHIEF COMPLAINT - fever
HISTORY   OF PRESENT ILLNESS :
Two days of fever.
VS: 101.2 120/60
GENERAL: ill
ABDOMEN: soft
Discharge Home Medications:
Cefpodoxime
"""


def test_a_full_summary_gives_the_admission_part_and_nothing_else() -> None:
    text = admission_sections(LONG)
    assert [word for word in KEPT if word not in text] == []
    assert [word for word in GONE if word in text] == []
    titles = [line[:-1] for line in text.split("\n") if line[:-1] in ADMISSION_SECTIONS and line.endswith(":")]
    assert titles == list(ADMISSION_SECTIONS)


@pytest.mark.parametrize("change", [str.upper, str.lower, str.swapcase])
def test_letter_case_of_the_whole_text_does_not_matter(change: object) -> None:
    assert callable(change)
    text = admission_sections(change(LONG))
    assert [word for word in KEPT if word.casefold() not in text.casefold()] == []
    assert [word for word in GONE if word.casefold() in text.casefold()] == []


def test_windows_line_ends_and_indentation_do_not_matter() -> None:
    assert admission_sections(LONG.replace("\n", "\r\n")) == admission_sections(LONG)
    assert admission_sections("\n".join("   " + line for line in LONG.split("\n"))) == admission_sections(LONG)


def test_headers_run_together_on_one_line() -> None:
    text = admission_sections(ONE_LINE)
    assert all(word in text for word in ("could not stand", "Gout", "Widow", "Allopurinol"))
    assert not any(word in text for word in ("Broken hip", "screw", "Transfused", "Enoxaparin"))


def test_markdown_headers_and_dashes() -> None:
    text = admission_sections(MARKDOWN)
    assert text == (
        "Chief Complaint:\ncough\n\nHistory of Present Illness:\nA week of cough.\n\nAllergies:\nnone known"
    )


def test_an_examination_without_a_header_ends_the_history() -> None:
    assert admission_sections(NO_EXAM_HEADER) == (
        "Chief Complaint:\nfever\n\nHistory of Present Illness:\nTwo days of fever."
    )


@pytest.mark.parametrize(
    "header",
    [
        "Major Surgical or Invasive Procedure",
        "Physical Exam",
        "Discharge Diagnosis",
        "Medications",
        "Discharge Home Medications",
        "History of Present Illness and Hospital Course",
        "Brief Hospital Course by Problem",
        "Admission Labs",
        "Admission Diagnosis",
        "Operative Findings",
        "Transitional Issues",
    ],
)
@pytest.mark.parametrize("form", ["{}:\nSECRET", "{}: SECRET", "{}\nSECRET", "** {} **\nSECRET", "3. {} :\n\nSECRET"])
def test_these_headers_always_end_a_section(header: str, form: str) -> None:
    names = [header, header.upper(), *([header.lower()] if ":" in form else [])]
    for name in names:
        text = admission_sections("History of Present Illness:\nKEPT\n" + form.format(name))
        assert "KEPT" in text
        assert "SECRET" not in text, name


def test_nothing_in_nothing_out() -> None:
    assert admission_sections("") == ""
    assert admission_sections("Brief Hospital Course:\nuneventful") == ""
    assert admission_sections("The patient did well.") == ""


WANTED = {
    "Chief Complaint": ("Chief Complaint", "CC", "Presenting Complaint"),
    "History of Present Illness": ("History of Present Illness", "HPI", "Present Illness"),
    "Past Medical History": ("Past Medical History", "PMH", "Past Medical/Surgical History"),
    "Social History": ("Social History", "Social and Family History"),
    "Family History": ("Family History", "FHx"),
    "Allergies": ("Allergies", "Drug Allergies", "Allergies/Adverse Drug Reactions"),
    "Medications on Admission": ("Medications on Admission", "Home Medications", "Admission Medications"),
}
UNWANTED = (
    "Major Surgical or Invasive Procedure",
    "Physical Exam",
    "Pertinent Results",
    "Brief Hospital Course",
    "Discharge Medications",
    "Discharge Diagnosis",
    "Discharge Instructions",
    "Service",
)
CASES = (str.title, str.upper, str.lower, str.capitalize)
SHAPES = ("{}:\n{}", "{}: {}", "{} :\n\n{}\n", "# {}\n{}", "**{}**:\n{}", "=== {} ===\n{}")


@st.composite
def summaries(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]], list[str]]:
    names = draw(st.permutations([*WANTED, *UNWANTED]))
    names = names[: draw(st.integers(1, len(names)))]
    blocks, kept, gone = [], [], []
    for number, name in enumerate(names):
        token = f"token{number:02d}x is here\nand on the next line too{number:02d}x"
        header = draw(st.sampled_from(WANTED.get(name, (name,))))
        header = draw(st.sampled_from(CASES))(header).replace(" ", " " * draw(st.integers(1, 3)))
        blocks.append(draw(st.sampled_from(SHAPES)).format(header, token))
        if name in WANTED:
            kept.append((name, f"{number:02d}x"))
        else:
            gone.append(f"{number:02d}x")
    return draw(st.sampled_from(("\n", "\n\n", "\n \n"))).join(blocks), kept, gone


@given(summaries())
def test_any_order_case_shape_and_subset(case: tuple[str, list[tuple[str, str]], list[str]]) -> None:
    text, kept, gone = case
    blocks = dict(block.split(":\n", 1) for block in admission_sections(text).split("\n\n") if block)
    assert {name: f"token{mark} is here\nand on the next line too{mark}" for name, mark in kept} == blocks
    assert not any(mark in block for mark in gone for block in blocks.values())
    assert admission_sections(admission_sections(text)) == admission_sections(text)


def test_real_note_styles(shared_data: Path) -> None:
    file = shared_data / "notes-mtsamples-subset" / "mtsamples_subset.csv.gz"
    with gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
        texts = [row["text"] for row in csv.DictReader(lines)]
    parts = [admission_sections(text) for text in texts]
    assert sum(map(bool, parts)) >= 100
    for part in parts:
        assert admission_sections(part) == part
        for header in ("HOSPITAL COURSE:", "PHYSICAL EXAMINATION:", "DISCHARGE DIAGNOS", "PROCEDURE:", "DISCHARGE MED"):
            assert header not in part.upper()


def test_synthea_notes_give_no_assessment_or_plan(shared_data: Path) -> None:
    file = shared_data / "synthea-bulk-fhir-10" / "DocumentReference.000.ndjson.gz"
    texts = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            for content in json.loads(line)["content"]:
                texts.append(base64.b64decode(content["attachment"]["data"]).decode())
    for text in texts:
        part = admission_sections(text)
        assert part.startswith("Chief Complaint:")
        assert "Assessment" not in part
        assert "Plan" not in part


@pytest.mark.parametrize(
    "header",
    [
        *("BHC:", "D/C Meds:", "d/c meds:", "DC exam", "PE on d/c", "Exam on discharge", "Discharge vitals"),
        *("Upon discharge", "Day of discharge", "Hospital stay", "Course in hospital", "Treatment given", "POD #1:"),
        *("Death summary", "Surgeries this admission", "Medication changes:", "New medications:", "In the ICU", "TI:"),
        *("[**Hospital course**]", "<b>Hospital Course</b>", "Key events", "Goals of care:", "Outcome:", "Dispo:"),
    ],
)
@pytest.mark.parametrize("section", ["History of Present Illness", "Medications on Admission"])
def test_headers_written_in_haste_end_a_section(section: str, header: str) -> None:
    text = f"{section}:\nknown at the door\n\n{header}\nSEPTIC SHOCK on day 3, intubated.\n\nFamily History:\nnone\n"
    assert admission_sections(text) == "\n\n".join(
        sorted(
            (f"{section}:\nknown at the door", "Family History:\nnone"),
            key=lambda block: ORDER[block.partition(":")[0]],
        )
    )


ORDER = {title: place for place, title in enumerate(ADMISSION_SECTIONS)}
