"""The pages of reports in headless Chromium, scripts off, at 1,400 and 390 pixels, light and dark, opened by keys.
CI looks at the report of a run and an episode; the other pages, and every colour, with WARDROUND_TEST_LONG=1."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from chromium import CLIPPED, CONTRAST, NARROW, PROGRAM, WIDE, Chromium

from effort import often
from wardround.cli import main
from wardround.reports.report import few_pages, no_pages, report_run
from wardround.runs import RunFolder

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")
REPORTS = often(("report", "episode"), ("report", "episode", "stay", "stream", "study", "predictors", "leak test"))
LEAKING = Path(__file__).parents[2] / "examples" / "leaking_features.py"
STUDY = """
baseline = "react"
[settings.run]
benchmark = "{benchmark}"
store = "{store}"
tasks = ["labevents"]
limit = 4
[runs.react.run]
agents = ["react", "retrosum"]
[runs.rag.run]
agents = ["rag"]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(params=REPORTS)
def page(request: pytest.FixtureRequest, place: Path) -> tuple[str, Path]:
    """The name of a page and its file."""
    name, out = request.param, place / request.param
    given = request.getfixturevalue
    if name in ("report", "episode"):
        report_run(RunFolder.open(given("viewed_run_path")), pages=no_pages if name == "report" else few_pages, out=out)
    elif name in ("stay", "stream"):
        report_run(RunFolder.open(given("odd_runs")[name]), out=out)
    elif name == "study":
        paths = {one: given(f"synthetic_{one}_path") for one in ("benchmark", "store")}
        (place / "study.toml").write_text(STUDY.format(**paths))
        assert main(["study", str(place / "study.toml"), "--out", str(out), "--workers", "1"]) == 0
    elif name == "predictors":
        store = ["--store", str(given("synthetic_store_path"))]
        built = ["--out", str(place / "ehrshot"), "--task", "guo_los", "--per-task", "60"]
        assert main(["bench", "build", "ehrshot", *store, *built]) == 0
        assert main(["train", "predictors", *store, "--benchmark", str(place / "ehrshot"), "--out", str(out)]) == 0
        assert main(["report", str(out)]) == 0
        out /= "report"
    else:
        assert name == "leak test"
        assert main(["synth", str(place / "hospital"), "--patients", "40", "--seed", "3"]) == 0
        command = f"{sys.executable} {LEAKING} {{raw}} {{out}} {{samples}}"
        words = ["--raw", str(place / "hospital"), "--draw", "icu+24h", "--run", command, "--bisect"]
        out.mkdir()
        made = ["--read", "rows:{out}/features.csv,key=stay_id", "--out", str(out / "index.html")]
        assert main(["audit", "pipeline", *words, *made]) == 1
    files = sorted(out.glob("episodes/*.html" if name in ("episode", "stay", "stream") else "index.html"))
    return name, files[0]


def test_a_page_fits_wide_and_narrow_light_and_dark(browser: Chromium, page: tuple[str, Path]) -> None:
    """No table is cut off, what is folded opens by keys alone, words have contrast, and nothing is fetched."""
    name, file = page
    for width in (WIDE, NARROW):
        browser.look(width=width)
        browser.open(file.as_uri())
        assert browser.value("document.querySelectorAll('h1').length") == 1
        assert browser.value("document.querySelectorAll('script').length") == 0
        for _ in range(400):
            if not browser.value("document.querySelectorAll('details:not([open])').length"):
                break
            browser.press("Tab")
            focus = "document.activeElement"
            if browser.value(f"{focus}.tagName === 'SUMMARY' && !{focus}.parentElement.open"):
                browser.press("Enter")
        assert browser.value("document.querySelectorAll('details:not([open])').length") == 0
        for dark in often((width == WIDE,), (False, True)):
            browser.keep(f"report {name}", width=width, dark=dark)
            assert browser.value("document.documentElement.scrollWidth") <= width
            assert browser.value(CONTRAST) == []
            if width == WIDE or name in ("report", "study", "leak test", "predictors"):
                assert browser.value(CLIPPED) == []
    browser.look()
