"""The rule file: what a drug, a laboratory value or a word in a note makes one think of."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRule:
    """If a finding matches ``pattern``, ``thought`` holds with ``weight`` (a rough probability)."""

    pattern: re.Pattern[str]
    thought: str
    weight: float


@cache
def load_rules() -> dict[str, Any]:
    """Return the rule file as plain tables."""
    text = resources.files("wardround.models.offline").joinpath("rules.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def rules_for(task: str, kind: str) -> tuple[FindingRule, ...]:
    """Return the rules of one task for one kind of finding."""
    rows = load_rules().get(task, {}).get(kind, [])
    return tuple(
        FindingRule(pattern=re.compile(rf"\b(?:{pattern})", re.IGNORECASE), thought=thought, weight=weight)
        for pattern, thought, weight in rows
    )


def names(task: str, key: str) -> tuple[str, ...]:
    """Return a list of names from the rule file."""
    return tuple(load_rules().get(task, {}).get(key, ()))
