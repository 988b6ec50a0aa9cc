"""Every agent against a real small model on a synthetic hospital: how each episode ends, and what it scores.

    python scripts/model_sweep.py sweep                      # every agent, three tasks, one sample each (make long)
    python scripts/model_sweep.py sweep --tasks 1 --agents react ehr-rag
    python scripts/model_sweep.py sweep --base-url http://127.0.0.1:8000/v1 --model openai/qwen3-4b

Agents with tools play AgentEHR's tasks; those that answer from evidence, which need a question with labels, EHRSHOT's;
those that predict the next steps of a stay play the first steps of three stays, every role by the model.
Agents that read experiences have a bank that the offline policy filled. Without --base-url the model of the extra
[local] is served on this machine. A bad answer is no fault; an episode that ends as an error is (status 1).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wardround.agents import Method, list_agents
from wardround.memory.peer import PEERS
from wardround.models.local import LOCAL_MODELS, serving

NAMES = ("transfers", "diagnoses", "labevents")
CLASSES = ("guo_los", "guo_readmission", "lab_anemia")
STAYS = ("next_bundle",)
WITH_TOOLS, ALONE, STEPPING = 3600, 1800, 2400
"""Context tokens: the tools alone take 2,400; an agent that answers from evidence has none."""
LONGER = 4
"""So many times longer are replies to steps: a thought, a type and five actions, bound to a schema."""
LITTLE = """# What fits a model of 135 million parameters: short replies, few turns.
[model]
tool_calls = "auto"
temperature = 0.0
[budget]
turns = {turns}
steps = {turns}
context_tokens = {context_tokens}
reply_tokens = {reply_tokens}
result_tokens = 200
episode_seconds = {episode_seconds}
"""
ROLES = """[agent.trace]
protocol = "{protocol}"
router = "model"
auditor = "model"
keeper = "model"
prompt_tokens = 1700
state_tokens = 300
rules_tokens = 200
buffer_tokens = 300
"""


def main() -> int:
    """Make what is needed, play, print. Status 1 where an episode ended as an error or a command failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where all is written; runs that lie there go on")
    parser.add_argument("--agents", nargs="+", help="only these (default: all that are registered)")
    parser.add_argument("--tasks", type=int, default=3, choices=(1, 2, 3), help="tasks of each agent")
    parser.add_argument("--limit", type=int, default=1, help="samples of each task (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="threads of the model's server (default: every core)")
    parser.add_argument("--turns", type=int, default=2, help="turns of an episode (default: %(default)s)")
    parser.add_argument("--reply-tokens", type=int, default=64, help="longest reply (default: %(default)s)")
    parser.add_argument("--episode-seconds", type=int, default=240, help="longest episode (default: %(default)s)")
    parser.add_argument("--base-url", help="another endpoint than the model of this machine")
    parser.add_argument("--model", default="openai/smollm2", help="the model's name there (default: %(default)s)")
    given = parser.parse_args()
    place: Path = given.folder
    made_ready(place)
    chosen = [method for method in list_agents() if given.agents is None or method.name in given.agents]
    settings = place / "little.toml"
    rows: list[dict[str, Any]] = []
    with endpoint(given.base_url, given.threads) as url:
        for method in chosen:  # a run each: one that is refused stops no other
            half, tasks, room = half_of(method)
            roles = ROLES.format(protocol=place / "rules.toml") if tasks is STAYS else ""
            reply = given.reply_tokens * (LONGER if tasks is STAYS else 1)
            little = LITTLE.format(**{**vars(given), "context_tokens": room, "reply_tokens": reply})
            settings.write_text(little + roles, encoding="utf-8")
            limit = given.tasks * given.limit if tasks is STAYS else given.limit
            words = ["--model", given.model, "--base-url", url, "--limit", str(limit)]
            rows += played(place, half, method.name, tasks[: given.tasks], words)
    print_rows(rows)
    (place / "sweep.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return int(any(row["ended"] in ("error", "refused") for row in rows))


def half_of(method: Method) -> tuple[str, Sequence[str], int]:
    """The folder of the benchmark that a method plays, its tasks there, and the context it is given."""
    if method.paper == "trace":
        return "stays", STAYS, STEPPING
    return ("classes", CLASSES, ALONE) if method.evidence else ("names", NAMES, WITH_TOOLS)


def made_ready(place: Path) -> None:
    """Make hospital, store, the benchmarks, a protocol and a bank, once."""
    if (place / "bank.sqlite").exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    hospital, store, names, classes, bank, teaching, stays, rules = (
        str(place / name)
        for name in ("hospital", "store", "names", "classes", "bank.sqlite", "teaching", "stays", "rules.toml")
    )
    training = ["--benchmark", names, "--store", store, "--agent", "retrosum", "--limit", "4", "--workers", "1"]
    for words in (
        ["synth", hospital, "--patients", "80", "--seed", "7"],
        ["ingest", "mimiciv", hospital, "--store", store],
        ["bench", "build", "agentehr", "--store", store, "--out", names, "--per-task", "12"],
        ["bench", "build", "ehrshot", "--store", store, "--out", classes, "--per-task", "12", "--task", *CLASSES],
        ["bench", "build", "trace", "--store", store, "--out", stays, "--per-task", "12"],
        ["protocol", "induce", rules, "--benchmark", stays, "--store", store],
        ["memory", "evolve", *training, "--bank", bank, "--rules", "--out", teaching],
        ["memory", "build", bank, teaching, "--rules"],
        *(["memory", "build", bank, teaching, "--rules", "--peer", peer] for peer in PEERS.names),
    ):
        if wardround(words):
            print(f"wardround {' '.join(words)} failed; agents that need it are refused", file=sys.stderr)


@contextmanager
def endpoint(url: str | None, threads: int | None) -> Iterator[str]:
    """The address that is given, or that of the small model, served as long as this lasts."""
    if url is not None:
        yield url
        return
    with serving(LOCAL_MODELS["smollm2"], threads=threads) as served:
        yield served


def played(place: Path, half: str, agent: str, tasks: Sequence[str], words: Sequence[str]) -> list[dict[str, Any]]:
    """Play one agent's episodes, or go on with them, and return a row each."""
    run = place / f"run-{agent}"
    begun = (run / "manifest.json").is_file()
    what = ["--benchmark", str(place / half), "--store", str(place / "store"), "--bank", str(place / "bank.sqlite")]
    new = [str(place / "little.toml"), *what, "--task", *tasks, "--agent", agent, *words, "--out", str(run)]
    how = ["--resume", str(run)] if begun else new
    if wardround(["run", *how, "--workers", "1", "--concurrency", "1"]):
        return [{"agent": agent, "task": task, "ended": "refused"} for task in tasks]
    wardround(["report", str(run), "--no-episodes"])
    lines = (run / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return [row_of(json.loads(line)) for line in lines]


def row_of(result: dict[str, Any]) -> dict[str, Any]:
    """What is told of one episode."""
    use = result["use"]
    return {
        "agent": result["agent"],
        "task": result["task"],
        "ended": result["finish"],
        "answered": result["answer"] is not None,
        "score": result["score"],
        "calls": use["model_calls"],
        "tokens": use["usage"],
        "seconds": round(use["model_seconds"], 1),
    }


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Print a line an episode."""
    for row in rows:
        print(" | ".join(f"{name} {value}" for name, value in row.items()))


def wardround(words: Sequence[str]) -> int:
    """Run one command as a person would."""
    return subprocess.run([sys.executable, "-m", "wardround", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
