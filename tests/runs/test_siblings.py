"""The runs beside a run: of the same benchmark, with their pages, and in which settings they differ."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from wardround.reports.siblings import siblings

OWN = {
    "benchmark_digest": "b",
    "policy": "known_at",
    "settings_sha256": "s",
    "settings": {"run": {"store": "here", "models": ["m"], "epochs": 1, "limit": 5}, "agent": {"react": {"window": 3}}},
}


def run(folder: Path, name: str, *, page: bool = False, settings: dict[str, Any] | None = None, **changed: Any) -> None:
    """A run's folder; ``settings`` of its section ``run``."""
    (folder / name / "report").mkdir(parents=True)
    both = {**OWN["settings"], "run": {**OWN["settings"]["run"], **(settings or {})}}  # type: ignore[dict-item, index]
    (folder / name / "manifest.json").write_text(json.dumps({**OWN, "settings": both, **changed}))
    if page:
        (folder / name / "report" / "index.html").touch()


def found(folder: Path) -> dict[str, tuple[str | None, str]]:
    own: Any = SimpleNamespace(path=folder / "own", manifest=OWN)
    return {one.name: (one.page, one.differs) for one in siblings(own, folder / "own" / "report")}


def test_runs_of_the_same_benchmark_are_listed_with_their_pages_and_what_differs(tmp_path: Path) -> None:
    run(tmp_path, "own", page=True)
    run(tmp_path, "again", page=True, settings={"store": "elsewhere"})
    run(tmp_path, "one", settings={"epochs": 2})
    run(tmp_path, "two", settings={"epochs": 2, "models": ["m", "n"]})
    run(tmp_path, "three", settings={"epochs": 2, "models": ["n"], "limit": 6})
    run(tmp_path, "four", settings={"epochs": 2, "models": ["n"], "limit": 6, "split": "dev"})
    run(tmp_path, "clocks", policy="published", settings={"epochs": 2})
    run(tmp_path, "other", benchmark_digest="c")
    run(tmp_path, "unreadable")
    (tmp_path / "unreadable" / "manifest.json").write_text("{")
    run(tmp_path, "no run")
    (tmp_path / "no run" / "manifest.json").write_text(json.dumps({"benchmark_digest": "b"}))
    assert found(tmp_path) == {
        "again": ("../../again/report/index.html", "the same settings"),
        "clocks": (None, "on the clocks published"),
        "four": (None, "models n, epochs 2, 2 more settings"),
        "one": (None, "epochs 2"),
        "three": (None, "models n, epochs 2, 1 more setting"),
        "two": (None, "models m n, epochs 2"),
    }


def test_twenty_runs_are_listed(tmp_path: Path) -> None:
    for number in range(22):
        run(tmp_path, f"run-{number:02}")
    assert list(found(tmp_path)) == [f"run-{number:02}" for number in range(20)]
