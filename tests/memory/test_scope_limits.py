"""Limits in natural words against told cases and charts: what bars, what does not, what cannot be judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from phrase_sets import lines_of
from wardround.memory import Findings, findings_of_chart, findings_of_text
from wardround.memory.phrases import read_phrase

LIMITS = Path(__file__).parent / "scope_limits.txt"
VERDICTS = {True: "bars", False: "clear", None: "unchecked"}


@dataclass
class Row:
    """A row of a chart, as ``findings_of_chart`` sees it."""

    kind: str
    description: str
    numeric_value: float | None = None
    unit: str | None = None
    text_value: str | None = None
    time: None = None
    row_id: str = ""


@dataclass
class WrittenChart:
    """A chart written as ``{age 67; sex F; diagnosis ...; lab NAME=VALUE UNIT}``."""

    age: int | None = None
    ended_rows: frozenset[str] = frozenset()
    rows: list[Row] = field(default_factory=list)

    def events(self) -> Iterator[Row]:
        yield from self.rows


def patient(text: str) -> Findings:
    if not text.startswith("{"):
        return findings_of_text(text.replace("\\n", "\n"))
    chart = WrittenChart()
    for part in text.strip("{}").split("; "):
        kind, _, value = part.partition(" ")
        match kind:
            case "age":
                chart.age = int(value)
            case "sex":
                chart.rows.append(Row("person", "person", text_value=f"gender: {value}"))
            case "lab":
                name, _, number = value.partition("=")
                amount, _, unit = number.partition(" ")
                chart.rows.append(Row("lab", name, float(amount), unit or None))
            case "note":
                chart.rows.append(Row("note", "note", text_value=value.replace("\\n", "\n") + "\n"))
            case _:
                chart.rows.append(Row({"drug": "prescription"}.get(kind, kind), value))
    return findings_of_chart(chart)


def judged(line: str) -> tuple[str, str]:
    """What a line of the set expects, and what is found."""
    said, _, expected = line.rpartition(" => ")
    limit, _, told = said.partition(" || ")
    check = read_phrase(limit)
    return expected, "unchecked" if check is None else VERDICTS[check(patient(told))]


@pytest.mark.parametrize("kept", [False, True])
def test_limits_in_natural_words_bar_whom_they_exclude_and_nobody_else(kept: bool) -> None:
    lines = lines_of(LIMITS, kept=kept)
    found = Counter(judged(line) for line in lines)
    excluded = sum(count for (expected, _), count in found.items() if expected == "bars")
    others = len(lines) - excluded
    assert found["bars", "bars"] >= 0.95 * excluded
    assert (
        sum(count for (expected, got), count in found.items() if expected != "bars" and got == "bars") <= 0.02 * others
    )
    assert sum(count for (expected, got), count in found.items() if {expected, got} == {"bars", "clear"}) == 0
