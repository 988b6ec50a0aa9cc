"""How long a prepared card takes: calls of ``patient-view`` over HTTP on loopback, wall and CPU, and the preparing.

python benchmarks/cds_hooks_speed.py RUN [--calls 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import numpy as np
import uvicorn

from wardround.runs import RunFolder, open_store
from wardround.serve.cds import CardShelf, FeedbackFile, cds_app, prepare_cards

CALL = "d1577c69-dfbe-44ad-ba6d-3e05e953b2ea"
PORT = 8791


@contextmanager
def served(shelf: CardShelf, folder: RunFolder, said: Path) -> Iterator[str]:
    """Serve the cards on a thread of this process: its CPU time is the server's and the client's together."""
    app = cds_app(shelf, FeedbackFile(said, folder.path, shelf))
    server = uvicorn.Server(uvicorn.Config(app, port=PORT, log_level="warning"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{PORT}"
    finally:
        server.should_exit = True
        thread.join()


def main() -> None:
    """Print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("--agent", help="whose answers, where several agents played")
    parser.add_argument("--calls", type=int, default=2_000, help="how many calls")
    arguments = parser.parse_args()
    folder, started = RunFolder.open(arguments.run), time.process_time()
    shelf = CardShelf.of(folder.provenance, open_store(folder), prepare_cards(folder, agent=arguments.agent))
    count = len(shelf.names())
    print(f"{count:,} cards prepared, {1000 * (time.process_time() - started) / count:.1f} CPU-ms each")
    patients = [shelf.store.subject_key(subject) for subject in sorted(shelf.by_subject)]
    seconds = []
    with (
        TemporaryDirectory() as place,
        served(shelf, folder, Path(place) / "said.jsonl") as url,
        httpx2.Client() as client,
    ):
        started = time.process_time()
        for number in range(arguments.calls):
            context = {"userId": "Practitioner/1", "patientId": patients[number % len(patients)]}
            body = {"hook": "patient-view", "hookInstance": CALL, "context": context}
            asked = time.perf_counter()
            answer = client.post(f"{url}/cds-services/wardround-patient-view", json=body)
            seconds.append(time.perf_counter() - asked)
            assert answer.json()["cards"], context
        spent = time.process_time() - started
    half, most, worst = 1000 * np.quantile(seconds, [0.5, 0.95, 1.0])
    print(f"{arguments.calls:,} calls: wall p50 {half:.1f} ms, p95 {most:.1f} ms, worst {worst:.1f} ms")
    print(f"CPU {1000 * spent / arguments.calls:.2f} ms a call, server and client together")


if __name__ == "__main__":
    main()
