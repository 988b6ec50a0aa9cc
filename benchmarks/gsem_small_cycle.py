"""One small cycle of GSEM with a real model on this machine: attempts, construction, reliability, a stream, the gate.

python benchmarks/gsem_small_cycle.py gsem-cycle [--threads 2]

At most 3 cases, 2 attempts at each, one rollout for each experience. The model (135 million parameters) is bad at it:
what is looked at is that every step ends, keeps its guards and prints its budget, not what it scores. No network.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from wardround.models.local import LOCAL_MODELS, serving

REPOSITORY = Path(__file__).resolve().parents[1]
SETTINGS = REPOSITORY / "scripts" / "small_model.toml"
LITTLE = ["budget.turns=2", "budget.context_tokens=3200", "budget.reply_tokens=128", "budget.result_tokens=200"]
LITTLE += ["memory.reflection_tokens=256"]  # it rambles to the end of whatever it is given
RULED_OUT = (0, 1)
"""Status of steps that say with 1 that something is not as it should be: a small model's reply that cannot be used."""


def main() -> int:
    """Play the cycle; the status of the first step that breaks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where all is written; what lies there is removed")
    parser.add_argument("--cases", type=int, default=3, help="training samples (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="threads of the model's server (default: every core)")
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    model = LOCAL_MODELS["smollm2"]
    with serving(model, threads=given.threads) as url:
        for step in steps(given.folder, given.cases, ["--model", f"openai/{model.name}", "--base-url", url]):
            started = time.monotonic()
            status = wardround(step)
            print(f"== {' '.join(step[:2])}: status {status}, {time.monotonic() - started:.0f} s", flush=True)
            if status not in RULED_OUT:
                return status
    return 0


def steps(folder: Path, cases: int, who: list[str]) -> list[list[str]]:
    """The commands of the cycle, in order."""
    hospital, store, bench, bank = (str(folder / name) for name in ("hospital", "store", "bench", "bank.sqlite"))
    there = ["--benchmark", bench, "--store", store, "--task", "transfers", "--workers", "1", "--concurrency", "1"]
    asked = [*there, *who, *(word for one in LITTLE for word in ("--set", one))]
    train = [str(SETTINGS), *asked, "--limit", str(cases)]
    dev = [str(SETTINGS), *asked, "--limit", "1", "--split", "dev"]
    training, stream, without, with_it = (str(folder / name) for name in ("training", "stream", "without", "with"))
    return [
        ["synth", hospital, "--patients", "60", "--seed", "7"],
        ["ingest", "mimiciv", hospital, "--store", store],
        ["bench", "build", "agentehr", "--store", store, "--out", bench, "--per-task", "12"],
        ["run", *train, "--split", "train", "--epochs", "2", "--agent", "react", "--out", training],
        ["memory", "build", bank, training],
        ["memory", "validate", bank, training, "--rollouts", "1", "--concurrency", "1"],
        ["memory", "evolve", *train, "--agent", "gsem", "--bank", bank, "--out", stream],
        ["run", *dev, "--agent", "react", "--out", without],
        ["run", *dev, "--agent", "gsem", "--bank", bank, "--set", "memory.gate=ignore", "--out", with_it],
        ["memory", "gate", bank, "--without", without, "--with", with_it],
        ["memory", "audit", bank],
        ["report", stream],
    ]


def wardround(words: list[str]) -> int:
    """Run one command as a person would."""
    return subprocess.run([sys.executable, "-m", "wardround", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
