"""The room's public face."""

from __future__ import annotations

import types

import wardround.tools.retrieval


def test_all_names_exactly_what_is_public() -> None:
    public = {
        name
        for name, value in vars(wardround.tools.retrieval).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(wardround.tools.retrieval.__all__)
    assert len(set(wardround.tools.retrieval.__all__)) == len(wardround.tools.retrieval.__all__)
