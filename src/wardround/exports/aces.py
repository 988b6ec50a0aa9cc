"""Labels of an ACES task file for a store, by the package es-aces itself (the extra [aces]).

ACES reads a record by the times at which things happened. Its labels are written so; beside them stands how many it
would give otherwise by the times at which rows became known: there its windows saw what nobody could know yet.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wardround.core import Reporter, UserError, import_extra, private_folder, silent
from wardround.exports.meds import ExportSettings, export_meds
from wardround.records import Store

_EXTRA, _WHAT = "aces", "labels of an ACES task"
_COLUMNS = ("subject_id", "time", "code", "numeric_value")
_LABELS = pa.schema(
    [
        ("subject_id", pa.int64()),
        ("prediction_time", pa.timestamp("us")),
        ("boolean_value", pa.bool_()),
        ("available_value", pa.bool_()),
    ]
)
_Labels = Mapping[tuple[int, datetime], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcesCounts:
    """``labels`` of which ``positive`` are true. By the times at which rows became known ACES would ask ``asked_alike``
    of these questions, and answer ``answered_otherwise`` of those otherwise."""

    labels: int
    positive: int
    asked_alike: int
    answered_otherwise: int

    @property
    def text(self) -> str:
        """The counts in a sentence."""
        return (
            f"{self.labels:,} labels, {self.positive:,} of them true; by the times at which rows became known ACES "
            f"would ask {self.asked_alike:,} of these questions and answer {self.answered_otherwise:,} of those "
            "otherwise"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcesReport(AcesCounts):
    """What was written, and where."""

    file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AcesLabels:
    """The labels of a task by subject and moment: by the times at which things happened, and at which they became
    known."""

    by_event: _Labels
    by_known: _Labels

    def counts(self) -> AcesCounts:
        """Return how many labels there are, and how many the clock decides."""
        alike = self.by_event.keys() & self.by_known.keys()
        return AcesCounts(
            labels=len(self.by_event),
            positive=sum(self.by_event.values()),
            asked_alike=len(alike),
            answered_otherwise=sum(self.by_event[key] != self.by_known[key] for key in alike),
        )


def aces_labels(store: Store, task_file: Path, report: Reporter = silent) -> AcesLabels:
    """Return the labels of a task. UserError: no extra, no such task file, no index time or label in it, or no question
    in this store."""
    _task(task_file)  # refused before anything is written
    with tempfile.TemporaryDirectory(prefix="aces-") as place:
        by_event = _labels_of(task_file, _events(store, Path(place), "event", report))
        by_known = _labels_of(task_file, _events(store, Path(place), "known", report))
    if not by_event:
        raise UserError(f"{task_file}: no subject of the store has the windows that the task asks for")
    return AcesLabels(by_event=by_event, by_known=by_known)


def write_aces_labels(store: Store, task_file: Path, out: Path, *, report: Reporter = silent) -> AcesReport:
    """Write the labels of a task as a MEDS label file (Parquet). Column ``available_value``: the label by the times at
    which rows became known, empty where ACES would then not ask. UserError: as :func:`aces_labels`, or ``out`` exists.
    """
    if out.exists():
        raise UserError(f"{str(out)!r} is there already: choose another file or remove it")
    found = aces_labels(store, task_file, report)
    rows = [
        {
            "subject_id": subject,
            "prediction_time": moment,
            "boolean_value": label,
            "available_value": found.by_known.get((subject, moment)),
        }
        for (subject, moment), label in sorted(found.by_event.items())
    ]
    private_folder(out.parent)
    pq.write_table(pa.Table.from_pylist(rows, _LABELS), out)
    return AcesReport(file=out, **asdict(found.counts()))


def _task(file: Path) -> Any:
    config = import_extra("aces.config", _EXTRA, what=_WHAT)
    try:
        task = config.TaskExtractorConfig.load(file)
    except Exception as error:  # whatever its parser says
        raise UserError(f"{str(file)!r} is no ACES task: {' '.join(str(error).split())}") from error
    if task.label_window is None or task.index_timestamp_window is None:
        raise UserError(f"{str(file)!r} needs a window with `label` and one with `index_timestamp`")
    return task


def _events(store: Store, place: Path, time: Any, report: Reporter) -> Path:
    """The store as one MEDS file by one of its two times, each event as it was told last."""
    export_meds(store, place / time, settings=ExportSettings(time=time), report=report)
    table = pa.concat_tables([pq.read_table(file) for file in sorted((place / time / "data").rglob("*.parquet"))])
    last = table.group_by("telling_of").aggregate([("revision", "max")])
    newest = dict(zip(last["telling_of"].to_pylist(), last["revision_max"].to_pylist(), strict=True))
    told, revisions = (table[name].to_pylist() for name in ("telling_of", "revision"))
    kept = [newest[one] == revision for one, revision in zip(told, revisions, strict=True)]
    file = place / f"{time}.parquet"
    chosen = table.filter(pa.array(kept) if time == "event" else pc.is_valid(table["subject_id"])).select(_COLUMNS)
    pq.write_table(chosen.sort_by([("subject_id", "ascending"), ("time", "ascending")]), file)
    return file


def _labels_of(task_file: Path, file: Path) -> _Labels:
    task = _task(task_file)  # read anew: a query changes it
    settings = import_extra("omegaconf", _EXTRA, what=_WHAT).DictConfig({"path": str(file), "standard": "meds"})
    predicates = import_extra("aces.predicates", _EXTRA, what=_WHAT).get_predicates_df(task, settings)
    found = import_extra("aces.query", _EXTRA, what=_WHAT).query(task, predicates)
    if not len(found):
        return {}
    rows = found.select("subject_id", "index_timestamp", "label").iter_rows()
    return {(subject, moment): bool(label) for subject, moment, label in rows}
