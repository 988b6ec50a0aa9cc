"""The version is said once in each file that must say it, and it is the same one everywhere."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import wardround

ROOT = Path(__file__).parents[2]


def _found(pattern: str, file: str) -> str:
    match = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert match, f"{file} says no version"
    return match[1]


def test_every_file_says_the_version_of_the_package() -> None:
    server = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    package = server["packages"][0]
    said = {
        "pyproject.toml": tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
        "CITATION.cff": _found(r"^version: (\S+)$", "CITATION.cff"),
        "CHANGELOG.md": _found(r"^## (\d+\.\d+\.\d+) \((?:unreleased|\d{4}-\d{2}-\d{2})\)$", "CHANGELOG.md"),
        "server.json": server["version"],
        "server.json, its package": package["version"],
        "server.json, its extra": package["runtimeArguments"][0]["value"].partition("==")[2],
    }
    assert said == dict.fromkeys(said, wardround.__version__)


def test_a_dated_changelog_and_the_citation_are_of_one_day() -> None:
    day = _found(r"^## \S+ \((unreleased|\d{4}-\d{2}-\d{2})\)$", "CHANGELOG.md")
    cited = re.search(r"^date-released: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert (cited[1].strip("'\"") if cited else "unreleased") == day
