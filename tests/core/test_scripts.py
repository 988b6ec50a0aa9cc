"""Every script that a person may run says what it does and shows how it is called."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SCRIPTS = sorted(
    path
    for folder in ("benchmarks", "scripts")
    for path in (REPOSITORY / folder).glob("*.py")
    if "__main__" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_help_shows_an_example(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.setattr(sys, "path", [str(script.parent), str(REPOSITORY / "tests"), *sys.path])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert f"python {script.relative_to(REPOSITORY)}" in said
    assert said.startswith("usage:")
