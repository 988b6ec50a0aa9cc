"""A run whose endpoint answers every episode with another kind of nonsense: how each ends, and the memory it takes.

    python benchmarks/hostile_endpoint.py

The kinds are those of ``tests/hostile_replies.py``; the first request of an episode gets its kind, again and again,
and what goes on from there is finished. Every episode must end with a name, no file may hold the key, and the run's
own process must stay under 300 MB. The server is another process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, get_args

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

from fake_server import Answer, FakeServer, tools  # noqa: E402
from hostile_replies import KEY, Kinds  # noqa: E402
from wardround.agents.loop.episode import Finish  # noqa: E402
from wardround.cli import main as wardround  # noqa: E402
from wardround.log import LogReader  # noqa: E402
from wardround.models import Endpoint, RetryPolicy  # noqa: E402
from wardround.models.endpoint import Breaker  # noqa: E402
from wardround.runs import RunSettings, execute, score_run, start, worker  # noqa: E402
from wardround.synth import synthesize  # noqa: E402
from wardround.tasks.benchmarks import Benchmark  # noqa: E402

MOST_MEGABYTES = 300
IMPATIENT = RetryPolicy(attempts=2, base_seconds=0.001, cap_seconds=0.01, attempt_seconds=30.0)


class Hostile:
    """Gives every episode a kind of its own, in the order in which they come."""

    def __init__(self) -> None:
        kinds = Kinds()
        self._kinds = [kinds[name] for name in kinds]
        self._given: dict[str, int] = {}

    def __call__(self, body: Any) -> Answer:
        if any(message["role"] == "tool" for message in body["messages"]):
            return tools(("finish", '{"response": ["Gout"]}'))
        name = json.dumps([body["messages"][:2], body.get("seed")])
        return self._kinds[self._given.setdefault(name, len(self._given)) % len(self._kinds)]


class ImpatientEndpoint(Endpoint):
    """The run's endpoint without long waits: it is the replies that are tried, not the patience."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **{**options, "policy": IMPATIENT})
        self.breaker = Breaker(threshold=10**9)


def serve() -> None:
    """Serve until the other side goes away."""
    with FakeServer(Hostile()) as server:
        print(server.url, flush=True)
        sys.stdin.read()


def play(place: Path, url: str) -> int:
    """Play, score, report and look at what came of it."""
    wanted = len(list(Kinds()))
    samples = len(Benchmark.open(place / "bench").samples(split="test"))
    os.environ["HOSTILE_KEY"] = KEY
    settings = RunSettings.of(
        benchmark=str(place / "bench"),
        store=str(place / "store"),
        epochs=-(-wanted // samples),
        models=("openai/test-model",),
        base_url=url,
        api_key_variable="HOSTILE_KEY",
        episode_seconds=120.0,
    )
    setattr(worker, "Endpoint", ImpatientEndpoint)  # noqa: B010
    folder = start(place / "run", settings)
    counts = execute(folder, concurrency=8)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with LogReader(folder.logs) as reader:
        ends = Counter(str((entry.outcome or {}).get("finish")) for entry in reader.episodes())
    score_run(folder)
    assert wardround(["report", str(folder.path)]) == 0
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    with_key = [path.name for path in files if KEY.encode() in path.read_bytes()]
    print(f"{wanted} kinds of reply, {counts.done} of {counts.total} episodes ended: {dict(ends)}")
    print(f"most memory {megabytes:.0f} MB; files of the run that hold the key: {len(with_key)}")
    named = set(ends) <= set(get_args(Finish))
    good = counts.done == counts.total and named and megabytes < MOST_MEGABYTES and not with_key
    return 0 if good else 1


def main() -> int:
    """Prepare a small hospital, start the server, play."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--play", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    if options.play:
        return play(Path(options.play[0]), options.play[1])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        synthesize(place / "hospital", patients=60, seed=3)
        assert wardround(["ingest", "mimiciv", str(place / "hospital"), "--store", str(place / "store")]) == 0
        words = ["bench", "build", "agentehr", "--store", str(place / "store"), "--out", str(place / "bench")]
        assert wardround([*words, "--per-task", "6"]) == 0
        words = [sys.executable, __file__]
        server = subprocess.Popen([*words, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        status = subprocess.call([*words, "--play", folder, url])  # of its own, so that memory is that of a run
        server.communicate()
    return status


if __name__ == "__main__":
    sys.exit(main())
