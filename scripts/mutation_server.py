"""A process that has loaded everything a mutant cannot change, and forks one test run for each mutant.

    python scripts/mutation_server.py ROOM        (in the copy of the tree, with its src/ on PYTHONPATH)

It loads what is not ours and the rooms that the import contract puts above ROOM: these can import nothing of it, so
none of their code is another with the mutant. The room itself and all below it are imported in the fork, from the
mutated file. A request is a line of JSON on standard input (tests, cpu_seconds, fair_seconds, last: where the output
goes), an answer the exit status on standard output; negative where the run was ended because it took all of its time.
Time is the processor's, or for what waits forever that of the clock, slower by as much as others use the machine.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import time
import tomllib
import traceback
import warnings
from pathlib import Path

import pytest

_ARGUMENTS = [
    "-x",
    "-q",
    *(part for name in ("cacheprovider", "randomly", "xdist", "cov") for part in ("-p", f"no:{name}")),
]
_SHORTEST_WAIT, _LONGEST_WAIT = 0.01, 0.5
_ARGUMENTS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins that are loaded already


def packages_below(room: str, project: Path) -> list[str]:
    """The packages that may not import this room, lowest first, as the layers of pyproject.toml have them."""
    contracts = tomllib.loads(project.read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if "containers" not in contract and "layers" in contract)
    stack = [[name.strip(" ()") for name in layer.split("|")] for layer in reversed(layers)]
    place = next(
        place for place, names in enumerate(stack) if any(f"{name}.".startswith(f"wardround.{room}.") for name in names)
    )
    return [name for names in stack[:place] for name in names]


def load(room: str) -> None:
    """Import what is not ours, then the packages below."""
    for name in _foreign():
        _quietly(name)
    for package in packages_below(room, Path("pyproject.toml")):
        for name in _modules(package):
            _quietly(name)


def _foreign() -> list[str]:
    """Modules that are not ours and that ours import; a fork finds them out, so that nothing of ours stays loaded."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        for name in _modules("wardround"):
            _quietly(name)
        names = [name for name in sys.modules if name.partition(".")[0] != "wardround" and "__main" not in name]
        with os.fdopen(writing, "w") as pipe:
            json.dump(names, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found: list[str] = json.load(pipe)
    os.wait()
    return found


def _modules(package: str) -> list[str]:
    folder = Path("src", *package.split("."))
    if not folder.is_dir():
        return []
    inside = (one.name for one in pkgutil.walk_packages([str(folder)], f"{package}.", onerror=lambda _: None))
    return [package, *(name for name in inside if not name.endswith("__main__"))]


def _quietly(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module(name)
        except ImportError:
            return  # an extra that is not installed


def run(request: dict[str, object]) -> int:
    """Fork, test, and return the exit status; a run that takes all its time is killed with its children."""
    child = os.fork()
    if child == 0:
        os.setsid()
        _test(request)
    left = float(str(request["fair_seconds"]))
    wait = _SHORTEST_WAIT
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(wait)
        left -= wait * _fair_share()
        wait = min(2 * wait, _LONGEST_WAIT)
        if left <= 0:
            os.killpg(child, signal.SIGKILL)


def _fair_share() -> float:
    """How much of the machine is there for one process that could run all the time."""
    return min(1.0, (os.cpu_count() or 1) / max(os.getloadavg()[0], 1e-9))


def _test(request: dict[str, object]) -> None:
    """Never returns: the fork ends here."""
    limit = int(str(request["cpu_seconds"]))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    output = os.open(str(request["last"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    status = 70
    try:
        tests = request["tests"]
        assert isinstance(tests, list)
        status = int(pytest.main([*_ARGUMENTS, *tests]))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        raise
    finally:
        os._exit(status)


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("room", help="the room that the mutants are in")
    given = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    load(given.room)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(run(json.loads(line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
