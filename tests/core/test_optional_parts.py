"""What one may leave out: with the folders of all of them removed, the rest is whole, and says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import wardround
from effort import often

ROOT = Path(__file__).parents[2]
IMPORT_ALL = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
for file in sorted(root.rglob("*.py")):
    name = ".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
    if not name.endswith("__main__"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("wardround"):
                print(name, error.name)
"""


def parts() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(one["protected_modules"] for one in contracts if "leave out" in one["name"])


def test_all_but_their_commands_works_without_the_parts_that_one_may_leave_out(
    tmp_path: Path, synthetic_hospital: Path
) -> None:
    package = tmp_path / "wardround"
    shutil.copytree(Path(wardround.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for part in parts():
        shutil.rmtree(tmp_path / part.replace(".", "/"))
    env = os.environ | {"PYTHONPATH": str(tmp_path)}

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    def said(*words: str) -> tuple[int, str]:
        done = python("-m", "wardround", *words)
        return done.returncode, done.stdout + done.stderr

    missing = {line.split()[0] for line in python("-c", IMPORT_ALL, str(package)).stdout.splitlines()}
    assert missing == {"wardround.cli.reproduce", "wardround.cli.synth"}
    flow = (
        ("ingest", "mimiciv", str(synthetic_hospital), "--store", "store"),
        ("bench", "build", "agentehr", "--store", "store", "--out", "bench", "--per-task", "2"),
        ("run", "--benchmark", "bench", "--store", "store", "--agent", "react", "--model", "offline", "--out", "run"),
        ("report", "run"),
    )
    for words in often(flow[:1], flow):
        status, text = said(*words)
        assert status == 0, text
    status, text = said("synth", "hospital")
    assert (status, text.count("\n")) == (2, 1)
    assert "wardround.synth" in text
    status, text = said("memory", "fill", "bank", "--peer", "mem0")
    assert status == 2
    assert "Traceback" not in text
