"""The examples in the room's docstrings."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["ccs", "labels"])
def test_docstring_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"wardround.clinical.codes.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
