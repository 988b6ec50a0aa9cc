"""The room's public names are exactly those it lists."""

from __future__ import annotations

from types import ModuleType

import wardround.tasks.scoring


def test_public_names_are_exact() -> None:
    public = {
        name
        for name, value in vars(wardround.tasks.scoring).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public == set(wardround.tasks.scoring.__all__)
