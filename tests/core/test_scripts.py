"""Every script that a person may run says what it does and shows how it is called."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "benchmarks"))

from all import read_page, read_scripts, row_of, verdict  # noqa: E402

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


# benchmarks/all.py


def test_each_row_of_limits_is_printed_again_or_says_why_not() -> None:
    page = read_page((REPOSITORY / "docs" / "performance.md").read_text(encoding="utf-8"))
    measured = set()
    scripts, beside = read_scripts()
    for script in scripts:
        assert (REPOSITORY / "benchmarks" / script.words.split()[0]).is_file()
        assert script.words.split()[0] == script.full.split()[0]
        for figure in script.figures:
            assert re.compile(figure.pattern).groups == 1
            measured.add(row_of(page, script.area, figure.what)["what"])
    for row in page:
        limited = row["limit"] != "–" and row["what"] not in measured
        assert limited == any(row["what"].startswith(what) for what in beside), row["what"]


@pytest.mark.parametrize(
    ("figure", "limit", "at_least", "said"),
    [
        (2.5, "2.5 µs", False, "yes"),
        (5.1, "2.5 µs", False, "**no, by 104%**"),
        (7163.0, "5,000", True, "yes"),
        (4000.0, "5,000", True, "**no, by 20%**"),
        (3.0, "0.5 (2) ms", False, "**no, by 500%**"),
        (3.0, "–", False, "–"),
    ],
)
def test_a_figure_is_held_against_its_limit(figure: float, limit: str, at_least: bool, said: str) -> None:
    assert verdict(figure, limit, at_least=at_least) == said
