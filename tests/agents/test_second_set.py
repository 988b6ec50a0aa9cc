"""A second set of rules, proposals and limits, written by somebody who had not seen the others.

At its first look: 26 of 30 rules (4 refused, none read wrongly), 61 of 62 dangerous proposals, 0 of 61 harmless ones,
23 of 25 limits that bar, 0 of 15 that do not. One limit is left out, "intubated patients" against "Invasive mechanical
ventilation": it is unchecked, as the machine may breathe through a tracheostomy.
"""

from __future__ import annotations

import pytest
from stay_doubles import HOUR, facts

from memory.test_scope_limits import patient
from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.auditor import find_objections
from wardround.agents.stays.charted import StateFacts
from wardround.agents.stays.router import HeldRule
from wardround.clinical.bundles.state import KnownAllergy
from wardround.clinical.protocols import GivenFacts, ProtocolRule, compile_rule, compile_trigger
from wardround.memory.phrases import read_phrase


def course(name: str, *readings: tuple[float, float], u: str | None = None) -> GivenFacts:
    """Readings by hours ago."""
    return GivenFacts(courses={name: readings}, units={name: u} if u else {})


REFUSED = None
RULES: list[tuple[str, GivenFacts | None]] = [
    (
        "heart rate above 130 for at least 15 minutes",
        course("heart rate", (0.4, 140), (0.3, 141), (0.2, 138), (0, 135)),
    ),
    (
        "systolic BP < 90 mmHg or MAP < 65 mmHg",
        GivenFacts(values={"systolic blood pressure": 100, "mean arterial pressure": 60}),
    ),
    ("potassium >= 6.0 mmol/L", GivenFacts(values={"potassium": 6.0}, units={"potassium": "mEq/L"})),
    ("sodium between 125 and 130", GivenFacts(values={"sodium": 128})),
    ("hemoglobin drop of at least 2 g/dL within 24 h", course("hemoglobin", (20, 10.2), (1, 8.0), u="g/dL")),
    ("platelets fall by 50 % within 5 days", course("platelet count", (100, 200), (1, 90), u="K/uL")),
    ("INR > 4 and on warfarin", GivenFacts(values={"INR": 5}, on=("Coumadin 5 mg",))),
    ("not on any anticoagulant", GivenFacts(on=("aspirin",))),
    ("on an opioid and respiratory rate < 10", GivenFacts(on=("hydromorphone",), values={"respiratory rate": 8})),
    ("glucose > 250 mg/dL twice in last 6 h", REFUSED),
    ("GCS <= 8", GivenFacts(scores={"gcs": 7})),
    ("SOFA increase of 2", REFUSED),
    ("urine output less than 0.5 ml/kg/hr for 6 hours", GivenFacts(scores={"urine_output": 0.4})),
    ("troponin T > 0.1 ng/mL", GivenFacts(values={"troponin t": 0.2}, units={"troponin t": "ng/mL"})),
    ("pH < 7.25 and PaCO2 > 55", GivenFacts(values={"pH": 7.2, "arterial pco2": 60})),
    ("lactate not repeated within 6 hours", REFUSED),
    ("no lactate in the last 6 hours", GivenFacts(finished=("lactate",), since={"lactate": 8})),
    ("blood cultures drawn in last 24 h", REFUSED),
    ("temp > 38.3 C", GivenFacts(values={"temperature": 101.5}, units={"temperature": "degF"})),
    ("temp > 100.4 F", GivenFacts(values={"temperature": 38.5}, units={"temperature": "degC"})),
    ("creatinine doubled from baseline", REFUSED),
    ("creatinine >= 2 x baseline", course("creatinine", (30, 1.0), (0, 2.1), u="mg/dL")),
    ("history of heparin-induced thrombocytopenia", GivenFacts(problems=("Heparin-induced thrombocytopenia",))),
    (
        "age >= 65 AND problem atrial fibrillation AND NOT on anticoagulants",
        GivenFacts(scores={"age": 70}, problems=("Atrial fibrillation",), on=()),
    ),
    ("allergy to sulfa", GivenFacts(allergies=("Bactrim",))),
    (
        "norepinephrine > 0.25 mcg/kg/min",
        GivenFacts(rates={"norepinephrine": "0.3 mcg/kg/min"}, on=("norepinephrine",)),
    ),
    ("on two vasopressors", REFUSED),
    ("FiO2 > 60 % for 2 h", course("FiO2", (2.2, 70), (1.5, 70), (0.5, 70), (0, 65), u="%")),
    ("bilirubin >= 6 mg/dL or INR >= 2.5", GivenFacts(values={"bilirubin": 110}, units={"bilirubin": "umol/L"})),
    (
        "magnesium < 1.6 mg/dL and QTc > 500 ms",
        GivenFacts(values={"magnesium": 1.4, "corrected qt interval": 520}, units={"magnesium": "mg/dL"}),
    ),
]
DANGEROUS = [
    ("allergy", a, d)
    for a, ds in {
        "Penicillins": [
            "Augmentin",
            "Zosyn 4.5 g",
            "piperacillin/tazobactam",
            "amoxicilin",
            "nafcillin",
            "Unasyn",
            "penicillin V",
            "dicloxacillin",
        ],
        "Sulfa (Sulfonamide Antibiotics)": ["Bactrim DS", "SMX-TMP", "sulfadiazine", "Septra"],
        "Aspirin": ["ASA 81", "Ecotrin", "acetylsalicylic acid", "Excedrin"],
        "NSAIDS": ["ketorolac", "Toradol 15 mg IV", "Motrin", "naproxen", "celecoxib"],
        "morphine": ["MS Contin", "morphine PCA"],
        "codeine": ["Tylenol #3", "codeine sulfate"],
        "vancomycin": ["vanc 1 g", "Vancocin"],
        "lisinopril": ["Zestril", "enalapril", "lisinopril-HCTZ"],
        "Cephalosporins": ["Ancef", "cefazolin", "Rocephin", "Keflex", "Maxipime"],
        "heparin": ["heparin flush", "HEPARIN SODIUM", "Lovenox"],
        "levofloxacin": ["Levaquin", "Cipro", "moxifloxacin"],
        "atorvastatin": ["Lipitor", "Caduet"],
        "Iodinated contrast": ["iohexol", "Omnipaque", "CT chest with contrast"],
    }.items()
    for d in ds
] + [
    ("avoid", a, d)
    for a, ds in {
        "nonsteroidal anti-inflammatories": ["Advil", "diclofenac", "indomethacin"],
        "beta blockers": ["metoprolol tartrate", "Coreg", "propranolol"],
        "ACE inhibitors": ["ramipril", "Lotensin"],
        "benzodiazepines": ["Ativan 1 mg", "midazolam"],
        "metformin": ["Janumet", "Glucophage XR"],
        "nephrotoxins": ["gentamicin"],
        "anticoagulants": ["Eliquis", "Xarelto"],
        "opioids": ["Percocet"],
    }.items()
    for d in ds
]
HARMLESS = [
    ("allergy", a, d)
    for a, ds in {
        "Penicillins": ["azithromycin", "vancomycin", "aztreonam", "doxycycline", "metronidazole", "gentamicin"],
        "Sulfa (Sulfonamide Antibiotics)": [
            "furosemide",
            "hydrochlorothiazide",
            "ferrous sulfate",
            "morphine sulfate",
            "magnesium sulfate",
        ],
        "Aspirin": ["acetaminophen", "clopidogrel", "heparin"],
        "NSAIDS": ["acetaminophen", "oxycodone", "gabapentin"],
        "morphine": ["acetaminophen", "ketorolac", "ondansetron"],
        "codeine": ["ibuprofen", "lidocaine patch"],
        "vancomycin": ["linezolid", "daptomycin", "cefepime"],
        "lisinopril": ["losartan", "amlodipine", "metoprolol"],
        "Cephalosporins": ["azithromycin", "levofloxacin", "vancomycin"],
        "heparin": ["bivalirudin", "argatroban", "aspirin"],
        "levofloxacin": ["ceftriaxone", "azithromycin", "levothyroxine", "levetiracetam"],
        "atorvastatin": ["ezetimibe", "metoprolol"],
        "latex": ["insulin", "furosemide"],
        "peanut": ["ondansetron", "furosemide"],
        "eggs": ["ceftriaxone"],
    }.items()
    for d in ds
] + [
    ("avoid", a, d)
    for a, ds in {
        "nonsteroidal anti-inflammatories": ["acetaminophen", "prednisone", "tramadol"],
        "beta blockers": ["diltiazem", "amlodipine"],
        "ACE inhibitors": ["losartan", "hydralazine"],
        "benzodiazepines": ["haloperidol", "quetiapine", "trazodone"],
        "metformin": ["insulin glargine", "glipizide"],
        "anticoagulants": ["aspirin", "clopidogrel"],
        "opioids": ["naloxone", "acetaminophen"],
    }.items()
    for d in ds
]
LIMITS: list[tuple[str, str, bool]] = [
    ("patients under 18", "{age 15; sex F}", True),
    ("patients under 18", "{age 44; sex F}", False),
    ("pregnant patients", "{age 30; sex F; diagnosis Pregnancy, 20 weeks gestation}", True),
    ("pregnant patients", "{age 30; sex M}", False),
    ("men", "{age 50; sex M}", True),
    ("men", "{age 50; sex F}", False),
    (
        "end-stage renal disease on dialysis",
        "{age 60; diagnosis End stage renal disease; procedure Hemodialysis}",
        True,
    ),
    ("end-stage renal disease", "{age 60; diagnosis Chronic kidney disease, stage 2 (mild)}", False),
    ("known penicillin allergy", "{age 40; allergy Penicillins}", True),
    ("known penicillin allergy", "{age 40; allergy Shellfish}", False),
    ("allergic to sulfa drugs", "{age 40; allergy Sulfa (Sulfonamide Antibiotics)}", True),
    (
        "active gastrointestinal bleeding",
        "{age 70; diagnosis Acute posthemorrhagic anemia; diagnosis Gastrointestinal hemorrhage, unspecified}",
        True,
    ),
    ("already on warfarin", "{age 70; prescription Warfarin 5 mg}", True),
    ("already on an anticoagulant", "{age 70; prescription Apixaban}", True),
    ("already on an anticoagulant", "{age 70; prescription Aspirin}", False),
    ("potassium above 5.5 mmol/L", "{lab Potassium=6.1 mEq/L}", True),
    ("potassium above 5.5 mmol/L", "{lab Potassium=4.1 mEq/L}", False),
    ("creatinine > 2 mg/dL", "{lab Creatinine=250 umol/L}", True),
    ("creatinine > 2 mg/dL", "{lab Creatinine=90 umol/L}", False),
    ("hemoglobin below 7", "{lab Hemoglobin=6.2 g/dL}", True),
    ("platelets < 50,000", "{lab Platelet Count=32 K/uL}", True),
    ("platelets < 50,000", "{lab Platelet Count=210 K/uL}", False),
    ("INR above 3", "{lab INR(PT)=4.2}", True),
    ("heart failure with reduced ejection fraction", "{diagnosis Chronic systolic (congestive) heart failure}", True),
    ("congestive heart failure", "{diagnosis Heart failure, unspecified}", True),
    ("congestive heart failure", "{diagnosis Family history of heart failure}", False),
    ("history of stroke", "{diagnosis Cerebral infarction, unspecified}", True),
    ("history of stroke", "{diagnosis Hypertension}", False),
    ("diabetes", "{diagnosis Type 2 diabetes mellitus without complications}", True),
    ("diabetes", "{diagnosis Diabetes insipidus}", False),
    ("COPD", "{diagnosis Chronic obstructive pulmonary disease with acute exacerbation}", True),
    ("asthma", "{diagnosis Moderate persistent asthma}", True),
    ("cirrhosis", "{diagnosis Alcoholic cirrhosis of liver with ascites}", True),
    ("pulmonary embolism", "{note r/o PE, CTA negative for PE}", False),
    ("immunosuppressed patients", "{diagnosis Kidney transplant status; prescription Tacrolimus}", True),
    ("elderly patients over 80", "{age 86}", True),
    ("elderly patients over 80", "{age 71}", False),
    ("septic shock", "{diagnosis Septic shock}", True),
    ("septic shock", "{diagnosis Sepsis, unspecified organism}", False),
    ("asthma, COPD or cirrhosis", "{diagnosis Moderate persistent asthma}", True),
    ("asthma, COPD or cirrhosis", "{diagnosis Chronic obstructive pulmonary disease, unspecified}", True),
    ("asthma, COPD or cirrhosis", "{diagnosis Alcoholic cirrhosis of liver with ascites}", True),
    ("asthma, COPD or cirrhosis", "{diagnosis Hypertension}", False),
    ("asthma and cirrhosis", "{diagnosis Moderate persistent asthma; diagnosis Alcoholic cirrhosis of liver}", True),
    ("asthma and cirrhosis", "{diagnosis Moderate persistent asthma}", False),
]


@pytest.mark.parametrize(("rule", "known"), RULES)
def test_a_rule_means_what_it_says_or_is_refused(rule: str, known: GivenFacts | None) -> None:
    node = compile_trigger(rule).node
    assert (node is None) if known is REFUSED else (node is not None and node.holds(known) is True)


def chart(what: str, name: str) -> tuple[StateFacts, tuple[HeldRule, ...]]:
    if what == "allergy":
        return facts(allergies={name: KnownAllergy(concept=name, reaction=None, since=HOUR, row_id="a")}), ()
    rule = ProtocolRule(id="S", category="C", trigger="hours since stay >= 0", actions=(f"avoid {name}",))
    compiled = compile_rule(rule)
    return facts(), (HeldRule(compiled=compiled, since=HOUR, due=(), forbids=compiled.actions),)


def is_caught(what: str, name: str, drug: str) -> bool:
    known, held = chart(what, name)
    kind = "PROCEDURES" if drug.startswith("CT") else "MEDICATIONS"
    return bool(find_objections([PredictedAction(kind=kind, name=drug)], known, held, ()))  # type: ignore[arg-type]


def test_dangerous_proposals_are_caught_and_harmless_ones_are_not() -> None:
    assert [one for one in DANGEROUS if not is_caught(*one)] == []
    assert [one for one in HARMLESS if is_caught(*one)] == []


@pytest.mark.parametrize(("limit", "charted", "bars"), LIMITS)
def test_a_limit_bars_whom_it_excludes(limit: str, charted: str, bars: bool) -> None:
    check = read_phrase(limit)
    truth = None if check is None else check(patient(charted))
    assert truth is True if bars else truth is not True
