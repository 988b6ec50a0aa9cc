"""``make demo-model``: a few episodes with a real small model served on this machine, and their scores. No network.

python scripts/demo_model.py demo-model
python scripts/demo_model.py demo-model --agent direct react --task transfers --limit 2
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from wardround.models.local import LOCAL_MODELS, serving

SETTINGS = Path(__file__).with_name("small_model.toml")


def main() -> int:
    """Make a hospital, serve the model, play, report. Returns the exit status of the first step that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where all is written; what lies there is removed")
    parser.add_argument("--agent", nargs="+", default=["react"])
    parser.add_argument("--task", nargs="+", default=["transfers", "diagnoses"])
    parser.add_argument("--limit", type=int, default=1, help="samples of each task (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="threads of the model's server (default: every core)")
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    hospital, store, bench, run = (str(given.folder / name) for name in ("hospital", "store", "bench", "run"))
    made = [
        ["synth", hospital, "--patients", "60", "--seed", "7"],
        ["ingest", "mimiciv", hospital, "--store", store],
        ["bench", "build", "agentehr", "--store", store, "--out", bench, "--per-task", "12"],
    ]
    for words in made:
        if status := wardround(words):
            return status
    model = LOCAL_MODELS["smollm2"]
    with serving(model, threads=given.threads) as url:
        what = ["--benchmark", bench, "--store", store, "--out", run, "--task", *given.task]
        who = ["--agent", *given.agent, "--model", f"openai/{model.name}", "--base-url", url]
        how = ["--limit", str(given.limit), "--workers", "1", "--concurrency", "1"]
        status = wardround(["run", str(SETTINGS), *what, *who, *how])
    return status or wardround(["report", run])


def wardround(words: list[str]) -> int:
    """Run one command as a person would."""
    return subprocess.run([sys.executable, "-m", "wardround", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
