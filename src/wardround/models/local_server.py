"""The process that serves a model: ``python -m wardround.models.local_server SETTINGS``. It ends with its input.

A process of its own, because llama.cpp's server cannot be stopped from inside while it writes a reply (its destructor
waits for ever): it is ended whole, and it also ends when whoever started it is killed.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any

_LOOPBACK = "127.0.0.1"
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
