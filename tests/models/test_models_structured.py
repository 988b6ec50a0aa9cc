from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_doubles import ask, serving

from fake_server import Answer, FakeServer, error, text
from wardround.core import FormatError
from wardround.models import Model, ScriptedModel, Structured, complete_structured, read_value
from wardround.models.schema import violation

SCHEMA = {
    "type": "object",
    "properties": {"labels": {"type": "array", "items": {"type": "string"}}, "sure": {"type": "number"}},
    "required": ["labels"],
    "additionalProperties": False,
}
GOOD = {"labels": ["a"], "sure": 0.5}


@pytest.mark.parametrize(
    "reply",
    [
        '{"labels": ["a"], "sure": 0.5}',
        '  \n{"labels": ["a"], "sure": 0.5}\n',
        '```json\n{"labels": ["a"], "sure": 0.5}\n```',
        'Here it is:\n```\n{"labels": ["a"], "sure": 0.5}\n```\nAnything else?',
        'I think {"labels": ["a"], "sure": 0.5} fits.',
        '{"labels": ["a",], "sure": 0.5,}',
        '<think>{"labels": ["no"]}</think>{"labels": ["a"], "sure": 0.5}',
        'First {"x": 1}, then {"labels": ["a"], "sure": 0.5}',
        'Set {a, b} gives {"labels": ["a"], "sure": 0.5}',
    ],
)
def test_a_value_is_found_where_models_put_it(reply: str) -> None:
    assert read_value(reply, SCHEMA) == (GOOD, None)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "there is no JSON value in it"),
        ("none", "there is no JSON value in it"),
        ('{"labels": "a"}', "'labels' should be of type array"),
        ('{"sure": 1}', "the value lacks 'labels'"),
        ('{"labels": ["a", 2]}', "item 1 of 'labels' should be of type string"),
        ('{"labels": [], "more": 1}', "the value has unknown fields 'more'"),
        ("[" * 100_000, "there is no JSON value in it"),
    ],
)
def test_what_is_wrong_is_said(reply: str, problem: str) -> None:
    assert read_value(reply, SCHEMA) == (None, problem)


def structured(model: Model) -> Structured:
    return asyncio.run(complete_structured(model, ask(ordinal=3), SCHEMA))


def test_one_call_when_the_first_reply_will_do() -> None:
    model = ScriptedModel(['{"labels": ["a"], "sure": 0.5}'])
    outcome = structured(model)
    assert outcome.value == GOOD
    assert len(outcome.exchanges) == 1
    assert model.requests[0].response_schema == SCHEMA


def test_one_repair_turn_says_what_was_wrong() -> None:
    model = ScriptedModel(["I cannot say", '{"labels": ["a"], "sure": 0.5}'])
    outcome = structured(model)
    assert outcome.value == GOOD
    assert [request.ordinal for request, _ in outcome.exchanges] == [3, 4]
    said = model.requests[1].messages[-1]
    assert (said.role, model.requests[1].messages[-2].content) == ("user", "I cannot say")
    assert "there is no JSON value in it" in (said.content or "")
    assert '"required": ["labels"]' in (said.content or "")


def test_a_second_failure_is_named() -> None:
    with pytest.raises(FormatError, match="after one repair: the value lacks 'labels'") as caught:
        structured(ScriptedModel(["no", "{}"]))
    assert "lacks 'labels'" in caught.value.correction


def test_an_endpoint_without_schemas_is_asked_without_from_then_on() -> None:
    def script(body: Any) -> Answer:
        return error(400, "response_format is not supported") if "response_format" in body else text('{"labels": []}')

    async def use(model: Model, server: FakeServer) -> list[bool]:
        for _ in range(2):
            assert (await complete_structured(model, ask(), SCHEMA)).value == {"labels": []}
        return ["response_format" in seen.json for seen in server.requests]

    assert serving(script, use) == [True, False, False]


@pytest.mark.parametrize(
    ("schema", "valid", "broken"),
    [
        ({"minimum": 1, "maximum": 10}, (1, 10, 1.0, "x", True), {0: "at least 1", 10.5: "at most 10"}),
        ({"minLength": 2, "maxLength": 3}, ("ab", "abc", [], 7), {"a": "at least 2 long", "abcd": "at most 3 long"}),
        ({"minItems": 1, "maxItems": 2}, ([1], [1, 2], "", 0), {(): "at least 1 items", (1, 2, 3): "at most 2 items"}),
        ({"type": ["integer", "null"]}, (3, 3.0, None), {3.5: "of type integer or null", True: "of type integer or"}),
        ({"enum": ["a", 2]}, ("a", 2), {"b": "one of 'a', 2"}),
        ({"const": "a"}, ("a",), {"b": "'a'"}),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, ("", 3), {2: "of type string"}),
    ],
)
def test_a_value_breaks_a_schema_beyond_its_bounds_alone(
    schema: dict[str, Any], valid: tuple[Any, ...], broken: dict[Any, str]
) -> None:
    for value in valid:
        assert violation(value, schema) is None
    for value, words in broken.items():
        whole = list(value) if isinstance(value, tuple) else value
        assert (violation(whole, schema) or "").startswith(f"the value should be {words}")
        assert (violation({"x": [whole]}, {"properties": {"x": {"items": schema}}}) or "").startswith(
            f"item 0 of 'x' should be {words}"
        )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "a", "bcd"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=5,
)
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"]),
            "enum": st.lists(st.sampled_from(["a", "bcd", 2]), min_size=1, max_size=2),
            "minimum": st.integers(-2, 2),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "required": st.just(["a"]),
            "additionalProperties": st.booleans(),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "items": inner,
            "properties": st.dictionaries(st.sampled_from("ab"), inner),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "additionalProperties": inner,
        },
    ),
    max_leaves=4,
)


@given(value=VALUES, schema=SCHEMAS)
def test_the_schema_check_agrees_with_jsonschema(value: Any, schema: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    assert (violation(value, schema) is None) == jsonschema.Draft202012Validator(schema).is_valid(value)


def test_a_keyword_it_does_not_know_is_never_ignored() -> None:
    with pytest.raises(ValueError, match="pattern"):
        violation("x", {"type": "string", "pattern": "y"})
