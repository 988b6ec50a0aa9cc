"""One scripted policy through every door of the training world, each read by its own software, compared with the world.

python scripts/doors.py doors                          # 100 samples of a synthetic hospital; makes virtual environments
python scripts/doors.py doors --door openenv verifiers --samples 20
python scripts/doors.py doors --harbor-python python3.12 --store store --benchmark bench

Doors: trl (its GRPOTrainer's tool loop), openenv (its client), verifiers (its taskset openenv, whole episodes), harbor
(its task reader and verifier; Python 3.12 or newer), inspect (whole episodes of its own loop). Packages come through
pip as it is set up here. A door whose software cannot be had is named and left out; the exit status is 0 where all that
were read pay what the world pays.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from wardround.cli import main as wardround
from wardround.learning.adapters.scripted import played_directly, scripted_episodes
from wardround.learning.world import World, WorldSettings

CALLS = 3
READERS = Path(__file__).parent / "door_readers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """``packages`` go into a virtual environment of its own, of the versions of ``constraints``; none: this one.
    ``minor`` is the least Python 3."""

    packages: tuple[str, ...] = ()
    constraints: str | None = None
    module: str
    minor: int = 11


DOORS: Mapping[str, Door] = {
    "trl": Door(module="trl"),
    "openenv": Door(module="openenv", packages=("openenv==0.10.0",)),
    "verifiers": Door(
        module="verifiers", packages=("verifiers[openenv]==0.4.0",), constraints="constraints-verifiers.txt"
    ),
    "inspect": Door(module="inspect_ai", packages=(f"{READERS.parents[1]}[inspect]",)),
    "harbor": Door(module="harbor", packages=("harbor==0.24.0",), minor=12),
}


def main() -> int:
    """Play, read and compare."""
    given = _arguments()
    folder: Path = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    store, benchmark = (given.store, given.benchmark) if given.store else _hospital(folder)
    world = World.open(store, benchmark, WorldSettings(calls=CALLS))
    script = scripted_episodes(world, given.samples)
    rewards = played_directly(world, script)
    _written(folder / "script.json", [one.to_json() for one in script])
    print(f"{len(rewards)} samples, mean reward {sum(rewards.values()) / len(rewards):.3f}")
    with _serving(store, benchmark) as port:
        plan = {"script": str(folder / "script.json"), "url": f"http://127.0.0.1:{port}"}
        plan |= {
            "store": str(store),
            "benchmark": str(benchmark),
            "calls": CALLS,
            "bin": str(Path(sys.executable).parent),
        }
        _written(folder / "plan.json", plan)
        return max([_compare(folder, name, given.harbor_python, rewards) for name in given.door])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where environments, tasks and rewards are written")
    parser.add_argument("--door", nargs="+", choices=tuple(DOORS), default=tuple(DOORS), help="only these")
    parser.add_argument("--samples", type=int, default=100, help="of the training split (default: 100)")
    parser.add_argument("--store", type=Path, help="a store; without it, a hospital of 300 patients is made")
    parser.add_argument("--benchmark", type=Path, help="a benchmark of that store")
    parser.add_argument("--harbor-python", default=sys.executable, help="a Python of 3.12 or newer, for harbor")
    given = parser.parse_args()
    if (given.store is None) != (given.benchmark is None):
        parser.error("--store and --benchmark go together")
    return given


def _hospital(folder: Path) -> tuple[Path, Path]:
    """The hospital of ``make demo``, made once."""
    hospital, store, benchmark = folder / "hospital", folder / "store", folder / "bench"
    if not benchmark.exists():
        for words in (
            ["synth", str(hospital), "--patients", "300", "--seed", "7"],
            ["ingest", "mimiciv", str(hospital), "--store", str(store)],
            ["bench", "build", "agentehr", "--store", str(store), "--out", str(benchmark), "--per-task", "60"],
        ):
            if status := wardround(words):
                raise SystemExit(status)
    return store, benchmark


@contextmanager
def _serving(store: Path, benchmark: Path) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["train", "env", "--kind", "openenv", "--store", str(store), "--benchmark", str(benchmark)]
    words += ["--calls", str(CALLS), "--port", str(port)]
    server = subprocess.Popen([sys.executable, "-m", "wardround", *words], stdout=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server)
        yield port
    finally:
        server.terminate()
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        try:
            with urlopen(url):
                return
        except URLError:
            time.sleep(0.1)
    raise SystemExit("the server of the world ended before it answered")


def _compare(folder: Path, name: str, harbor_python: str, rewards: Mapping[str, float]) -> int:
    """Read one door; print its line. 1 where it pays otherwise."""
    door = DOORS[name]
    python = _python(folder / f"venv-{name}", door, harbor_python if door.minor > 11 else sys.executable)
    if isinstance(python, str):
        print(f"{name:10} not read: {python}")
        return 0
    out = folder / f"rewards-{name}.json"
    out.unlink(missing_ok=True)
    begun = time.monotonic()
    words = [str(python), str(READERS / f"read_{name}.py"), str(folder / "plan.json"), str(out)]
    with (folder / f"{name}.log").open("w") as log:
        done = subprocess.run(words, stdout=log, stderr=subprocess.STDOUT, env=_environment(), check=False)
    paid = json.loads(out.read_text()) if out.exists() else {}
    same = sum(paid.get(sample) == reward for sample, reward in rewards.items())
    mean = sum(paid.values()) / max(len(paid), 1)
    print(f"{name:10} {same} of {len(rewards)} equal, mean {mean:.3f}, {time.monotonic() - begun:.0f} s", flush=True)
    if done.returncode or same < len(rewards):
        print(f"{name:10} see {folder / f'{name}.log'}")
        return 1
    return 0


def _python(venv: Path, door: Door, interpreter: str) -> Path | str:
    """The interpreter to read a door with, or why there is none."""
    python = venv / "bin" / "python" if door.packages else Path(sys.executable)
    if _succeeds([str(python), "-c", f"import {door.module}"]):
        return python
    if not door.packages:
        return f"{door.module} is not installed: make test-train installs it"
    least = f"import sys; sys.exit(sys.version_info < (3, {door.minor}))"
    if not _succeeds([interpreter, "-c", least]):
        return f"{interpreter} is older than Python 3.{door.minor}: --harbor-python"
    if not _succeeds([interpreter, "-m", "venv", str(venv)]):
        return "no virtual environment can be made"
    words = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *door.packages]  # most is never imported
    words += ["--constraint", str(READERS.parents[1] / door.constraints)] if door.constraints else []
    installed = _succeeds(words)
    return python if installed else f"pip cannot install {' '.join(door.packages)}"


def _succeeds(words: Sequence[str]) -> bool:
    try:
        return subprocess.run(words, capture_output=True, check=False, env=_environment()).returncode == 0
    except OSError:
        return False


def _environment() -> dict[str, str]:
    """Ours, without what would put our packages before the reader's own, and with nothing fetched while it reads."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return kept | {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}


def _written(path: Path, body: object) -> None:
    path.write_text(json.dumps(body))


if __name__ == "__main__":
    sys.exit(main())
