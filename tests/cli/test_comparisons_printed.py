"""Paired comparisons on the terminal: nothing is left out, and no line is longer than a terminal of 100 columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wardround.cli.scores import print_comparisons, print_warnings
from wardround.reports import Comparison
from wardround.reports.baseline_card import CardRow
from wardround.tasks.scoring import paired_test


def compared(tasks: int) -> list[Comparison]:
    test = paired_test([0.0, 1.0] * 5, [1.0, 1.0] * 5, list(range(10)), seed=1)
    return [
        Comparison(contender=who, baseline="direct", task=f"task_{n}", test=test, adjusted_p=0.25)
        for who in ("rag", "ehr-rag")
        for n in range(tasks)
    ]


@pytest.mark.parametrize("tasks", [1, 15])
def test_every_task_is_printed_once_for_every_contender(tasks: int, capsys: pytest.CaptureFixture[str]) -> None:
    print_comparisons(compared(tasks), is_wide=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    cells = [line.split()[:3] for line in lines if line.startswith("task_")]
    assert sorted(cells) == sorted([f"task_{n}", who, "+0.500"] for n in range(tasks) for who in ("rag", "ehr-rag"))


def test_strata_and_the_uncorrected_p_are_printed_where_there_is_room(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [replace(one, stratum=stratum) for one in compared(1) for stratum in ("rare", "all")]
    print_comparisons(rows, is_wide=True)
    wide = capsys.readouterr().out
    print_comparisons(rows, is_wide=False)
    narrow = capsys.readouterr().out
    assert (wide.count("rare"), narrow.count("rare")) == (2, 0)
    assert (wide.count("0.0625"), narrow.count("0.0625")) == (4, 0), "five patients differ: 2 of 2**5 signs"
    assert (wide.count("0.2500"), narrow.count("0.2500")) == (4, 2)


def test_a_warning_fills_the_lines_of_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The moment answers the first task, and some rows' existence, too; the second's figure may be chance."""
    moment, chance = ({"auc": 0.8, "low": low, "high": 0.9} for low in (0.75, 0.45))
    notes = {"what": "notes in a ward where few people have any", "auc": 0.81, "low": 0.77, "high": 0.85}
    rest: dict[str, Any] = {"metric": "accuracy", "n": 9, "means": {}, "intervals": {}, "best": "", "unavailable": {}}
    told = CardRow(task="told", by_moment=moment, by_existence=[notes], **rest)
    print_warnings([told, CardRow(task="open", by_moment=chance, **rest)])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("! told: the moment alone answers with AUC 0.80 [0.75, 0.90], 'notes in a ward where few ")
    assert 80 < len(first) <= 100
    assert second.startswith("    ")
    assert " ".join((first + " " + second).split()).endswith("alone answers with AUC 0.81 [0.77, 0.85]")
