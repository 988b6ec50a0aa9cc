"""Reading an answer out of text: every shape models use, and prose that is no answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.tasks.answers import parse_answer

LABEL = "Chronic obstructive pulmonary disease and bronchiectasis"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('["Septicemia", "Shock"]', ("Septicemia", "Shock")),
        ('Final answer:\n```json\n["Septicemia", "Shock"]\n```', ("Septicemia", "Shock")),
        ('First I thought ["Asthma"], now ["Shock"].', ("Shock",)),
        ('{"response": ["Septicemia"]}', ("Septicemia",)),
        ('{"name": "finish", "arguments": {"response": ["Septicemia"]}}', ("Septicemia",)),
        ('<tool_call>\n{"name": "finish", "arguments": {"response": ["Shock"]}}\n</tool_call>', ("Shock",)),
        ('{"answers": [{"name": "Shock", "why": "lactate"}, {"name": "Asthma"}]}', ("Shock", "Asthma")),
        ("['Septicemia', 'Alzheimer's disease']", ("Septicemia", "Alzheimer's disease")),
        ("['Septicemia',\n 'Shock',]", ("Septicemia", "Shock")),
        ("- Septicemia\n- **Shock**\n", ("Septicemia", "Shock")),
        ("1. Septicemia\n2) Shock", ("Septicemia", "Shock")),
        ('<think>maybe ["Asthma"]</think>Answer: ' + LABEL, (LABEL,)),
        ("The final answer is: Shock.", ("Shock",)),
        (LABEL, (LABEL,)),
        ('["Shock", "Shock", " shock  state "]', ("Shock", "shock state")),
        ("Peri-; endo-; and myocarditis; cardiomyopathy", ("Peri-; endo-; and myocarditis; cardiomyopathy",)),
    ],
)
def test_shapes_of_an_answer(text: str, answer: tuple[str, ...]) -> None:
    assert parse_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "   ",
        "[]",
        '{"table_name": "labevents"}',
        "[1, 2]",
        "I would look at the labs next. Then decide.",
        "The patient has a fever.\nIt may be an infection.",
        "<tool_call>",
        "__import__('os').system('true')\nnothing else",
        "[" * 3000,
    ],
)
def test_what_is_no_answer_stays_none(text: str | None) -> None:
    assert parse_answer(text) is None


@given(
    st.lists(
        st.text(alphabet=st.characters(categories=("L", "Nd"), include_characters=" ';,-()"), min_size=1), min_size=1
    )
)
def test_a_json_list_is_read_back_as_it_is(labels: list[str]) -> None:
    expected = tuple(dict.fromkeys(" ".join(label.split()) for label in labels if label.strip()))
    assert (parse_answer(json.dumps(labels)) or ()) == expected


@given(st.text(max_size=400))
def test_no_text_breaks_the_reader(text: str) -> None:
    answer = parse_answer(text)
    assert answer is None or all(item == item.strip() and item for item in answer)
