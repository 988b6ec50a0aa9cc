"""``model.tool_calls`` is a setting of the run: checked, kept in the manifest, and what its models are opened with."""

from __future__ import annotations

import pytest

from wardround.core import UserError
from wardround.records import Store
from wardround.runs import RunSettings
from wardround.runs.models import open_models


def _settings(way: str) -> RunSettings:
    return RunSettings.of(
        benchmark="b", store="s", models=("openai/m", "offline"), base_url="http://127.0.0.1:1/v1", tool_calls=way
    )


def test_it_reaches_the_served_models_only(synthetic_store: Store) -> None:
    models = open_models(RunSettings.read(_settings("schema").to_json()), synthetic_store)
    assert models["openai/m"].identity.startswith("openai/m@http://127.0.0.1:1/v1#tool-calls-schema-")
    assert "tool-calls" not in models["offline"].identity


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(UserError, match="native, schema, auto"):
        _settings("grammar")
