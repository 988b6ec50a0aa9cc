"""The schema that editors hold a spec file against: the keys that its reader takes, and no others."""

from __future__ import annotations

from typing import Any

from wardround.records.specs.roles import ROLES
from wardround.records.specs.spec_body import spec_schema, spelt


def test_every_shape_takes_its_own_keys_and_no_others() -> None:
    shapes = spec_schema()["$defs"]
    objects = {name: shape for name, shape in shapes.items() if "properties" in shape}
    assert {"SpecBody", "SourceBody", "TableKeys", "DictionaryKeys", "Derivation", "PendingRows"} <= set(objects)
    assert {shape["additionalProperties"] for shape in objects.values()} == {False}


def test_a_derivation_is_spelt_as_in_the_file() -> None:
    derive = spec_schema()["$defs"]["Derivation"]
    assert set(derive["properties"]) == {"from", "function", "text", "where", "written"}
    assert sorted(derive["required"]) == ["from", "function"]


def test_roles_are_named_with_what_they_are() -> None:
    schema = spec_schema()
    roles = schema["$defs"]["SpecBody"]["properties"]["roles"]
    assert {name: each["description"] for name, each in roles["properties"].items()} == dict(ROLES)
    assert (roles["type"], roles["default"]) == ("object", {})
    assert schema["title"] == "wardround source spec"
    assert schema["$schema"].endswith("2020-12/schema")


def test_from_is_read_under_a_name_that_python_can_have() -> None:
    body: dict[str, Any] = {
        "source": {"name": "a"},
        "tables": {"t": {"derive": {"from": "notes", "function": "f"}}, "u": {}},
    }
    assert spelt(body)["tables"] == {"t": {"derive": {"function": "f", "source": "notes"}}, "u": {}}
    assert body["tables"]["t"]["derive"] == {"from": "notes", "function": "f"}
    unlike: tuple[dict[str, Any], ...] = ({"tables": 3}, {"source": {}}, {"tables": {"t": {"derive": {"text": "x"}}}})
    for other in (*unlike, {"tables": {"t": 3}}):
        assert spelt(other) == other
