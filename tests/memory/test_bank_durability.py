"""Kills while three processes write: nothing acknowledged is lost, nothing is corrupt, no update is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from effort import often


def test_kills_while_three_write_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    rounds = often(7, 67)  # each kills all three writers, one after the other: 21 and 201 kills
    script = Path(__file__).with_name("kill_writers.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "bank.sqlite"), str(rounds), "11"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(script.parent)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["acknowledged"] > 5 * rounds, "the writers did not get going"
