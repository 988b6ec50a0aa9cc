"""Packages of extras in tests, imported when a test uses them and not when it is collected: every process of a test run
collects all of them, and scikit-learn with LightGBM alone takes two seconds."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


def needs(*packages: str) -> pytest.MarkDecorator:
    """Mark tests that are skipped where one of these packages is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


class Later:
    """A module that is imported when something of it is asked for. Names that begin with ``_`` are not: pytest asks
    whatever stands in a test file for a few of its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)
