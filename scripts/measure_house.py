"""How far a reader has to go: the files and functions that run in ten journeys, and the size of the source.

Run: python scripts/measure_house.py [--json]

The journeys run on a synthetic hospital made for it (a minute). A function counts once for each journey in which it
runs; comprehensions and lambdas count with the function around them. The rest is read from the source: files, lines,
private functions used once. ``tests/core/test_house_style.py`` holds that nothing is imported past a room's face.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType

import numpy as np

from wardround.agents import Limits, Prompt, get_agent, run_episode
from wardround.agents.stays.batch import batch_steps
from wardround.agents.stays.player import CodedRoles
from wardround.agents.stays.settings import TraceSettings
from wardround.clinical.bundles import store_bundles
from wardround.clinical.protocols import GlobalProtocol, ProtocolRule, RuleIndex
from wardround.core import Message, ToolCall, Usage
from wardround.log import EpisodeLog, ToolRecord
from wardround.memory import Bank, Experience, Findings, Key, Provenance, Subject
from wardround.memory.graph_recall import GraphCase, GraphRecallSettings, recall_by_graph
from wardround.memory.recall import RecallQuestion
from wardround.models import ModelSettings, Reply, Request
from wardround.records import Store, ingest
from wardround.runs import RunFolder, RunSettings, execute, score_run, start
from wardround.synth import synthesize
from wardround.tasks.benchmarks import build_agentehr
from wardround.tools import Environment, default_toolset

SOURCE = Path(__file__).parents[1] / "src" / "wardround"
NESTED = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>", "<module>"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """The files and functions of the package that ran."""

    files: frozenset[str]
    functions: frozenset[tuple[str, str]]

    def counts(self) -> dict[str, int]:
        """Return both numbers."""
        return {"files": len(self.files), "functions": len(self.functions)}


class TwoTurns:
    """A model that reads one table and finishes."""

    name = identity = "two-turns"

    async def complete(self, request: Request) -> Reply:
        """Answer the first request with a reading call, the second with ``finish``."""
        name, arguments = (
            ("get_latest_records", {"table_name": "labevents"})
            if request.ordinal == 0
            else ("finish", {"response": ["Potassium"]})
        )
        call = ToolCall(id=f"call_{request.ordinal}", name=name, arguments=json.dumps(arguments))
        message = Message(role="assistant", content="", tool_calls=(call,))
        return Reply(message=message, usage=Usage(), finish_reason="tool_calls", model=self.name)

    async def check(self) -> None:
        """Nothing to reach."""

    async def close(self) -> None:
        """Nothing to release."""


class Unrecorded:
    """A recorder that keeps nothing."""

    def turn(self, request: Request, reply: Reply, results: Sequence[ToolRecord] = (), *, purpose: str = "act") -> None:
        """Keep no turn."""

    def note(self, kind: str, detail: Mapping[str, object]) -> None:
        """Keep no note."""


def traced(act: Callable[[], object]) -> Journey:
    """Run something and return what of the package ran, in this process."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name not in NESTED and code.co_filename.startswith(str(SOURCE)):
            seen.add((code.co_filename, code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return Journey(files=frozenset(name for name, _ in seen), functions=frozenset(seen))


def journeys(folder: Path) -> Iterator[tuple[str, Journey]]:
    """Make a small hospital in a folder and yield each journey with its name."""
    synthesize(folder / "hospital", patients=12, seed=5)
    made: list[Store] = []

    def row() -> None:
        ingest("mimiciv", folder / "hospital", folder / "store")
        store = Store.open(folder / "store")
        made.append(store)
        chart = store.chart(min(store.subjects), datetime(2999, 1, 1))
        assert sum(chart.table(name).num_rows for name in chart.table_names)

    yield "a row, from its file to a chart", traced(row)
    store = made[0]
    benchmark = build_agentehr(store, folder / "bench", per_task=2)
    sample = next(iter(benchmark.samples()))
    environment = Environment(store.chart(sample.subject_id, sample.prediction_time), default_toolset())

    def call() -> None:
        environment.call("get_latest_records", {"table_name": "labevents"})

    yield "the first tool call on a chart", traced(call)
    yield "a tool call", traced(call)

    prompt = Prompt(user=benchmark.prompt(sample))

    def loop() -> None:
        outcome = asyncio.run(
            run_episode(
                get_agent("react"),
                model=TwoTurns(),
                environment=environment,
                prompt=prompt,
                limits=Limits(),
                settings=ModelSettings(),
                recorder=Unrecorded(),
                episode="unrecorded",
            )
        )
        assert outcome.answer == ("Potassium",)

    loop()
    yield "an episode of two turns", traced(loop)

    def episode(name: str = "e2") -> None:
        chart = store.chart(sample.subject_id, sample.prediction_time)
        with EpisodeLog(folder / "log.sqlite") as log:
            recorder = log.begin(name, {})
            outcome = asyncio.run(
                run_episode(
                    get_agent("react"),
                    model=TwoTurns(),
                    environment=Environment(chart, default_toolset()),
                    prompt=prompt,
                    limits=Limits(),
                    settings=ModelSettings(),
                    recorder=recorder,
                    episode=name,
                )
            )
            recorder.finish(outcome.to_json())
        assert outcome.answer == ("Potassium",)

    episode("e1")
    yield "the same with its environment and log", traced(episode)

    def settings() -> None:
        played.append(
            RunSettings.of(
                benchmark=str(folder / "bench"),
                store=str(folder / "store"),
                agents=("react",),
                models=("offline",),
                tasks=(sample.task,),
                limit=1,
            )
        )

    played: list[RunSettings] = []
    yield "a setting, from a name to its section", traced(settings)
    run: list[RunFolder] = [start(folder / "run", played[0])]
    yield "a run of one sample, with its queue and worker", traced(lambda: execute(run[0], concurrency=1))
    yield "a score, from the log", traced(lambda: score_run(run[0]))
    stream = next(iter(store_bundles(store)))
    rule = ProtocolRule(id="R1", category="ANY", trigger="Potassium > 5", actions=("order Potassium",))
    index = RuleIndex(GlobalProtocol(name="one", rules=(rule,)))
    roles = CodedRoles(index=index, settings=TraceSettings())
    yield "a stay, from its bundles to its steps", traced(lambda: list(batch_steps(stream, roles)))
    yield "a recall, from a bank", traced(recall_of(folder / "bank.sqlite"))


def recall_of(path: Path) -> Callable[[], object]:
    """Make a bank of two experiences and return a recall from it."""
    vectors = np.eye(2, 8, dtype=np.float32)
    with Bank.open(path) as bank:
        for number, vector in enumerate(vectors):
            key = Key(encoder="measured", vector=vector)
            bank.add([experience(bank, number)], key=key)
    reader = Bank.open(path, writable=False)
    case = GraphCase(reader, Subject(source="mimiciv", subject_id=10**9), Findings(age=70), GraphRecallSettings())
    question = RecallQuestion(text="potassium", key=Key(encoder="measured", vector=vectors[0]))
    return lambda: recall_by_graph(case, question)


def experience(bank: Bank, number: int) -> Experience:
    """Return one experience of one training patient."""
    subject = bank.subject_hash(Subject(source="mimiciv", subject_id=number))
    return Experience(
        kind="indication",
        title=f"Example {number}",
        description="",
        content="Look at the last potassium.",
        condition="potassium above 5",
        task="labevents",
        task_type="test",
        provenance=Provenance(sample=f"sample-{number}", subject=subject, split="train"),
    )


def private_functions(trees: Mapping[Path, ast.Module]) -> tuple[int, int, int]:
    """Count private functions, those named once besides their definition, and the one-statement ones of these."""
    total = once = short = 0
    for tree in trees.values():
        named = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        named.update(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("_"):
                continue
            if node.name.startswith("__"):
                continue
            total += 1
            if named[node.name] == 1:
                once += 1
                body = node.body[1:] if ast.get_docstring(node) else node.body
                short += len(body) == 1
    return total, once, short


def function_lengths(trees: Mapping[Path, ast.Module]) -> list[int]:
    """Return the lines of each function."""
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def source_figures() -> dict[str, float]:
    """Read the figures of the source."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    private, once, short = private_functions(trees)
    lengths = function_lengths(trees)
    return {
        "packages": len({path.relative_to(SOURCE).parts[0] for path in texts if path.parent != SOURCE}),
        "source files": len(texts),
        "source lines": sum(text.count("\n") for text in texts.values()),
        "functions": len(lengths),
        "mean lines of a function": round(sum(lengths) / len(lengths), 1),
        "private functions": private,
        "private functions used once": once,
        "of these with one statement": short,
    }


def main() -> int:
    """Measure and print a table, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        walked = {title: journey.counts() for title, journey in journeys(Path(name))}
    figures = source_figures()
    if arguments.json:
        print(json.dumps({"journeys": walked, "source": figures}, indent=1))
        return 0
    print("| journey | files | functions |\n|---|---|---|")
    for title, counts in walked.items():
        print(f"| {title} | {counts['files']} | {counts['functions']} |")
    print("\n| source | |\n|---|---|")
    for title, figure in figures.items():
        print(f"| {title} | {figure:,} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
