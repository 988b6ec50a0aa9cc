"""A Ray cluster of two nodes on this machine: the same bytes as in processes, also when a worker or a node is killed.

Starting the nodes and their workers costs half a minute: `make test-ray`, and `make long`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from extras import Later, needs
from fake_server import FakeServer
from forking import wait_for
from one_turn_speaker import Speaker, without_times
from wardround.core import UserError
from wardround.core.executors import RayCluster
from wardround.log import LogReader
from wardround.records import IngestSettings, Store, ingest
from wardround.runs import RunFolder, RunSettings, WorkQueue, execute, start
from wardround.synth import synthesize
from wardround.tasks.benchmarks.agentehr import build_agentehr

pytestmark = [
    needs("ray"),
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells by /proc which workers live"),
    pytest.mark.filterwarnings("default"),  # Ray's own
]
cluster_utils: Any = Later("ray.cluster_utils")
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
CONCURRENCY = 2
WORKERS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """The head, which is one of the two nodes; tests add the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = cluster_utils.Cluster(initialize_head=True, head_node_args=NODE)
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
        made.shutdown()


@pytest.fixture
def second_node(cluster: Any) -> Iterator[Any]:
    node = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    yield node
    if node in cluster.worker_nodes:
        cluster.remove_node(node, allow_graceful=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_store_and_a_benchmark_are_the_same_bytes(second_node: Any, tmp_path: Path) -> None:
    synthesize(tmp_path / "hospital", patients=40, seed=3, decoys=False)
    for name, workers, executor in (("here", 1, "processes"), ("there", WORKERS, "ray")):
        settings = IngestSettings(shards=3, workers=workers, executor=executor)
        ingest("mimiciv", tmp_path / "hospital", tmp_path / f"store-{name}", settings=settings)
        store = Store.open(tmp_path / f"store-{name}")
        build_agentehr(store, tmp_path / f"bench-{name}", per_task=6, workers=workers, executor=executor)
    for what in ("store", "bench"):
        assert contents(tmp_path / f"{what}-there") == contents(tmp_path / f"{what}-here")


def played(folder: RunFolder) -> dict[str, object]:
    """What was asked and answered in every episode."""
    with LogReader(folder.logs) as reader:
        return {
            one.episode: (one.outcome and one.outcome["answer"], [(turn.prompt, turn.reply) for turn in one.turns])
            for one in reader.trajectories()
        }


def living(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def workers_of(folder: RunFolder) -> list[int]:
    """The processes of a run's workers by the names of their logs, in the order in which they began."""
    return [int(path.name.split(".")[0].split("-")[1]) for path in sorted(folder.logs.glob("*.sqlite"))]


def settings_of(server: FakeServer, benchmark: Path, store: Path) -> RunSettings:
    return RunSettings.of(
        benchmark=str(benchmark),
        store=str(store),
        models=("openai/test-model",),
        base_url=server.url,
        limit=2,
        epochs=2,
        executor="ray",
    )


def kill_a_worker(folder: RunFolder, cluster: Any, node: Any) -> None:
    os.kill(workers_of(folder)[0], signal.SIGKILL)


def kill_the_node(folder: RunFolder, cluster: Any, node: Any) -> None:
    cluster.remove_node(node, allow_graceful=False)


@pytest.mark.parametrize("killing", [None, kill_a_worker, kill_the_node])
def test_a_run_is_the_same_whoever_is_killed(
    cluster: Any,
    second_node: Any,
    synthetic_benchmark_path: Path,
    synthetic_store_path: Path,
    tmp_path: Path,
    killing: Callable[..., None] | None,
) -> None:
    speaker = Speaker()
    with FakeServer(speaker) as server:
        settings = settings_of(server, synthetic_benchmark_path, synthetic_store_path)
        undisturbed, disturbed = (start(tmp_path / name, settings) for name in ("undisturbed", "disturbed"))
        counts = execute(undisturbed, concurrency=CONCURRENCY, executor="processes")
        needed = speaker.calls
        speaker.calls, speaker.last = 0, needed // 3 if killing else sys.maxsize

        def kill_then_speak() -> None:
            try:
                wait_for(lambda: speaker.held == WORKERS * CONCURRENCY, os.getpid())  # both are at work, and wait
                killing(disturbed, cluster, second_node)  # type: ignore[misc]
                wait_for(lambda: sum(map(living, workers_of(disturbed)[:WORKERS])) == 1, os.getpid())
            finally:
                speaker.released.set()

        killer = threading.Thread(target=kill_then_speak if killing else speaker.released.set)
        killer.start()
        assert execute(disturbed, workers=WORKERS, concurrency=CONCURRENCY) == counts
        killer.join()
    assert counts.done == counts.total > 0
    assert without_times(disturbed) == without_times(undisturbed)
    assert played(disturbed) == played(undisturbed)
    lost = CONCURRENCY if killing else 0
    assert needed + lost <= speaker.calls <= needed + 2 * lost, (
        "asked twice: what was not answered, and at most the one reply an episode that had not reached the file yet"
    )
    queue = WorkQueue(disturbed.queue)
    assert queue.spans_machines, "no WAL where several machines write"
    queue.close()
    assert not list(disturbed.logs.glob("*-wal"))


def test_without_a_cluster_it_is_said_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**settings: object) -> None:
        raise ConnectionError(settings["address"])

    monkeypatch.setattr(import_module("ray"), "init", refuse)
    with pytest.raises(UserError, match="ray start --head"):
        RayCluster(1)
