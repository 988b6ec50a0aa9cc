"""How long a prepared card takes: calls of ``patient-view`` over HTTP on loopback, wall and CPU, and the preparing.

python benchmarks/cds_hooks_speed.py RUN [--calls 2000] [--signed ES384]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import httpx2
import jwt
import numpy as np
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from wardround.models import DataUseGuard
from wardround.runs import RunFolder, open_store
from wardround.serve.cds import CardShelf, FeedbackFile, SignedCallers, TrustSettings, cds_app, prepare_cards

CALL = "d1577c69-dfbe-44ad-ba6d-3e05e953b2ea"
PORT = 8791
ISSUER = "https://ehr.example.org/"
PATH = "/cds-services/wardround-patient-view"


class Signer:
    """A client's key, and what the server is told of it."""

    def __init__(self, algorithm: str, place: Path) -> None:
        made: Any = (
            ec.generate_private_key(ec.SECP384R1())
            if algorithm == "ES384"
            else rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        )
        kind = ECAlgorithm if algorithm == "ES384" else RSAAlgorithm
        keys = place / "keys.json"
        keys.write_text(json.dumps({"keys": [kind.to_jwk(made.public_key(), as_dict=True) | {"kid": "1"}]}))
        settings = TrustSettings(clients={ISSUER: str(keys)})
        self.callers = SignedCallers.of(settings, DataUseGuard(), base_url=url_of(PORT), log=place / "log")
        self._sign = lambda told: jwt.encode(told, made, algorithm=algorithm, headers={"kid": "1"})

    def headers(self) -> dict[str, str]:
        """Those of one call."""
        now = int(time.time())
        told = {"iss": ISSUER, "aud": url_of(PORT) + PATH, "iat": now, "exp": now + 3_000, "jti": str(uuid4())}
        return {"Authorization": f"Bearer {self._sign(told)}"}


def url_of(port: int) -> str:
    """Where the server listens."""
    return f"http://127.0.0.1:{port}"


@contextmanager
def served(shelf: CardShelf, folder: RunFolder, said: Path, signer: Signer | None) -> Iterator[str]:
    """Serve the cards on a thread of this process: its CPU time is the server's and the client's together."""
    app = cds_app(shelf, FeedbackFile(said, folder.path, shelf), signed=signer and signer.callers)
    server = uvicorn.Server(uvicorn.Config(app, port=PORT, log_level="warning"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield url_of(PORT)
    finally:
        server.should_exit = True
        thread.join()


def called(client: httpx2.Client, url: str, patient: str, headers: dict[str, str]) -> float:
    """Ask for a patient's cards; return the seconds of wall time."""
    context = {"userId": "Practitioner/1", "patientId": patient}
    body = {"hook": "patient-view", "hookInstance": CALL, "context": context}
    asked = time.perf_counter()
    answer = client.post(url + PATH, json=body, headers=headers)
    seconds = time.perf_counter() - asked
    assert answer.json()["cards"], context
    return seconds


def main() -> None:
    """Print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("--agent", help="whose answers, where several agents played")
    parser.add_argument("--calls", type=int, default=2_000, help="how many calls")
    parser.add_argument("--signed", choices=["ES384", "RS384"], help="a JWT with every call (signed beforehand)")
    arguments = parser.parse_args()
    folder, started = RunFolder.open(arguments.run), time.process_time()
    shelf = CardShelf.of(folder.provenance, open_store(folder), prepare_cards(folder, agent=arguments.agent))
    count = len(shelf.names())
    print(f"{count:,} cards prepared, {1000 * (time.process_time() - started) / count:.1f} CPU-ms each")
    patients = [shelf.store.subject_key(subject) for subject in sorted(shelf.by_subject)]
    with TemporaryDirectory() as place:
        signer = Signer(arguments.signed, Path(place)) if arguments.signed else None
        headers = [signer.headers() if signer else {} for _ in range(arguments.calls)]
        with served(shelf, folder, Path(place) / "said.jsonl", signer) as url, httpx2.Client() as client:
            started = time.process_time()
            seconds = [called(client, url, patients[n % len(patients)], head) for n, head in enumerate(headers)]
            spent = time.process_time() - started
    half, most, worst = 1000 * np.quantile(seconds, [0.5, 0.95, 1.0])
    print(f"{arguments.calls:,} calls: wall p50 {half:.1f} ms, p95 {most:.1f} ms, worst {worst:.1f} ms")
    print(f"CPU {1000 * spent / arguments.calls:.2f} ms a call, server and client together")


if __name__ == "__main__":
    main()
