"""A run is a folder: manifest, queue, one log per worker, results, report.

manifest.json     settings, versions, seeds, hashes of store, benchmark, spec and prompts; written once
queue.sqlite      episode keys and their state
logs/             what happened, one file per worker
results.jsonl     one scored row per episode; made again whenever the run is scored
report/           the HTML report
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from wardround import __version__
from wardround.core import UserError, content_hash, must_be_loaded, private_folder, sealed_json, write_atomically
from wardround.core.settings import flat
from wardround.log import LOG_SUFFIX, LogReader
from wardround.runs.settings import RunSettings

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """The paths of one run and its manifest."""

    path: Path
    manifest: Mapping[str, Any]
    _read: list[RunSettings] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def create(cls, path: Path, settings: RunSettings, facts: Mapping[str, Any]) -> RunFolder:
        """Make a new run; raises UserError when the folder already holds one."""
        if (path / "manifest.json").exists():
            raise UserError(f"{str(path)!r} already holds a run; resume it with: wardround run --resume {path}")
        private_folder(path)
        (path / "logs").mkdir(exist_ok=True)
        manifest = {
            "schema": SCHEMA,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "wardround": __version__,
            "sqlite": sqlite3.sqlite_version,
            "python": platform.python_version(),
            "settings": settings.to_json(),
            "settings_sha256": content_hash(settings.to_json()),
            **facts,
        }
        write_atomically(path / "manifest.json", sealed_json(manifest))
        return cls(path=path, manifest=manifest)

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Open an existing run; raises UserError when there is none."""
        path = Path(path)
        file = path / "manifest.json"
        if not file.is_file():
            raise UserError(f"no run in {str(path)!r} (it has no manifest.json); start one with: wardround run --out")
        try:
            manifest = json.loads(file.read_text())
        except ValueError as error:
            raise UserError(f"the manifest of the run {str(path)!r} cannot be read: {error}") from error
        if not isinstance(manifest, dict) or "settings_sha256" not in manifest:
            raise UserError(f"no run in {str(path)!r}: its manifest.json is of something else (a store, a benchmark?)")
        if manifest.get("schema") != SCHEMA:
            raise UserError(
                f"the run {str(path)!r} has schema {manifest.get('schema')!r}, this wardround reads {SCHEMA}: run again"
            )
        manifest.pop("seal", None)
        must_be_loaded(manifest.get("plugins", ()), f"the run {str(path)!r}")
        folder = cls(path=path, manifest=manifest)
        try:
            every_setting = flat(folder.settings.to_json())
        except (UserError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise UserError(f"the manifest of the run {str(path)!r} was changed and cannot be read: {error}") from error
        missing = sorted(set(every_setting) - set(flat(manifest["settings"])))
        if missing:
            raise UserError(f"the manifest of the run {str(path)!r} lacks settings ({', '.join(missing)}): run again")
        return folder

    def __reduce__(self) -> tuple[partial[RunFolder], tuple[()]]:
        """For other processes, which read the settings when they have loaded the plug-ins that these name."""
        return partial(RunFolder, path=self.path, manifest=self.manifest), ()

    @property
    def settings(self) -> RunSettings:
        """The settings as written at the start."""
        if not self._read:
            self._read.append(RunSettings.read(self.manifest["settings"]))
        return self._read[0]

    @property
    def provenance(self) -> str:
        """How experiences name the run that they came from: by its folder and the hash of its settings as written."""
        return f"{self.path.name}:{self.manifest['settings_sha256'][:12]}"

    @property
    def queue(self) -> Path:
        """The queue file."""
        return self.path / "queue.sqlite"

    @property
    def logs(self) -> Path:
        """The folder of worker logs."""
        return self.path / "logs"

    @property
    def results(self) -> Path:
        """The scored rows."""
        return self.path / "results.jsonl"

    def new_log(self, place: str = "logs") -> Path:
        """Return a log file name that no other worker uses, in a folder of the run."""
        return new_log_file(self.path / place)


def new_log_file(folder: Path) -> Path:
    """Return a log file name in a folder that no other process uses."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    return folder / f"{stamp}-{os.getpid()}{LOG_SUFFIX}"


# What a run has cost so far, by the logs of all of its workers, and the limit at which it hands out no more.


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """``cost`` in US dollars of the calls that are recorded; ``unpriced`` counts those whose cost is not known."""

    cost: float
    unpriced: int

    @classmethod
    def of(cls, folder: RunFolder) -> Spending:
        """Sum over all logs of a run, also while they are being written."""
        with LogReader(folder.logs, may_be_empty=True) as reader:
            costs = list(reader.costs().values())
        return cls(cost=sum(cost for cost in costs if cost is not None), unpriced=costs.count(None))

    def reaches(self, limit: float | None) -> bool:
        """Say whether nothing more may be begun under this limit."""
        return limit is not None and self.cost >= limit


def must_have_prices(settings: RunSettings, limit: float | None) -> None:
    """Raise UserError where cost is limited and a model of the run has no price: its cost would never be known."""
    unpriced = [name for name in settings.run.models if settings.model_named(name).known_price is None]
    if limit is not None and unpriced:
        raise UserError(
            f"--max-cost needs the price of {', '.join(unpriced)}: a new run takes --set model.price=INPUT,OUTPUT "
            "(US dollars per million tokens)"
        )
