"""Thinking in a reply, as models leave it there."""

from __future__ import annotations

import pytest

from wardround.core import without_thinking


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think>b", "b"),
        ("<think>a</think>b<think>c</think>d", "b d"),
        ("<think>a, and never done", ""),
        ("begun by the template</think>\nb", "b"),
        ("<thinking>a</thinking> b", "b"),
        ("a < b", "a < b"),
        ("x</think>y</think>z", "z"),
    ],
)
def test_only_what_was_said_is_left(text: str, left: str) -> None:
    assert without_thinking(text).strip() == left
