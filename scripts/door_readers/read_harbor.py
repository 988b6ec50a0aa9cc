"""Answers the tasks that ``train env --kind harbor`` wrote and has them verified by Harbor's own reader and verifier.

python read_harbor.py plan.json rewards.json

Harbor starts a container for every task; here its environment is this machine, with the paths of the task put in the
place of the container's.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from harbor.models.task.config import TaskOS
from harbor.models.task.task import Task
from harbor.models.trial.paths import TrialPaths
from harbor.verifier.verifier import Verifier


class ThisMachine:
    """What the verifier asks of an environment; its folders are those of the task and the trial."""

    os = TaskOS.LINUX
    capabilities = SimpleNamespace(mounted=True)

    def __init__(self, task: Task, trial: TrialPaths, answer: Path, scripts: str) -> None:
        self.places = {"/tests": str(task.paths.tests_dir), "/logs/verifier": str(trial.verifier_dir)}
        self.set = {"WARDROUND_ANSWER": str(answer), "VERIFIER_LOGS": str(trial.verifier_dir)}
        self.set["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"

    async def upload_dir(self, source_dir: Path, target_dir: str) -> None:
        """It is there."""

    async def exec(self, command: str, env: dict | None = None, user: str | None = None) -> None:
        for inside, here in self.places.items():
            command = command.replace(inside, here)
        subprocess.run(["sh", "-c", command], env=os.environ | (env or {}) | self.set, check=True)


async def main(plan: dict, out: Path) -> None:
    folder, rewards = out.parent / "harbor", {}
    os.environ |= {"WARDROUND_STORE": plan["store"], "WARDROUND_BENCHMARK": plan["benchmark"]}
    if not folder.exists():
        where = ["--store", plan["store"], "--benchmark", plan["benchmark"]]
        words = ["train", "env", "--kind", "harbor", *where, "--calls", str(plan["calls"]), "--out", str(folder)]
        subprocess.run([f"{plan['bin']}/wardround", *words], check=True)
    for episode in json.loads(Path(plan["script"]).read_text()):
        rewards[episode["sample"]] = await verify(folder, episode, plan["bin"])
    out.write_text(json.dumps(rewards))


async def verify(folder: Path, episode: dict, scripts: str) -> float:
    task = Task(folder / episode["sample"])
    trial = TrialPaths(folder.parent / "harbor-trials" / episode["sample"])
    trial.mkdir()
    answer = trial.trial_dir / "answer.json"
    answer.unlink(missing_ok=True)
    if episode["answer"] is not None:
        answer.write_text(json.dumps(episode["answer"]))
    verified = await Verifier(task, trial, ThisMachine(task, trial, answer, scripts)).verify()
    return float(verified.rewards["reward"])


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])))
