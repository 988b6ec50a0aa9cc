"""Peers' writers over real HTTP: what is asked of a served model, how often, and how a building that failed goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extras import needs
from fake_server import Answer, FakeServer, error, text, tools
from wardround.learning import ConstructionSettings, build_peer, stages
from wardround.log import LogReader
from wardround.memory import Bank, contamination_check
from wardround.memory.peer import PEERS
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.runs.settings import EpisodeKey
from wardround.tasks.benchmarks import Benchmark

CASES = 3
WRITERS = {
    "naive-rag": {},
    "graphrag": {"graphrag_extract": CASES, "graphrag_report": 1},
    "mem0-graph": {"mem0_graph_extract": CASES, "mem0_graph_conflicts": CASES - 1},
    "a-mem": {"a_mem_note": CASES, "a_mem_evolve": CASES - 1},
    "reme": {"reme_distil": CASES, "reme_validate": CASES},
    "flex": {"flex_distil": CASES, "flex_update": CASES - 1},
}
"""The calls of each purpose that three cases take."""


class Librarian:
    """Plays, and answers what the writers ask; from some question on it fails, if told to."""

    def __init__(self) -> None:
        self.fails_after = 10**6
        self.asked = 0
        self.drawn = 0

    def __call__(self, body: Any) -> Answer:
        if "tools" in body:
            acted = any(message["role"] == "tool" for message in body["messages"])
            return tools(("finish", '{"response": ["Gout"]}')) if acted else tools(("get_table_names", "{}"))
        if self.asked >= self.fails_after:
            return error(400)
        self.asked += 1
        return text(json.dumps(self._value(body["messages"][-1]["content"])))

    def _value(self, said: str) -> Any:
        self.drawn += 1
        number = f"sample number {self.drawn}"
        lesson = {"source": "failure", "title": "Look", "when_to_use": "labs are asked", "content": f"read {number}"}
        triplet = {"source": "labs", "relation": number, "target": "gout", "fact": f"labs of {number}"}
        answers = {
            "note in a memory that later cases search": {"context": number, "keywords": ["labs"], "tags": ["gout"]},
            "A new note comes": {"links": [1], "evolved": [{"note": 1, "context": number, "tags": ["labs"]}]},
            "write down the graph": {
                "entities": ["labs", "gout"],
                "relations": [{"source": "labs", "target": "gout", "relation": "show", "strength": 5}],
            },
            "Several clinical cases share": {"title": "Labs", "report": "Labs show gout."},
            "relations between entities, at most eight": [triplet],
            "Which of the older relations": [],
            "Several attempts were made": [lesson],
            "Judge each lesson": [0.9],
            "distil what belongs": [{"zone": "golden", "level": "pattern", "title": "Labs", "content": number}],
            "A new item comes": {"action": "add"},
        }
        return next(value for opening, value in answers.items() if opening in said)


@pytest.fixture(scope="module")
def served(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunFolder, Librarian]]:
    librarian = Librarian()
    with FakeServer(librarian) as server:
        settings = RunSettings.of(
            benchmark=str(synthetic_benchmark_path),
            store=str(synthetic_store_path),
            tasks=("labevents",),
            split="train",
            limit=CASES,
            agents=("vanilla",),
            models=("openai/test-model",),
            base_url=server.url,
        )
        folder = start(tmp_path_factory.mktemp("served") / "run", settings)
        execute(folder)
        yield folder, librarian


def calls(folder: RunFolder) -> Counter[str]:
    return Counter({stage.purpose: stage.calls for stage in stages(folder)})


@pytest.mark.parametrize("name", WRITERS)
def test_a_building_that_fails_on_the_way_goes_on_without_asking_twice(
    name: str, served: tuple[RunFolder, Librarian], tmp_path: Path, synthetic_benchmark_path: Path
) -> None:
    folder, librarian = served
    before, wanted, failed = calls(folder), Counter(WRITERS[name]), []
    for more in (1, 2, 10**6):
        librarian.fails_after = librarian.asked + more
        with Bank.open(tmp_path / "bank.sqlite") as bank:
            found = build_peer(folder, bank, name, ConstructionSettings(), concurrency=1)
            failed.append(bool(found.failed))
    assert failed == [bool(wanted), bool(wanted), False]
    assert calls(folder) - before == wanted
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        notes = bank.experiences()
        assert {one.tool for one in notes} == {name}
        with LogReader(folder.logs) as reader:
            played = {EpisodeKey.parse(entry.key).sample for entry in reader.episodes()}
        assert {hand.sample for one in notes for hand in bank.hands(one.id)} == played
        assert contamination_check(bank, Benchmark.open(synthetic_benchmark_path).all_samples, source="mimiciv").clean
        edges = [edge for one in notes for edge in bank.graph().edges(one.id)]
    assert bool(edges) == (name == "a-mem")


@needs("mem0")
def test_mem0s_own_prompts_go_over_our_client_and_are_counted(
    served: tuple[RunFolder, Librarian], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, librarian = served

    def told(said: str) -> Any:
        fact = f"labs of {len(said)} letters show gout"
        added = {"memory": [{"id": "0", "text": fact, "event": "ADD"}]}
        return {"facts": [fact]} if said.startswith("Input") else added

    monkeypatch.setattr(librarian, "_value", told)
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        found = build_peer(folder, bank, "mem0", ConstructionSettings(), concurrency=1)
        assert not found.failed
        assert {one.kind for one in bank.experiences()} == {"note"}
    assert {name: calls(folder)[name] for name in ("mem0_extract", "mem0_update")} == {
        "mem0_extract": CASES,
        "mem0_update": CASES,
    }


def test_every_writer_that_asks_is_in_the_table() -> None:
    by_package = {"langmem"}  # asks in a Python of its own: tests/memory/test_package_peers.py
    asking = {name for name in PEERS.names if PEERS.get(name).prompts}
    assert asking - by_package == {name for name in WRITERS if WRITERS[name]}
