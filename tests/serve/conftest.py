"""Small runs to look at, shared by the tests of the viewer."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium

from fake_server import Answer, FakeServer, error, text, tools
from wardround.cli import main
from wardround.core import Message, Picture, ToolCall, Usage
from wardround.log import LOG_SUFFIX, EpisodeLog, LogReader, ToolRecord
from wardround.models import Reply, Request
from wardround.records import load_source_spec
from wardround.runs import RunFolder, RunSettings, start
from wardround.stream import FollowSettings, coded_responder, follow

ATTACK = '"><script>document.title="taken"</script><img src=x onerror=alert(1)>'


@pytest.fixture(scope="session")
def attack() -> str:
    """What a model of one of the runs says."""
    return ATTACK


@pytest.fixture(scope="session")
def viewed_run_path(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Two agents on two samples of two tasks; its folder's name needs escaping."""
    folder = tmp_path_factory.mktemp("viewer") / "a <run> & more"
    new = ["run", "--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    new += ["--out", str(folder), "--task", "labevents", "diagnoses", "--limit", "2", "--workers", "1"]
    assert main([*new, "--agent", "react", "retrosum"]) == 0
    return folder


class _Attacking:
    """Attacks the first episode that asks, fails every other."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}

    def __call__(self, body: Any) -> Answer:
        question = body["messages"][1]["content"]
        self.asked.setdefault(question, 0)
        self.asked[question] += 1
        if len(self.asked) > 1 and question != next(iter(self.asked)):
            return error(400)
        if self.asked[question] == 1:
            return tools(("get_table_names", json.dumps({"table": ATTACK})), content=ATTACK)
        if self.asked[question] == 2:
            return text(ATTACK)
        return tools(("finish", json.dumps({"response": [ATTACK]})))


@pytest.fixture(scope="session")
def odd_runs(
    synthetic_store_path: Path,
    synthetic_benchmark_path: Path,
    synthetic_stays_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """A run whose model attacks or fails, one that was not begun, a stay played bundle by bundle, a stream with its
    bank: each as small as it can be."""
    place = tmp_path_factory.mktemp("odd-runs")
    there = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path), "--workers", "1"]
    with FakeServer(_Attacking()) as server:
        words = ["--task", "transfers", "--limit", "2", "--model", "openai/test-model", "--base-url", server.url]
        assert main(["run", *there, *words, "--out", str(place / "attacked")]) == 0
    store, benchmark = str(synthetic_store_path), str(synthetic_benchmark_path)
    start(place / "empty", RunSettings.of(store=store, benchmark=benchmark, tasks=("transfers",), limit=1))
    stay = ["--benchmark", str(synthetic_stays_path), "--store", store, "--workers", "1", "--agent", "trace"]
    assert main(["run", *stay, "--limit", "1", "--out", str(place / "stay")]) == 0
    learning = ["--agent", "gsem-walk", "--task", "labevents", "--limit", "3", "--bank", str(place / "bank.sqlite")]
    assert main(["memory", "evolve", *there, *learning, "--out", str(place / "stream")]) == 0
    return {name: RunFolder.open(place / name).path for name in ("attacked", "empty", "stay", "stream")}


@pytest.fixture(scope="session")
def filmed_run_path(viewed_run_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one more episode, whose agent was shown a film."""
    folder = RunFolder.open(Path(shutil.copytree(viewed_run_path, tmp_path_factory.mktemp("filmed") / "run")))
    with LogReader(folder.logs) as reader:
        entry = reader.episodes()[0]
    key = entry.key.rpartition("|")[0] + "|9"
    film = Picture.of(b64decode(_PIXEL), media_type="image/png", width=1024, height=1024, title="chest, AP")
    called = ToolCall(id="call_1", name="image_visualizer", arguments="{}")
    said = Message(role="assistant", content="", tool_calls=(called,))
    reply = Reply(message=said, usage=Usage(), finish_reason="tool_calls", model="m", identity="m")
    with EpisodeLog(folder.logs / f"film{LOG_SUFFIX}") as log:
        recorder = log.begin(key, {**entry.facts, "epoch": 9})
        asked = Request(messages=(Message(role="user", content="Look."),), episode=key, ordinal=0)
        recorder.turn(asked, reply, [ToolRecord(call=called, result_text="a film", pictures=(film,))])
        recorder.finish(dict(entry.outcome or {}))
    return folder.path


_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
_RULES = """
schema = 1
name = "ward"
[[rule]]
id = "SHOCK"
category = "SEPSIS"
trigger = "lactate > 4"
actions = ["start norepinephrine", "order lactate"]
[[rule]]
id = "KIDNEY"
category = "SAFETY"
trigger = "creatinine > 3"
actions = ["avoid norepinephrine"]
"""


def stream_line(row: int, subject: int, label: str, value: float, hour: int, more: str = "") -> str:
    """A laboratory result of an invented patient, known at once, as a line of a stream."""
    when = f"2150-01-0{1 + hour // 24} {hour % 24:02d}:10:00"
    unit = "mg/dL" if label == "Creatinine" else "mmol/L"
    cells = {"row_id": f"labevents:{row}", "subject_id": subject, "label": label, "valuenum": value, "valueuom": unit}
    return f'{{"table":"labevents","row":{json.dumps(cells)},"known":"{when}","time":"{when}"{more}}}\n'


STREAM_LINES = "".join(
    [
        stream_line(1, 7, "Lactate", 5.5, 0),
        stream_line(2, 8, "Lactate", 1.0, 0),
        stream_line(3, 9, "Creatinine", 4.0, 1),
        stream_line(4, 9, "Lactate", 6.0, 2),
        stream_line(5, 8, "Lactate", 1.1, 2),
        stream_line(1, 7, "Lactate", 2.5, 3, ',"revision":1'),
        *(stream_line(100 + hour, 8, "Sodium", 130 + hour, hour) for hour in range(4, 34)),
        stream_line(6, 7, "Lactate", 9.0, 34),
        '{"clock":"2150-01-02 11:00:00"}\n',
        stream_line(7, 8, "Lactate", 1.2, 35),
    ]
)
"""Of 7 the lactate is corrected downwards, and is high again at the end; 9 may not have what the rule asks for; 8 has
many bundles. What came in at hour 35 is of the hour that is open."""


@pytest.fixture(scope="session")
def live_rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rules of which one forbids what the other asks for."""
    path = tmp_path_factory.mktemp("rules") / "ward.toml"
    path.write_text(_RULES, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def live_stream_path(live_rules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream of three patients, its hour still open."""
    folder = tmp_path_factory.mktemp("live") / "a <ward> & more"
    (folder.parent / "lines").mkdir()
    (folder.parent / "lines" / "a.jsonl").write_text(STREAM_LINES, encoding="utf-8")
    settings = FollowSettings(once=True)
    responder = coded_responder(live_rules)
    follow(load_source_spec("mimiciv"), folder.parent / "lines", folder, settings=settings, responder=responder)
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    pytest.importorskip("websockets", reason="needs websockets")
    one = Chromium(tmp_path_factory.mktemp("chromium"))
    yield one
    one.close()
