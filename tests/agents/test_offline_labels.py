"""The offline policy on questions with labels: rules over text written by hand, and what it says beside the actor."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from wardround.core import Message
from wardround.models import Request, open_model
from wardround.models.offline.tasks import decide, facts_of, labels_of, topic_of, topics
from wardround.tasks.benchmarks import EHRSHOT_TASKS, Sample, question_of

SEVERITY = {"0": "normal", "1": "mild", "2": "moderate", "3": "severe"}
YES_NO = {"0": "no", "1": "yes"}
ANEMIA = "How severe an anemia will the hemoglobin result that is about to come show?"
QUESTION = f"""Question (Labs: Anemia): {ANEMIA}

Patient
- Subject: 1
- Current time: 2150-01-03 07:59:00.

Answers there are
- 0: normal
- 1: mild
- 2: moderate
- 3: severe
Exactly one holds. The answer is its number.
"""


def answered(question: str, text: str, labels: dict[str, str] | None = None) -> list[str]:
    return decide(topic_of(question), facts_of(text), labels or SEVERITY)[0]


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("- Hemoglobin (g/dL): 13.1 at 2150-01-01 08:00:00, 6.9 at 2150-01-02 08:00:00", "3"),
        ("- Hemoglobin (g/dL): 6.9 at 2150-01-01 08:00:00, 12.0 at 2150-01-02 08:00:00 (3 older not shown)", "0"),
        ("[2150-01-02 08:00:00] lab - Hemoglobin (value: 7.0 g/dL)", "2"),
        ("[2150-01-02 08:00:00] lab - Hemoglobin (value: 11 g/dL)", "1"),
        ("[2150-01-02 08:00:00] measurement - Hemoglobin [Mass/volume] in Blood (value: 109 g/L)", "2"),
        ("[2150-01-02 08:00:00] lab - Hemoglobin (value: 10.5)", "2"),
        ("labevents:5 | [2150-01-02 08:00:00] lab - Hemoglobin (value: 6.5 g/dL)", "3"),
        ("[2150-01-02 08:00:00] lab - % Hemoglobin A1c (value: 5.6 %)", "0"),
        ("[2150-01-02 08:00:00] diagnosis - Severe anemia", "0"),
        ("The case for 3: hemoglobin 5.0 g/dL.", "0"),
        ("Searched for: hemoglobin below 5.", "0"),
    ],
)
def test_the_latest_value_shown_decides(line: str, label: str) -> None:
    assert answered(ANEMIA, f"Excerpts.\n{line}\n") == [label]


@pytest.mark.parametrize(
    ("question", "line", "label"),
    [
        ("thrombocytopenia will the platelet count", "lab - Platelet Count (value: 49 K/uL)", "3"),
        ("thrombocytopenia will the platelet count", "lab - Platelets (value: 50 10*3/uL)", "2"),
        ("hyperkalemia will the potassium result", "lab - Potassium (value: 5.6 mEq/L)", "1"),
        ("hyperkalemia will the potassium result", "lab - Potassium (value: 7.1 mmol/L)", "3"),
        ("hypoglycemia will the glucose result", "lab - Glucose (value: 60 mg/dL)", "2"),
        ("hypoglycemia will the glucose result", "lab - Glucose (value: 3.8 mmol/L)", "1"),
        ("hyponatremia will the sodium result", "lab - Sodium (value: 128 mEq/L)", "2"),
        ("hyponatremia will the sodium result", "lab - Sodium (value: 141 mEq/L)", "0"),
    ],
)
def test_other_quantities_in_their_units(question: str, line: str, label: str) -> None:
    assert answered(f"How severe a {question} show?", f"[2150-01-02 08:00:00] {line}") == [label]


def test_signs_are_counted_once_each_and_the_default_is_the_first_label() -> None:
    stay = "Will this hospital stay, which began today, last 7 days or more?"
    one = "[2150-01-02 08:00:00] transfer - Medical Intensive Care Unit (MICU)\n"
    four = one + "".join(f"[2150-01-02 08:00:00] {what}\n" for what in ("procedure - Intubation", "diagnosis - Sepsis"))
    assert answered(stay, one * 5, YES_NO) == ["0"]
    assert answered(stay, four, YES_NO) == ["0"]
    assert answered(stay, four + "[2150-01-02 08:00:00] order - norepinephrine", YES_NO) == ["1"]
    assert answered("Is the moon full?", four, YES_NO) == ["0"]
    assert answered(ANEMIA, "") == ["0"]


def test_findings_of_a_radiograph_are_those_named() -> None:
    labels = {"0": "none of the others", "1": "Edema", "2": "Pleural Effusion", "3": "Fracture"}
    text = "[2150-01-02 08:00:00] note - report (value: small pleural effusion, mild edema)"
    assert answered("Which findings will the report of the chest radiograph describe?", text, labels) == ["1", "2"]
    assert answered("Which findings will the report of the chest radiograph describe?", "", labels) == ["0"]


def test_every_ehrshot_task_has_a_topic_of_its_own() -> None:
    given = {"id": "s", "subject_id": 1, "prediction_time": datetime(2150, 1, 1), "target": ("0",)}
    found = {
        name: topic_of(question_of(task, Sample(task=name, split="test", stratum="any", **given)).description)  # type: ignore[arg-type]
        for name, task in EHRSHOT_TASKS.items()
    }
    assert None not in found.values()
    assert len({topic.about for topic in found.values() if topic}) == len(EHRSHOT_TASKS) == len(topics())


def ask(*messages: str, system: str = "s") -> str:
    told = [Message(role="system", content=system), *(Message(role="user", content=text) for text in messages)]
    model = open_model("offline")
    reply = asyncio.run(model.complete(Request(messages=tuple(told))))
    return reply.message.content or ""


def test_what_it_says_beside_the_actor() -> None:
    assert labels_of(QUESTION) == SEVERITY
    listed = (
        "Your task now: rerank.\n- Sodium\n- Hemoglobin\n- Bilirubin\n- Ferritin\n\nChoose the 2 whose values tell."
    )
    assert ask(QUESTION, listed) == '["Hemoglobin", "Ferritin"]'
    assert ask(QUESTION, listed.replace("Ferritin", "Ferritin, Säuglinge")) == '["Hemoglobin", "Ferritin, Säuglinge"]'
    first = ask(QUESTION, "excerpts", "Your task now: refine.\n- factors of anemia\n")
    second = ask(QUESTION, "excerpts", f"Your task now: refine.\n- factors of anemia\n- {first}\n")
    third = ask(QUESTION, "excerpts", f"Your task now: refine.\n- factors of anemia\n- {first}\n- {second}\n")
    assert first != second
    assert third == "ENOUGH"
    assert all(0 < len(query.split()) <= 15 for topic in topics() for query in (*topic.searches, topic.keyword))
    shown = "- Hemoglobin (g/dL): 6.9 at 2150-01-02 08:00:00"
    assert "6.9 g/dL" in ask(QUESTION, shown, "Your task now: argue.\n")
    assert ask(QUESTION, "", "Your task now: search.\n").endswith("Query: hemoglobin")


def test_a_thought_names_the_labels_that_it_found_and_an_open_question_has_one_too() -> None:
    film = "Which findings will the report of the chest radiograph describe?"
    answers = "Answers there are\n- 0: none of the others\n- 1: Edema\n- 2: Fracture\n\nAny may hold.\n"
    labelled = f"Question (Films): {film}\n\n{answers}"
    shown = "[2150-01-02 08:00:00] note - report (value: mild edema)"
    argued = ask(labelled, shown, "Your task now: argue.\n")
    assert argued == "From the excerpts, named in the record: Edema."
    assert ask(f"Question (Films): {film}\n", shown, "Your task now: argue.\n") == (
        "From the excerpts, named in the record: none."
    )


def test_without_tools_it_answers_from_the_excerpts() -> None:
    system = "Then write a last line that is exactly `Answer: ` and one label."
    shown = "- Hemoglobin (g/dL): 6.9 at 2150-01-02 08:00:00"
    assert ask(QUESTION, shown, system=system).splitlines()[-1] == "Answer: 3"
    assert ask(QUESTION, "nothing", system=system).splitlines()[-1] == "Answer: 0"
