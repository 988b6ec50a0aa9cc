"""A model served on this machine: what is missing is said in one line, and it ends when told to, whatever it does.

llama.cpp is played by a stub here; the real one is met in ``test_models_real.py``.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.core import UserError
from wardround.models.local import LOCAL_MODELS, LocalModel, find_weights, model_of_file, serving

STUB = """
import time

class _Threads:
    n_threads = -1

class _Model:
    path = ""

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = _Model(), _Threads(), _Threads()

class Server:
    def __init__(self, settings):
        if open(settings.model.path).read() == "broken":
            raise RuntimeError("invalid model file")
        self.listening_address = f"http://{settings.hostnames[0]}:{settings.port or 4711}"

    def __del__(self):
        time.sleep(3600)  # the real one waits for the reply it is writing
"""
CARRIED = replace(LOCAL_MODELS["smollm2"], package="carried_weights", pattern="*.gguf")


@pytest.fixture
def stubbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Weights in a package and a stub of llama.cpp, found by this process and by those it starts."""
    (tmp_path / "xllamacpp.py").write_text(STUB)
    (tmp_path / "carried_weights").mkdir()
    weights = tmp_path / "carried_weights" / "model.gguf"
    weights.write_text("fine")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setitem(LOCAL_MODELS, "smollm2", CARRIED)
    return weights


def test_weights_that_are_not_here_are_one_line_that_says_how_to_get_them() -> None:
    missing: LocalModel = replace(LOCAL_MODELS["smollm2"], package="no_such_package_here")
    with pytest.raises(UserError, match=r"weights of smollm2 are not here: make weights") as caught:
        find_weights(missing)
    assert "\n" not in str(caught.value)


def test_weights_of_one_s_own_are_a_gguf_file_that_is_there(tmp_path: Path) -> None:
    for name in ("mine.gguf", "mine.bin"):
        (tmp_path / name).write_text("fine")
    model = model_of_file(tmp_path / "mine.gguf", context_tokens=512)
    assert (model.name, model.context_tokens, find_weights(model)) == ("mine", 512, tmp_path / "mine.gguf")
    for wrong in ("mine.bin", "none.gguf", "none.bin"):
        with pytest.raises(UserError, match=f"{wrong}' is no .gguf file"):
            model_of_file(tmp_path / wrong, context_tokens=512)


def test_without_the_extra_the_command_names_it(
    stubbed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from importlib.util import find_spec

    monkeypatch.setattr(
        "wardround.models.local.find_spec", lambda name: None if name == "xllamacpp" else find_spec(name)
    )
    assert main(["models", "serve", "smollm2"]) == 2
    assert "the extra [local]" in capsys.readouterr().err


def test_a_port_in_use_is_refused(stubbed: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} cannot be had"), serving(CARRIED, port=port):
            pass


def test_weights_that_cannot_be_read_are_an_error_not_a_wait(stubbed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stubbed.write_text("broken")
    with pytest.raises(UserError, match="cannot be served"), serving(CARRIED):
        pass
    assert "invalid model file" in capfd.readouterr().err


def test_it_ends_at_once_though_the_server_would_wait_for_ever(stubbed: Path) -> None:
    with serving(CARRIED, threads=1) as url:
        assert url == "http://127.0.0.1:4711/v1"
        started = time.monotonic()
    assert time.monotonic() - started < 4, "it was waited for, then killed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_the_url_and_stops_cleanly(stubbed: Path, number: int) -> None:
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from dataclasses import replace; from wardround.models.local import LOCAL_MODELS\n"
        "LOCAL_MODELS['smollm2'] = replace(LOCAL_MODELS['smollm2'], package='carried_weights', pattern='*.gguf')\n"
        "from wardround.cli import main; sys.exit(main(['models', 'serve', 'smollm2']))"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "http://127.0.0.1:4711/v1\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "--base-url http://127.0.0.1:4711/v1" in errors
    assert errors.endswith("stopped\n")
