"""Where a round of conformance works: its folder, a small synthetic hospital in it, and servers started from it."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from wardround.cli import main as wardround
from wardround.core import format_time
from wardround.records import Store
from wardround.synth import time_zone_of

REPOSITORY = Path(__file__).parents[1]
TOKEN = "a-token-of-this-conformance-round"
_PATIENTS, _SEED = 40, 7


@dataclass(frozen=True)
class Place:
    """A folder in which everything is made once, when it is first asked for."""

    folder: Path

    def path(self, *names: str) -> Path:
        """A path within it."""
        return self.folder.joinpath(*names)

    def fresh(self, name: str) -> Path:
        """A path within it at which nothing is left of an earlier round."""
        shutil.rmtree(self.path(name), ignore_errors=True)
        return self.path(name)

    def make(self) -> None:
        """Make all of it, before suites run beside each other: a command belongs to the main thread."""
        for made in (self.run, self.resource_store):
            assert made.exists()

    @cached_property
    def store(self) -> Path:
        """The hospital's store."""
        hospital, store = self.path("hospital"), self.path("store")
        if not store.exists():
            _command("synth", hospital, "--patients", _PATIENTS, "--seed", _SEED)
            _command("ingest", "mimiciv", hospital, "--store", store)
        return store

    @cached_property
    def benchmark(self) -> Path:
        """A benchmark of it."""
        benchmark = self.path("bench")
        if not benchmark.exists():
            _command("bench", "build", "agentehr", "--store", self.store, "--out", benchmark, "--per-task", 6)
        return benchmark

    @cached_property
    def run(self) -> Path:
        """A finished run on that: the offline model's answers."""
        run, words = self.path("run"), ("--agent", "react", "--model", "offline")
        if not run.exists():
            _command("run", "--benchmark", self.benchmark, "--store", self.store, *words, "--out", run)
        return run

    @cached_property
    def resources(self) -> Path:
        """The same people as a bulk export of FHIR resources."""
        resources = self.path("fhir")
        if not resources.exists():
            _command("synth", resources, "--patients", _PATIENTS, "--seed", _SEED, "--dialect", "fhir")
        return resources

    @cached_property
    def resource_store(self) -> Path:
        """The store of these resources."""
        store = self.path("fhir-store")
        if not store.exists():
            _command("ingest", "fhir", self.resources, "--store", store, f"--time-zone={time_zone_of('fhir')}")
        return store

    def chart_words(self, place: int = 0) -> list[str]:
        """The options that open one person's chart, thirty hours after an admission."""
        store = Store.open(self.store)
        subject = int(store.subjects[place])
        admitted = store.rows(subject, "admissions").column("admittime")[0].as_py()
        moment = format_time(admitted + timedelta(hours=30))
        return ["--store", str(self.store), "--subject", str(subject), "--as-of", moment]


def _command(*words: object) -> None:
    if wardround([str(word) for word in words]):
        raise SystemExit(f"wardround {words[0]} failed")


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def command_serving(*words: str, answers: str, log: Path, variables: Mapping[str, str] | None = None) -> Iterator[None]:
    """Run ``wardround WORDS`` until the block ends; it begins when the URL ``answers`` at all, with whatever status."""
    with log.open("w") as told:
        server = subprocess.Popen(
            [sys.executable, "-m", "wardround", *words],
            stdout=told,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(variables or {})},
            cwd=REPOSITORY,
        )
    try:
        _wait_for(answers, server, log)
        yield
    finally:
        server.terminate()
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    while server.poll() is None:
        try:
            with urlopen(url):
                return
        except HTTPError:
            return
        except URLError as error:
            if isinstance(error.reason, ssl.SSLError):  # it answers; who asks here trusts nobody
                return
            time.sleep(0.1)
    raise RuntimeError(f"the server ended before it answered: {log.read_text()[-800:]}")
