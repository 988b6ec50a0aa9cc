"""The time that is left: said when the rate says something, and then near the truth."""

from __future__ import annotations

import io
import random
import re

import pytest

from wardround.core import Progress, TerminalProgress

TOTAL, AT_ONCE = 160, 16


def finishing_times(seed: int) -> list[float]:
    """When 160 episodes of about a minute each are done, 16 at a time."""
    source = random.Random(seed)
    lanes = [0.0] * AT_ONCE
    times = []
    for _ in range(TOTAL):
        lane = min(range(AT_ONCE), key=lanes.__getitem__)
        lanes[lane] += source.uniform(50.0, 70.0)
        times.append(lanes[lane])
    return sorted(times)


@pytest.mark.parametrize("seed", range(5))
def test_the_first_estimate_is_within_a_factor_of_two(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [1000.0]
    monkeypatch.setattr("wardround.core.progress.time.monotonic", lambda: moment[0])
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    progress = TerminalProgress(terminal)
    times = finishing_times(seed)
    for second in range(400):
        moment[0] = 1000.0 + second
        done = sum(time <= second for time in times)
        running = min(AT_ONCE, TOTAL - done)
        progress(Progress(label="episodes", done=done, total=TOTAL, unit="episodes", running=running))
        found = re.findall(r"(?:(\d+) min )?(\d+) s left", terminal.getvalue())
        if found:
            estimate = 60 * int(found[0][0] or 0) + int(found[0][1])
            left = times[-1] - second
            assert left / 2 <= estimate <= left * 2, (second, done, estimate, left)
            return
    pytest.fail("no estimate was shown")


@pytest.mark.parametrize(
    ("done", "said"), [(25, "2.5 rows/s"), (99, "9.9 rows/s"), (100, "10 rows/s"), (25_004, "2,500 rows/s")]
)
def test_a_rate_is_told_to_two_figures(done: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [1000.0]
    monkeypatch.setattr("wardround.core.progress.time.monotonic", lambda: moment[0])
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    progress = TerminalProgress(terminal)
    progress(Progress(label="rows", done=0, total=None, unit="rows"))
    moment[0] += 10
    progress(Progress(label="rows", done=done, total=None, unit="rows"))
    assert said in terminal.getvalue()
