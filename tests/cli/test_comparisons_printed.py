"""Paired comparisons on the terminal: nothing is left out, and many tasks do not make lines nobody can read."""

from __future__ import annotations

import pytest

from wardround.cli.report import _print_comparisons
from wardround.reports import Comparison
from wardround.tasks.scoring import paired_test


def compared(tasks: int) -> list[Comparison]:
    test = paired_test([0.0, 1.0] * 5, [1.0, 1.0] * 5, list(range(10)), seed=1)
    return [
        Comparison(contender=who, baseline="direct", task=f"task_{n}", test=test, adjusted_p=0.5)
        for who in ("rag", "ehr-rag")
        for n in range(tasks)
    ]


@pytest.mark.parametrize("tasks", [1, 7, 8, 15])
def test_every_task_is_printed_once_for_every_contender(tasks: int, capsys: pytest.CaptureFixture[str]) -> None:
    _print_comparisons(compared(tasks))
    printed = capsys.readouterr().out
    assert printed.count("+0.500 (") == 2 * tasks
    for n in range(tasks):
        assert printed.split().count(f"task_{n}") == 1
    blocks = 1 if tasks <= 7 else -(-tasks // 4)
    assert sum(line.startswith("rag ") for line in printed.splitlines()) == blocks
    if tasks > 7:
        assert max(map(len, printed.splitlines())) < 180
