"""The package's public face is exactly what it says."""

import doctest

from wardround.tools import candidates
from wardround.tools.candidates import words


def test_all_is_sorted_and_real() -> None:
    assert list(candidates.__all__) == sorted(candidates.__all__)
    assert all(hasattr(candidates, name) for name in candidates.__all__)


def test_docstring_examples() -> None:
    result = doctest.testmod(words)
    assert result.attempted > 0
    assert result.failed == 0
