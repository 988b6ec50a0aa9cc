"""The rule language: when something happened or became known, read from a spec's text and evaluated over columns."""

from wardround.records.rules.language import (
    ALWAYS_TIME,
    NEVER,
    NO_TIME,
    Among,
    Around,
    Closed,
    Column,
    Combined,
    Following,
    LateCell,
    MedianDelay,
    NamedRow,
    Reference,
    Rule,
    Times,
    walk,
    walk_everywhere,
)
from wardround.records.rules.own_row import Choice

__all__ = [
    "ALWAYS_TIME",
    "NEVER",
    "NO_TIME",
    "Among",
    "Around",
    "Choice",
    "Closed",
    "Column",
    "Combined",
    "Following",
    "LateCell",
    "MedianDelay",
    "NamedRow",
    "Reference",
    "Rule",
    "Times",
    "walk",
    "walk_everywhere",
]
