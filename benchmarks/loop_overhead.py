"""What the agent loop costs without its model: CPU per turn by turn number, and many episodes at once.

Run: python benchmarks/loop_overhead.py [--episodes 40] [--concurrent 256] [--turns 20] [--processes 2] [--methods-only]

A turn here is everything but the model and the work inside the tool: rendering under the budget, the requests (a
method may make several: samples, choices, reviews, summaries), the dispatch of one tool call on a worker thread, the
log in SQLite. The bars are those of section 13 of the design.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from wardround.agents import AgentSpec, Limits, Memory, Prompt, get_agent, list_agents, run_episode
from wardround.log import EpisodeLog
from wardround.memory import REFLECTED_KINDS, Bank, Experience, Provenance, Subject, chart_key
from wardround.models import ModelSettings, Reply, Request, ScriptedModel, call, say
from wardround.records import Chart, Store, ingest
from wardround.synth import synthesize
from wardround.tasks.answers import OneClass, Question
from wardround.tools import Environment, ToolResult, default_toolset
from wardround.tools.retrieval import LexicalEncoder

MODEL_SECONDS = 0.1
PROMPT = Prompt(user="Name the diagnoses. " * 40)
QUERIES = ("kidney failure", "sepsis and shock", "blood transfusion", "heart failure", "surgery of the abdomen")
ASKED = Prompt(
    user="Will the patient be readmitted within 30 days? " * 10,
    question=Question(
        name="guo_readmission",
        title="Readmission",
        category="Operational outcomes",
        description="Will the patient be readmitted within 30 days?",
        factual_query="events and conditions that lead to readmission",
        counterfactual_query="events and conditions that go with no readmission",
        prediction_time=datetime(2190, 1, 1),
        answer=OneClass(classes=(("0", "not readmitted"), ("1", "readmitted"))),
    ),
)
LINE = "labevents:{n} | 2150-01-01 08:00:00 | Creatinine | 1.2 | mg/dL | abnormal | 0.4 | 1.1 | Blood | Chemistry"


class PaperChart:
    """The surface of an environment over results that are there already; the schemas are the real ones."""

    text_case = None

    def __init__(self, lines: int, chart: Chart | None = None) -> None:
        self.chart = chart
        self.called: list[float] = []
        text = "\n".join(LINE.format(n=n) for n in range(lines))
        self._result = ToolResult(text=text, table="labevents", rows_total=1204, rows_shown=lines, cursor="c1")
        self.toolset = default_toolset()

    def _call(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        if name == "finish":
            return ToolResult(text="done", answer=tuple(json.loads(str(arguments))["response"]))
        return self._result

    async def call_async(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        self.called.append(time.process_time())
        return await asyncio.to_thread(self._call, name, arguments)

    def accept_any_answer(self) -> None:
        """It never refused one."""

    def check_evidence(self, answers: Sequence[str], evidence: Mapping[str, Iterable[str]]) -> tuple[()]:
        return ()


class TimedModel(ScriptedModel):
    """Notes the CPU clock when it is asked and when it has answered."""

    def __init__(self, turns: int, *, seconds: float = 0.0) -> None:
        self.asked: list[float] = []
        self.answered: list[float] = []
        super().__init__(self._line, seconds=seconds)
        self._turns = turns

    def _line(self, request: Request) -> Reply:
        if request.ordinal + 1 < self._turns:
            return call("get_records_by_time", table_name=f"table_{request.ordinal}")
        return call("finish", response=["Septicemia"])

    async def complete(self, request: Request) -> Reply:
        self.asked.append(time.process_time())
        reply = await super().complete(request)
        self.requests.clear()
        self.answered.append(time.process_time())
        return reply


class TirelessModel(TimedModel):
    """Reads another table at every call, as long as it may; answers whatever a method asks beside that."""

    def _line(self, request: Request) -> Reply:
        asked = request.messages[-1].content or ""
        if asked.startswith("Your task now: choose."):
            return say("Choice: 2")
        if not request.tools:
            return say("<summary>" + "- creatinine: 1.2 mg/dL at 2150-01-01 08:00:00\n" * 30 + "</summary>")
        if len(request.tools) == 1:
            return call("finish", response=["Septicemia"])
        return call("get_records_by_time", table_name=f"table_{request.ordinal}")


async def play(
    log: EpisodeLog,
    name: str,
    model: TimedModel,
    *,
    lines: int,
    limits: Limits,
    agent: AgentSpec | None = None,
    environment: PaperChart | Environment | None = None,
) -> None:
    recorder = log.begin(name, {})
    outcome = await run_episode(
        agent or get_agent("react"),
        model=model,
        environment=environment or PaperChart(lines),
        prompt=ASKED if agent is not None and agent.searches else PROMPT,
        limits=limits,
        settings=ModelSettings(),
        recorder=recorder,
        episode=name,
    )
    recorder.finish(outcome.to_json())


def by_turn(folder: Path, *, episodes: int, lines: int, context_tokens: int) -> list[float]:
    """Return median CPU milliseconds from one reply to the next request, by turn."""
    gaps: list[list[float]] = []
    with EpisodeLog(folder / f"turns-{context_tokens}-{lines}.sqlite") as log:
        for number in range(episodes):
            model = TimedModel(100)
            limits = Limits(turns=100, context_tokens=context_tokens, reply_tokens=1024)
            asyncio.run(play(log, f"e{number}", model, lines=lines, limits=limits))
            gaps.append([(a - b) * 1e3 for a, b in zip(model.asked[1:], model.answered, strict=False)])
    return [statistics.mean(turn) for turn in zip(*gaps, strict=True)]


def by_method(log: EpisodeLog, agent: AgentSpec, chart: Chart, *, episodes: int, context_tokens: int) -> list[float]:
    """Return mean CPU milliseconds from one tool call to the next, by turn, less what the model itself took."""
    gaps: list[list[float]] = []
    for number in range(episodes):
        model, environment = TirelessModel(0), PaperChart(40, chart)
        limits = Limits(turns=100, context_tokens=context_tokens, reply_tokens=1024)
        name = f"{agent.name}-{context_tokens}-{number}"
        asyncio.run(play(log, name, model, lines=40, limits=limits, agent=agent, environment=environment))
        own = [0.0] * len(environment.called)
        for asked, answered in zip(model.asked, model.answered, strict=True):
            own[bisect(environment.called, asked) - 1] += answered - asked
        ends = zip(environment.called[:99], environment.called[1:100], own, strict=False)
        gaps.append([(after - before - spent) * 1e3 for before, after, spent in ends])
    return [statistics.mean(turn) for turn in zip(*gaps, strict=True)]


def learnt(folder: Path) -> tuple[Memory, Chart]:
    """Return a memory with a lesson of every kind, and the chart of another patient of a small synthetic hospital."""
    synthesize(folder / "raw", patients=12, seed=1, compress=False)
    ingest("mimiciv", folder / "raw", folder / "store")
    store, encoder = Store.open(folder / "store"), LexicalEncoder()
    teacher, pupil = (store.chart(int(number), datetime(2190, 1, 1)) for number in store.subjects[:2])
    bank = Bank.open(folder / "bank.sqlite")  # open for as long as its memory is read
    subject = bank.subject_hash(Subject.of_chart(teacher))
    origin = Provenance(sample="s", subject=subject, split="train")
    lesson = partial(Experience, title="Look twice", description="Always.", task="t", provenance=origin)
    made = [lesson(kind=kind, content="Look again. " * 20) for kind in REFLECTED_KINDS if kind != "tool"]
    made += [lesson(kind="tool", tool=tool.name, content="Use it well. " * 20) for tool in default_toolset().tools]
    bank.add(made, key=chart_key(encoder, teacher))
    return Memory(bank=bank.at(revision=bank.revision), encoder=encoder), pupil


def every_method(folder: Path, *, episodes: int) -> None:
    """Print CPU per turn of every method, at the paper's budget and at the smallest."""
    memory, chart = learnt(folder)
    started = time.process_time()
    for _ in range(20):
        chart_key(memory.encoder, chart)
    print(f"\nretrieval key of a chart: {(time.process_time() - started) / 20 * 1e3:.1f} ms CPU, once per episode")
    print("\nCPU ms per turn without the model, 4,200-character results, window 10; bar 1.0, flat")
    print(f"{'method':<28} {'budget':>7} {'1-10':>7} {'45-55':>7} {'90-99':>7} {'all':>7} {'max':>7}")
    with EpisodeLog(folder / "methods.sqlite") as log:
        for method in list_agents("retrosum"):
            agent = get_agent(method.name, memory=memory)
            for context_tokens in (64_000, 8_000):
                turns = by_method(log, agent, chart, episodes=episodes, context_tokens=context_tokens)
                parts = [statistics.mean(part) for part in (turns[:10], turns[44:55], turns[89:], turns)]
                figures = " ".join(f"{part:>7.3f}" for part in (*parts, max(turns)))
                print(f"{method.name:<28} {context_tokens:>7} {figures}")


class SearchingModel(TimedModel):
    """Answers whatever a retrieval method asks, with a new query every time."""

    def _line(self, request: Request) -> Reply:
        asked = request.messages[-1].content or ""
        if asked.startswith("Your task now: rerank."):
            return say('["Hemoglobin", "Creatinine", "Sodium", "Potassium", "Lactate", "Glucose", "Bilirubin, Total"]')
        if asked.startswith("Your task now: refine."):
            return say(QUERIES[request.ordinal % len(QUERIES)])
        if asked.startswith("Your task now: search."):
            return say(f"Thought: what of it?\nQuery: {QUERIES[request.ordinal % len(QUERIES)]}")
        if asked.startswith("Your task now: argue."):
            return say("A finding that speaks for it. " * 60)
        return call("finish", response=["1"]) if request.tools else say("Reasoning: so.\nAnswer: 1")


def every_retrieval_method(folder: Path, *, episodes: int) -> None:
    """Print CPU per episode and per model call of the methods that answer from evidence, index and log included."""
    store = Store.open(folder / "store")
    charts = [store.chart(int(number), datetime(2190, 1, 1)) for number in store.subjects]
    chart = max(charts, key=lambda one: len(one.event_columns()))
    print(
        f"\nCPU ms without the model, a chart of {len(chart.event_columns()):,} events, lexical encoder without a cache"
    )
    print(f"{'method':<20} {'budget':>7} {'calls':>6} {'episode':>8} {'a call':>7} {'again':>8} {'a call':>7}")
    names = [method.name for method in list_agents("ehr-rag")] + ["retrosum+ether"]
    with EpisodeLog(folder / "retrieval.sqlite") as log:
        for name in names:
            for context_tokens in (64_000, 8_000):
                first, again, calls = by_retrieval(log, name, chart, episodes=episodes, context_tokens=context_tokens)
                figures = f"{first:>8.1f} {first / calls:>7.2f} {again:>8.1f} {again / calls:>7.2f}"
                print(f"{name:<20} {context_tokens:>7} {calls:>6} {figures}")


def by_retrieval(
    log: EpisodeLog, name: str, chart: Chart, *, episodes: int, context_tokens: int
) -> tuple[float, float, int]:
    """Return mean CPU milliseconds of an episode on a fresh index and on one that is there, and its model calls."""
    limits = Limits(context_tokens=context_tokens, reply_tokens=1024)
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(episodes):
        environment = Environment(chart)
        for place, spent in enumerate(took):
            model, key = SearchingModel(0), f"{name}-{context_tokens}-{number}-{place}"
            started = time.process_time()
            asyncio.run(play(log, key, model, lines=0, limits=limits, agent=get_agent(name), environment=environment))
            own = sum(answered - asked for asked, answered in zip(model.asked, model.answered, strict=True))
            spent.append((time.process_time() - started - own) * 1e3)
        environment.close()
    return statistics.mean(took[0]), statistics.mean(took[1]), len(model.asked)


def at_once(folder: str, concurrent: int, turns: int, start_at: float) -> tuple[float, float]:
    """Return (wall, CPU) seconds of many episodes on one event loop, from an agreed moment on."""

    async def run() -> tuple[float, float]:
        with EpisodeLog(Path(folder) / f"at-once-{os.getpid()}.sqlite") as log:
            models = [TimedModel(turns, seconds=MODEL_SECONDS) for _ in range(concurrent)]
            await asyncio.sleep(max(0.0, start_at - time.time()))
            started, cpu = time.perf_counter(), time.process_time()
            limits = Limits(turns=turns)
            await asyncio.gather(
                *(play(log, f"e{n}", model, lines=20, limits=limits) for n, model in enumerate(models))
            )
            return time.perf_counter() - started, time.process_time() - cpu

    return asyncio.run(run())


def on_processes(folder: str, *, processes: int, concurrent: int, turns: int) -> None:
    """Print the slowest process's wall against the ideal."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        start_at = time.time() + 3.0
        share = concurrent // processes
        runs = [pool.submit(at_once, folder, share, turns, start_at) for _ in range(processes)]
        walls, cpus = zip(*(run.result() for run in runs), strict=True)
    ideal = turns * MODEL_SECONDS
    print(
        f"{processes} process(es): wall {max(walls):.2f} s, ideal {ideal:.2f} s, ratio {max(walls) / ideal:.2f}; "
        f"CPU {sum(cpus) / (share * processes * turns) * 1e3:.3f} ms per turn; load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--concurrent", type=int, default=256)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--methods-only", action="store_true")
    options = parser.parse_args()
    print(f"{platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        every_method(folder, episodes=max(1, options.episodes // 4))
        every_retrieval_method(folder, episodes=max(1, options.episodes // 8))
        if options.methods_only:
            return
        print("\nCPU ms per turn without the model (mean over episodes); bar 1.0, flat")
        print(f"{'budget':>8} {'result':>14} {'turns 1-10':>11} {'45-55':>8} {'90-99':>8} {'all':>8}")
        for context_tokens, lines in ((64_000, 2), (64_000, 40), (8_000, 40)):
            turns = by_turn(folder, episodes=options.episodes, lines=lines, context_tokens=context_tokens)
            size = f"{len(PaperChart(lines)._result.text):,} chars"
            parts = [statistics.mean(part) for part in (turns[:10], turns[44:55], turns[89:], turns)]
            print(f"{context_tokens:>8} {size:>14} " + " ".join(f"{part:>8.3f}" for part in parts))
        print(f"\n{options.concurrent} episodes x {options.turns} turns at once against a 100 ms model; bar 1.5")
        for processes in sorted({1, options.processes}):
            on_processes(name, processes=processes, concurrent=options.concurrent, turns=options.turns)


if __name__ == "__main__":
    main()
