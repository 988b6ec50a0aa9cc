"""The SQL gate: what it answers, and that nothing gets past it or costs more than it may."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fake_chart import FakeChart, FakeTable, small_chart
from sql_attacks import BOUNDED, REFUSED

from wardround.core import ToolFailure
from wardround.tools import SqlGate

SECONDS = 0.5
BYTES = 200 * 2**20


def attacked_chart() -> FakeChart:
    """Enough rows for joins to hurt, and two notes as long as notes get."""
    labs = small_chart(3000).table("labevents")
    note = "the lungs are clear " * 9_000
    notes = FakeTable("notes", {"text": ("text", [note, note + "z"])})
    return FakeChart([labs, notes])


def measure() -> None:
    """Run every attack in this process; print outcome, CPU seconds and the growth of peak memory of each as JSON."""
    import resource
    import time

    chart = attacked_chart()
    with_gate = SqlGate(chart)  # type: ignore[arg-type]
    with_gate.query("SELECT (SELECT count(*) FROM labevents), (SELECT count(*) FROM notes)")
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = []
    for kind, attacks in (("refused", REFUSED), ("bounded", BOUNDED)):
        for name, sql in attacks.items():
            before = time.process_time()
            try:
                answer = with_gate.query(sql)
                outcome = f"{len(answer.rows)} rows" + (", cut" if answer.truncated else "")
                size = sum(len(str(value)) for row in answer.rows for value in row)
            except ToolFailure as failure:
                outcome, size = f"failed: {failure}", 0
            seconds = time.process_time() - before
            peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) * 1024
            report.append([kind, name, outcome, round(seconds, 3), peak, size])
    sys.stdout.write(json.dumps(report))


@pytest.fixture(scope="module")
def attacks() -> list[tuple[str, str, str, float, int, int]]:
    here = Path(__file__)
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(here.parent)!r}); import {here.stem} as t; t.measure()",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [tuple(entry) for entry in json.loads(done.stdout)]


def test_there_are_enough_attacks() -> None:
    assert len(REFUSED) + len(BOUNDED) >= 60


def test_what_must_be_refused_is(attacks: list[tuple[str, str, str, float, int, int]]) -> None:
    through = [(name, outcome) for kind, name, outcome, *_ in attacks if kind == "refused" and "failed" not in outcome]
    assert through == []


def test_every_attack_is_bounded_in_time_and_memory(attacks: list[tuple[str, str, str, float, int, int]]) -> None:
    slow = [(name, seconds) for _, name, _, seconds, _, _ in attacks if seconds > SECONDS]
    fat = [(name, peak >> 20) for _, name, _, _, peak, _ in attacks if peak > BYTES]
    assert (slow, fat) == ([], [])
    assert all(size <= 40_000_000 for *_, size in attacks)
