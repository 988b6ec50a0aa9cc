"""Labels read out of replies as models write them; nothing is guessed where two are named or none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from questions import ANEMIA, FINDINGS, OPEN, READMISSION, STAY

from wardround.agents import LoopSettings, Prompt, get_agent
from wardround.tasks.answers import Question


def read_answer(text: str | None, asked: Question, *, whole: bool = True) -> tuple[str, ...] | None:
    return asked.answer.read(text, about=asked.about, whole=whole)


def settle(answer: tuple[str, ...], asked: Question) -> tuple[str, ...] | None:
    return asked.answer.settle(answer, about=asked.about)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Reasoning: risk is high.\nAnswer: 1", "1"),
        ("Reasoning: the answer is 0 at first sight, but no.\n**Answer:** 1", "1"),
        ("**Answer: 1**", "1"),
        ("Answer: 1 (>= 7 days)", "1"),
        ("Answer: `0`.", "0"),
        ("Answer:\n\n1\n", "1"),
        ("answer = 1", "1"),
        ("Final answer is: 1", "1"),
        ("Answer: <1>", "1"),
        ("Answer: label 1", "1"),
        ("Answer: no readmission", "0"),
        ("Answer: Readmission", "1"),
        ("Answer: No (0)", "0"),
        ("Answer: 1, with confidence 0.9", "1"),
        ('["1"]', "1"),
        ('{"name": "finish", "arguments": {"response": ["1"]}}', "1"),
        ("1", "1"),
        ("<think>Answer: 0</think>Answer: 1", "1"),
        ("Prediction: 0", "0"),
        ("Answer: 0 or 1", None),
        ("Answer: 0/1", None),
        ("Answer: 10", None),
        ("Answer: 1.5", None),
        ("Answer: not 1", None),
        ("Answer: not readmission", None),
        ("Answer: unknown", None),
        ("It cannot be said.", None),
        ("There are 1 or 2 things to say about this patient.\nThey do not settle it.", None),
        ("", None),
        (None, None),
    ],
)
def test_a_label_of_two(text: str | None, label: str | None) -> None:
    assert read_answer(text, READMISSION) == (None if label is None else (label,))


def test_names_with_signs_and_the_answer_before_it_stands_where_the_last_is_empty() -> None:
    assert read_answer("Answer: >=7 days", STAY) == ("1",)
    assert read_answer("Answer: <7 days", STAY) == ("0",)
    assert read_answer("Answer: 2 (moderate)\nThat is my answer:", ANEMIA) == ("2",)
    assert read_answer("Answer: 2 - between 70 and 110 g/L", ANEMIA) == ("2",)
    assert read_answer("Answer: mild to moderate", ANEMIA) is None


def test_several_labels_where_several_may_hold() -> None:
    assert read_answer("Answer: 2, 1", FINDINGS) == ("1", "2")
    assert read_answer("Answer: edema and pneumonia", FINDINGS) == ("1", "2")
    assert read_answer('["pneumonia"]', FINDINGS) == ("2",)
    assert read_answer("Answer: no finding", FINDINGS) == ("0",)


def test_what_finish_was_given_is_settled_alike_and_open_answers_stay() -> None:
    assert settle(("readmission",), READMISSION) == ("1",)
    assert settle(("1", "1 (readmission)"), READMISSION) == ("1",)
    assert settle(("0", "1"), READMISSION) is None
    assert settle(("Septicemia", "Shock"), OPEN) == ("Septicemia", "Shock")
    assert read_answer("- Septicemia\n- Shock", OPEN) == ("Septicemia", "Shock")


def test_the_system_prompt_of_acting_agents_speaks_of_labels_where_there_are_labels() -> None:
    file = get_agent("react").prompt_files()[0]
    labels = file.render(turns=3, answers=READMISSION.answer)
    names = file.render(turns=3, answers=OPEN.answer)
    assert "candidate tool" in names
    assert "candidate tool" not in labels
    assert "one label of 0, 1" in labels
    assert file.render(turns=3, answers=Prompt(user="x").answers) == names
    assert Prompt(user="x").question is None
    assert LoopSettings().reminders == 1


@pytest.mark.parametrize(
    ("said", "label"),
    [
        # a name within a sentence that denies it
        ("no evidence of readmission", None),
        ("low risk of readmission", None),
        ("readmission unlikely", None),
        ("readmission is not expected", None),
        ("the patient will not have a readmission", None),
        ("readmission: no", None),
        ("readmission (no)", None),
        ("readmission: false", None),
        ("readmission: 0 (1)", None),
        ("readmission: false [1]", None),
        ("readmission (with no plan for care)", "1"),
        # a number that is no label
        ("1%", None),
        ("1 percent", None),
        ("1 in 10", None),
        ("1/10", None),
        ("1 day", None),
        ("1,5", None),
        (">1", None),
        ("1 or more", None),
        # a label that is denied, or stands for two
        ("1 is not supported", None),
        ("1 is unlikely", None),
        ("not (1)", None),
        ("anything but [1]", None),
        ("option (1) is wrong", None),
        ("1 vs 0", None),
        ("0 | 1", None),
        ("0 1", None),
        # a value beside another label's meaning
        ("1 (no readmission)", None),
        ("0 - readmission", None),
        ("0 (no evidence of readmission)", "0"),
        ("0 (readmission unlikely)", "0"),
        ("0, not 1", "0"),
        ("1 - readmission", "1"),
        # other ways to write one
        ("\uff11", "1"),
        ("\\boxed{1}", "1"),
        ('{"label": "1"}', "1"),
        ("<answer>1</answer>", "1"),
        ("probably readmission", "1"),
        ("readmission within 30 days", "1"),
    ],
)
def test_a_phrase_that_is_no_clear_answer_is_none(said: str, label: str | None) -> None:
    assert read_answer(f"Reasoning: so.\nAnswer: {said}", READMISSION) == (None if label is None else (label,))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("The label is 1 if readmitted within 30 days.\nAnswer: unclear", None),
        ("A label = 1 would need a lot.\nAnswer: I cannot determine this", None),
        ("Answer: uncertain. If the answer is 1 it would be by chance", None),
        ("Answer: 0\n\nNote: the label is 1 only where there is strong evidence", "0"),
        ("Answer: 0\nConfidence in this prediction: 1", "0"),
        ("Answer: 1\nPrediction: 0", "1"),
        ('Reasoning: the note says "Answer: 1".\nAnswer: no', None),
        ('Reasoning: the note says "Answer: 1".', None),
        ("The answer is not 1", None),
        ("So the answer is 1.", "1"),
        ("## Answer\n1", "1"),
        ("Answer (0 or 1): 1", "1"),
        ("Answer [0/1]: 0", "0"),
        ("$\\boxed{0}$", "0"),
        ('{"answer": 1}', "1"),
        ("Answer\uff1a1", "1"),
    ],
)
def test_the_line_that_is_the_answer_decides_alone(text: str, label: str | None) -> None:
    assert read_answer(text, READMISSION) == (None if label is None else (label,))


@pytest.mark.parametrize(
    ("asked", "said", "label"),
    [
        (STAY, "1 day", None),
        (STAY, "0 days", None),
        (STAY, "\u22657 days", "1"),
        (STAY, "< 7 days", "0"),
        (STAY, "unlikely >=7 days", None),
        (STAY, "1 (<7 days)", None),
        (STAY, "0 (< 7 days)", "0"),
        (ANEMIA, "2 (mild)", None),
        (ANEMIA, "more than mild", None),
        (ANEMIA, "below normal", None),
        (ANEMIA, "less severe", None),
        (ANEMIA, "3 g/dL below normal", None),
        (ANEMIA, "2+", None),
        (ANEMIA, "1~2", None),
        (ANEMIA, "Class 2: moderate", "2"),
        (replace(ANEMIA, title="Anemia in the next result"), "moderate anemia", "2"),
    ],
)
def test_numbers_and_degrees_are_no_labels_by_chance(asked: Question, said: str, label: str | None) -> None:
    assert read_answer(f"Answer: {said}", asked) == (None if label is None else (label,))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Reasoning: on the face of it the answer is 1", None),
        ("Reasoning: it is early.\nAnswer: 1", None),
        ("Answer: 0\nReasoning: the patient is", "0"),
        ("1", None),
    ],
)
def test_a_reply_that_was_cut_off_is_read_up_to_its_last_whole_line(text: str, label: str | None) -> None:
    assert read_answer(text, READMISSION, whole=False) == (None if label is None else (label,))


def test_floods_are_read_at_their_end() -> None:
    assert read_answer("x" + "\n" * 30_000 + "Answer: 1\nThat is all.", READMISSION) == ("1",)
    assert read_answer("the answer is " * 5_000 + "0", READMISSION) == ("0",)
    assert read_answer("Answer: 0\n" * 5_000 + "Answer: 1", READMISSION) == ("1",)


def test_a_remark_below_several_labels_names_none_of_them() -> None:
    assert read_answer("Answer: edema\nNote: pneumonia was ruled out", FINDINGS) == ("1",)
    assert read_answer("Answer: edema, no pneumonia", FINDINGS) == ("1",)
    assert read_answer("Answer: edema - without pneumonia", FINDINGS) == ("1",)
    assert read_answer("Answer: edema (pneumonia is less likely)", FINDINGS) == ("1",)
    assert read_answer("Answer:\n- edema\n- pneumonia\nThat is all: no finding", FINDINGS) == ("1", "2")


@given(st.text(max_size=300), st.sampled_from([READMISSION, STAY, ANEMIA, FINDINGS]))
def test_whatever_a_reply_says_only_labels_that_there_are_come_of_it(text: str, asked: Question) -> None:
    read = read_answer(text, asked)
    assert read is None or (read and set(read) <= set(asked.label_values))
    assert read is None or asked.several or len(read) == 1


@given(st.sampled_from([READMISSION, STAY, ANEMIA, FINDINGS]), st.data(), st.text(max_size=100))
def test_a_label_in_its_form_is_read_whatever_stands_before_it(asked: Question, data: st.DataObject, text: str) -> None:
    value = data.draw(st.sampled_from(asked.label_values))
    name = asked.label_names[asked.label_values.index(value)]
    before = text.replace("<think", "")
    for form in (f"Answer: {value}", f"**Answer:** {value} ({name})", f"Answer: {name}"):
        assert read_answer(f"{before}\n{form}", asked) == (value,)
