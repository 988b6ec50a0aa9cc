"""docs/journeys.md says which files to open to follow a row, a sample and a reply: what runs is what it says."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest

from agents.doubles import TASK, PaperChart
from fake_server import MODEL, FakeServer, tools
from records.small_source import moment, small_store
from wardround.agents import Limits, get_agent, run_episode
from wardround.log import EpisodeLog
from wardround.models import DataUseGuard, ModelConfig, ModelSettings, open_model

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "wardround"
BARS = {"A row": 12, "A sample": 10, "A reply": 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """Files of the way, in order, and files and folders beside it, relative to the package."""

    way: tuple[str, ...]
    beside: tuple[str, ...]


def journeys() -> dict[str, Journey]:
    parts = re.split(r"^## ", (ROOT / "docs" / "journeys.md").read_text(), flags=re.MULTILINE)[1:]
    found = {}
    for part in parts:
        title, _, text = part.partition(",")
        steps, _, rest = text.partition("Beside the way")
        way = re.findall(r"^\d+\. `([^`]+)`", steps, re.MULTILINE)
        found[title] = Journey(way=tuple(way), beside=tuple(re.findall(r"`([\w/]+(?:\.py|/))`", rest)))
    return found


def ran(act: Callable[[], object], rooms: tuple[str, ...]) -> set[str]:
    """The files of some rooms in which a function ran."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    files = {Path(name).relative_to(SOURCE).as_posix() for name in seen if name.startswith(f"{SOURCE}/")}
    return {name for name in files if name.startswith(rooms) and not name.endswith("__init__.py")}


def unsaid(files: set[str], journey: Journey) -> set[str]:
    """Files that ran and are neither on the page nor in a folder that is."""
    return {name for name in files - set(journey.way) if not name.startswith(journey.beside)}


@pytest.mark.parametrize("title", BARS)
def test_a_journey_is_short_and_its_files_are_there(title: str) -> None:
    journey = journeys()[title]
    assert 0 < len(set(journey.way)) == len(journey.way) <= BARS[title]
    assert [name for name in (*journey.way, *journey.beside) if not (SOURCE / name).exists()] == []


def test_a_row_goes_the_way_that_is_written_down(tmp_path: Path) -> None:
    def follow() -> None:
        chart = small_store(tmp_path).chart(1, moment("2150-01-03 12:00:00"))
        assert sum(chart.table(name).num_rows for name in chart.table_names)

    journey, files = journeys()["A row"], ran(follow, ("records/",))
    assert set(journey.way) - files == set(), "on the page and not on the way"
    assert unsaid(files, journey) == set(), "on the way and not on the page"


def test_a_reply_goes_the_way_that_is_written_down(tmp_path: Path) -> None:
    async def follow() -> None:
        with FakeServer([tools(("finish", {"response": ["x"]}))]) as server, EpisodeLog(tmp_path / "log.sqlite") as log:
            model = open_model(
                ModelConfig(name=f"openai/{MODEL}", base_url=server.url, guard=DataUseGuard(sensitivity="synthetic"))
            )
            recorder = log.begin("e1", {})
            outcome = await run_episode(
                get_agent("react"),
                model=model,
                environment=PaperChart(),
                prompt=TASK,
                limits=Limits(),
                settings=ModelSettings(),
                recorder=recorder,
                episode="e1",
            )
            recorder.finish(outcome.to_json())
            await model.close()
        assert outcome.answer == ("x",)

    journey = journeys()["A reply"]
    files = ran(lambda: asyncio.run(follow()), ("models/", "agents/loop/", "log/"))
    assert set(journey.way) - files == set(), "on the page and not on the way"
    assert unsaid(files, journey) == set(), "on the way and not on the page"
