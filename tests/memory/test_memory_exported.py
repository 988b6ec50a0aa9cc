"""The room's public face, and that its templates are all declared and render."""

from __future__ import annotations

import types
from importlib import resources

import wardround.memory
from wardround.core import load_prompt
from wardround.memory import GRAPH_PROMPT
from wardround.memory.construction import CONSTRUCTION_PROMPTS
from wardround.memory.extract import REFLECTION_PROMPTS
from wardround.memory.peers import PEER_PROMPTS
from wardround.memory.serve import SERVED_PROMPTS


def test_all_names_exactly_what_is_public() -> None:
    public = {
        name
        for name, value in vars(wardround.memory).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(wardround.memory.__all__)
    assert len(public) == len(wardround.memory.__all__)


def test_every_template_is_named_for_the_manifest() -> None:
    folder = resources.files("wardround.memory").joinpath("prompts")
    there = {file.name.removesuffix(".jinja") for file in folder.iterdir()}
    assert there == {*REFLECTION_PROMPTS, *SERVED_PROMPTS, *CONSTRUCTION_PROMPTS, *PEER_PROMPTS, GRAPH_PROMPT}
    assert all(load_prompt("wardround.memory", name).version >= 1 for name in there)
