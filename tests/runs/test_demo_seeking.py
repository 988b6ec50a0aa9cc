"""The evidence-seeking episode of ``make demo``: record, handbook and film, all three on its page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from extras import needs
from wardround.log import LogReader
from wardround.records import Store

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "demo_seeking.py"
TOOLS = ["run_sql_query", "browser.search", "browser.open", "image.image_visualizer", "finish"]


@pytest.fixture(scope="module")
def played(film_hospital: Path, film_store: Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that the script made of the small hospital with films, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "seeking"
    made = ["--hospital", str(film_hospital), "--store", str(film_store.path)]
    words = [sys.executable, str(SCRIPT), str(folder), *made]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@needs("tantivy", "pydicom", "PIL")
def test_the_episode_reads_a_record_a_page_and_a_film(played: tuple[Path, str]) -> None:
    with LogReader(played[0] / "run" / "logs") as reader:
        (trajectory,) = reader.trajectories()
    records = [record for turn in trajectory.turns for record in turn.results]
    assert [record.call.name for record in records] == TOOLS
    row, _, page, film, _ = records
    assert "cxr_reports:" in row.result_text
    assert "corpus://handbook/" in page.result_text
    assert [len(record.pictures) for record in records] == [0, 0, 0, 1, 0]
    assert film.pictures[0].data.startswith(b"\x89PNG")
    outcome = trajectory.outcome
    assert outcome is not None
    assert outcome["finish"] == "finish"
    assert [one["answer"] for one in outcome["citations"]] == outcome["answer"]
    assert all(one["exists"] and one["read"] for one in outcome["citations"])


@needs("tantivy", "pydicom", "PIL")
def test_its_page_shows_the_picture_and_the_text_and_its_path_is_said_last(played: tuple[Path, str]) -> None:
    said = played[1].splitlines()[-1]
    page = Path(said.rpartition(": ")[2]).read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 1
    assert "corpus://handbook/" in page
    assert "FINDINGS:" in page


def test_without_its_extra_it_says_what_to_install_and_plays_nothing(tmp_path: Path) -> None:
    words = ["demo_seeking.py", str(tmp_path / "seeking")]
    hidden = (
        "import runpy, sys; sys.modules['tantivy'] = None; "
        f"sys.argv = {words!r}; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert "[demo]" in done.stdout
    assert not (tmp_path / "seeking").exists()
