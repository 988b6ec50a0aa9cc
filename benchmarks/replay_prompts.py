"""Do all agents still put the same prompts before a model, byte for byte? A recording of episodes, played again.

Run: python benchmarks/replay_prompts.py record FOLDER      with the code as it was
     python benchmarks/replay_prompts.py replay FOLDER      with the code as it is

``record`` makes an invented hospital, both benchmarks and a bank and plays the agents of both papers with the offline
policy; a small window and a small context make summaries and cuts happen. ``replay`` makes store and benchmarks of the
same hospital anew, compares their samples with the recorded ones, and runs the episodes again with the recorded replies
in the model's place: the first call whose prompt, tools or settings differ in a byte ends its episode and is printed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from wardround.agents import list_agents
from wardround.learning import evolve
from wardround.log import LogReader, Trajectory
from wardround.memory import Bank
from wardround.records import Store, ingest
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.synth import synthesize
from wardround.tasks.benchmarks import Benchmark, build_agentehr, build_ehrshot

PATIENTS, SEED, CONCURRENCY = 150, 9, 8
EHRSHOT_TASKS = ("guo_readmission", "guo_los", "lab_anemia", "new_hypertension")
SUFFIXED = ("react+rag", "retrosum+ether", "react+tool")
PAPERS = ("retrosum", "ehr-rag")
"""Whose agents are recorded; those of GSEM, ClinSeekAgent and TRACE need banks or benchmarks of their own."""
SMALL: Mapping[str, Any] = {
    "turns": 14,
    "context_tokens": 12_000,
    "result_tokens": 1_200,
    "reply_tokens": 800,
    "window": 3,
}
"""Settings under which an offline episode is summarised several times and its history does not fit."""
SHOWN = 5
"""Differing episodes that are printed in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where an episode left its recording."""

    run: str
    episode: str
    what: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("record", "replay"):
        action = actions.add_parser(name)
        action.add_argument("folder", type=Path)
        action.add_argument("--run", nargs="+", default=["agentehr", "ehrshot"], help="only these of the two")
    options = parser.parse_args()
    if options.action == "record":
        record(options.folder)
        return 0
    with tempfile.TemporaryDirectory(prefix="wardround-replay-") as place:
        return replay(options.folder, Path(place), options.run)


def record(folder: Path) -> None:
    """Make everything under ``folder``, which must not be there yet."""
    folder.mkdir(parents=True)
    synthesize(folder / "hospital", patients=PATIENTS, seed=SEED)
    build(folder / "hospital", folder)
    teach(folder)
    for name, settings in asked(folder).items():
        run = start(folder / "runs" / name, settings)
        execute(run, workers=1, concurrency=CONCURRENCY)
        tape = folder / "tapes" / name
        shutil.copytree(run.logs, tape)
        (folder / f"{name}.json").write_text(json.dumps(samples_of(folder / name), indent=1))
        print(f"{name}: {describe(tape)}")


def build(hospital: Path, folder: Path) -> None:
    """Make the store and both benchmarks of a hospital."""
    ingest("mimiciv", hospital, folder / "store")
    store = Store.open(folder / "store")
    build_agentehr(store, folder / "agentehr", seed=SEED, per_task=20)
    build_ehrshot(store, folder / "ehrshot", seed=SEED, per_task=20, tasks=EHRSHOT_TASKS, allow_missing=True)


def teach(folder: Path) -> None:
    """Fill a bank from training episodes of the offline policy, by rules."""
    settings = asked(folder)["agentehr"].changed(agents=("retrosum",), split="train", limit=6, bank=None)
    run = start(folder / "training", settings)
    execute(run, workers=1, concurrency=CONCURRENCY)
    with Bank.open(folder / "bank.sqlite") as bank:
        evolve(run, bank, rules=True)


def asked(folder: Path) -> dict[str, RunSettings]:
    """Return both runs: agents that read with tools on AgentEHR's tasks, and those with evidence too on EHRSHOT's."""
    methods = [method for method in list_agents() if method.paper in PAPERS]
    reading = tuple(method.name for method in methods if not method.evidence)
    every = tuple(method.name for method in methods)
    place = {"store": str(folder / "store"), "bank": str(folder / "bank.sqlite"), "seed": SEED, **SMALL}
    return {
        "agentehr": RunSettings.of(benchmark=str(folder / "agentehr"), agents=reading, limit=2, **place),
        "ehrshot": RunSettings.of(benchmark=str(folder / "ehrshot"), agents=(*every, *SUFFIXED), limit=2, **place),
    }


def samples_of(benchmark: Path) -> dict[str, Any]:
    """Return what a benchmark asks, by sample: who, when and what, with its target."""
    return {
        sample.id: json.loads(json.dumps(asdict(sample), default=str))
        for sample in Benchmark.open(benchmark).all_samples
    }


def replay(recording: Path, place: Path, names: list[str]) -> int:
    """Play the recording again under ``place``; return 1 where a sample or a prompt differs."""
    build(recording / "hospital", place)
    shutil.copyfile(recording / "bank.sqlite", place / "bank.sqlite")
    wrong = 0
    for name in names:
        wrong += compare_samples(name, json.loads((recording / f"{name}.json").read_text()), samples_of(place / name))
        tape = recording / "tapes" / name
        settings = asked(place)[name].changed(models=(f"replay:{tape}",), **recorded_choice(tape))
        run = start(place / "runs" / name, settings)
        execute(run, workers=1, concurrency=CONCURRENCY)
        differences = list(compare(name, tape, run))
        wrong += len(differences)
        print(f"{name}: {describe(tape)}; {len(differences)} differ")
        for agent, count in Counter(one.episode.partition("|")[0] for one in differences).most_common():
            print(f"   {agent}: {count}")
        for one in islice(differences, SHOWN):
            print(f"   {one.episode}\n      {one.what}")
    return 1 if wrong else 0


def recorded_choice(tape: Path) -> dict[str, Any]:
    """Return agents and samples of a recording, so that an agent or a sample that came later is not asked for."""
    with LogReader(tape) as reader:
        keys = [entry.key.split("|") for entry in reader.episodes()]
    return {
        "agents": tuple(dict.fromkeys(key[0] for key in keys)),
        "samples": tuple(dict.fromkeys(key[3] for key in keys)),
        "tasks": tuple(dict.fromkeys(key[2] for key in keys)),
    }


def compare_samples(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> int:
    """Print which samples are not what they were; return how many."""
    gone = sorted(before.keys() - now.keys())
    new = sorted(now.keys() - before.keys())
    changed = [
        one for one in sorted(before.keys() & now.keys()) if any(now[one].get(k) != v for k, v in before[one].items())
    ]
    print(f"{name}: {len(before)} samples; {len(gone)} gone, {len(new)} new, {len(changed)} changed")
    for one in changed[:SHOWN]:
        parts = [f"{k}: {v!r} -> {now[one].get(k)!r}" for k, v in before[one].items() if now[one].get(k) != v]
        print(f"   {one}: {'; '.join(parts)[:400]}")
    return len(gone) + len(new) + len(changed)


def compare(name: str, tape: Path, run: RunFolder) -> Iterator[Difference]:
    """Yield every recorded episode that did not ask what it had asked, or did not come to the same end."""
    with LogReader(tape) as recorded, LogReader(run.logs) as played:
        there = {"|".join((k.split("|")[0], *k.rsplit("|", 3)[1:])): k for k in (e.key for e in played.episodes())}
        for before in recorded.trajectories():
            agent, _, task, sample, epoch = before.episode.split("|")
            key = there.get("|".join((agent, task, sample, epoch)))
            what = "it was not played" if key is None else difference(before, played.trajectory(key))
            if what:
                yield Difference(run=name, episode=before.episode, what=what)


def difference(before: Trajectory, now: Trajectory) -> str:
    """Say in what two episodes differ, empty where every call and the outcome are the same."""
    for old, new in zip(before.turns, now.turns, strict=False):
        if old.prompt != new.prompt or list(old.tools) != list(new.tools) or old.settings != new.settings:
            return f"call {old.ordinal} differs"
    outcome, was = now.outcome or {}, before.outcome or {}
    if outcome.get("finish") == "error":
        return str(outcome.get("error"))
    told = ("answer", "finish", "turns", "model_calls")
    if len(before.turns) != len(now.turns) or any(outcome.get(name) != was.get(name) for name in told):
        return "the same prompts and another end: " + "; ".join(f"{n} {was.get(n)} -> {outcome.get(n)}" for n in told)
    return ""


def describe(tape: Path) -> str:
    """Count episodes, calls and summaries of a tape."""
    with LogReader(tape) as reader:
        all_of = list(reader.trajectories())
    purposes = Counter(turn.purpose for one in all_of for turn in one.turns)
    counted = ", ".join(f"{count:,} {purpose}" for purpose, count in purposes.most_common())
    return f"{len(all_of)} episodes of {len({one.episode.split('|')[0] for one in all_of})} agents, calls: {counted}"


if __name__ == "__main__":
    sys.exit(main())
