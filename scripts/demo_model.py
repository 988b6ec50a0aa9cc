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
from wardround.reports import OpenedRun

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
    if status := status or wardround(["report", run]):
        return status
    print(screen(OpenedRun.open(run)))
    return 0


_LIMITS = {
    "finish": "it answered",
    "text": "it answered in words",
    "turn_limit": "the limit of {turns} turns was met",
    "time_limit": "the limit of {seconds:g} seconds was met",
    "length": "the limit of {tokens} tokens of a reply was met",
    "budget": "its window of {window:,} tokens was full",
}


def screen(run: OpenedRun) -> str:
    """Return how each episode ended: which limit was met, if any, and where the report is."""
    budget = run.settings.budget
    limits = {
        "turns": budget.turns,
        "seconds": budget.episode_seconds,
        "tokens": budget.reply_tokens,
        "window": budget.context_tokens,
    }
    lines = ["", "=" * 78]
    for score in run.scored():
        seconds = score.use.model_seconds + score.use.tool_seconds
        ended = _LIMITS.get(score.finish, score.finish).format(**limits)
        lines.append(
            f"{score.agent} on {score.task}: {score.use.turns} turns, {seconds:.0f} s; {ended}; F1 {score.value:.3f}"
        )
    lines += [
        "A model of 135 million parameters: it tests prompts and parsers, its scores say nothing about a method.",
        f"report  {run.path}/report/index.html",
        f"try     wardround run {SETTINGS} ... with --model and --base-url of your own endpoint (docs/real-model.md)",
        "=" * 78,
    ]
    return "\n".join(lines)


def wardround(words: list[str]) -> int:
    """Run one command as a person would."""
    return subprocess.run([sys.executable, "-m", "wardround", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
