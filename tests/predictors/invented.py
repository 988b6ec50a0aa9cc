"""An invented MEDS data set, small enough to fit in moments, and questions about it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wardround.records import Store, ingest
from wardround.tasks.benchmarks import Benchmark, Sample

NOON = datetime(2120, 5, 1, 12)
"""When every question is asked."""
SPLITS = {"train": "train", "dev": "tuning", "test": "held_out"}
SUBJECTS = 60


def split_of(subject_id: int) -> str:
    """The split of an invented subject."""
    return "test" if subject_id % 3 == 0 else "dev" if subject_id % 3 == 1 else "train"


def severity(subject_id: int) -> int:
    """The truth: three of six are normal."""
    return (0, 1, 0, 2, 0, 3)[subject_id // 3 % 6]


def events(subject_id: int) -> list[dict[str, Any]]:
    """A chart whose counts tell the severity, with a little noise, and a future that shouts it."""
    dice = np.random.default_rng(subject_id)
    rows = [
        event(subject_id, None, "GENDER//F" if subject_id % 2 else "GENDER//M"),
        event(subject_id, datetime(2120 - 30 - subject_id % 40, 1, 1), "MEDS_BIRTH"),
    ]
    start = NOON - timedelta(days=30)
    for n in range(severity(subject_id) * 2 + int(dice.integers(0, 3))):
        rows.append(event(subject_id, start + timedelta(hours=n), "SIGN//PALE"))
    for n in range(int(dice.integers(1, 6))):
        rows.append(event(subject_id, start + timedelta(hours=n, minutes=30), f"VISIT//{dice.integers(0, 9)}"))
    rows.append(event(subject_id, NOON, "NOTE//AT_NOON"))
    rows.append(event(subject_id, start, "LAB//RESULT//HB", 9.0 + subject_id / 100))
    for n in range(severity(subject_id)):
        rows.append(event(subject_id, NOON + timedelta(seconds=1 + n), "FUTURE//TELLS"))
    if split_of(subject_id) == "test":
        rows.append(event(subject_id, start, "ONLY//IN_TEST"))
    return sorted(rows, key=lambda row: (row["time"] is not None, row["time"] or NOON))


def event(subject_id: int, time: datetime | None, code: str, value: float | None = None) -> dict[str, Any]:
    """One row of MEDS."""
    return {"subject_id": subject_id, "time": time, "code": code, "numeric_value": value}


def write_meds(folder: Path, *, parents: dict[str, list[str]] | None = None) -> Path:
    """Write the data set."""
    schema = pa.schema(
        [
            ("subject_id", pa.int64()),
            ("time", pa.timestamp("us")),
            ("code", pa.string()),
            ("numeric_value", pa.float32()),
        ]
    )
    every = range(1, SUBJECTS + 1)
    codes: set[str] = set()
    for name, kept in SPLITS.items():
        rows = [row for subject_id in every if split_of(subject_id) == name for row in events(subject_id)]
        codes |= {row["code"] for row in rows}
        path = folder / "data" / kept / "0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    (folder / "metadata").mkdir()
    splits = [{"subject_id": subject_id, "split": SPLITS[split_of(subject_id)]} for subject_id in every]
    pq.write_table(pa.Table.from_pylist(splits), folder / "metadata" / "subject_splits.parquet")
    above = parents or {}
    named = sorted({*codes, *above})
    known = [{"code": code, "description": code.lower(), "parent_codes": above.get(code, [])} for code in named]
    known_schema = pa.schema(
        [("code", pa.string()), ("description", pa.string()), ("parent_codes", pa.list_(pa.string()))]
    )
    pq.write_table(pa.Table.from_pylist(known, schema=known_schema), folder / "metadata" / "codes.parquet")
    (folder / "metadata" / "dataset.json").write_text('{"meds_version": "0.4.0"}')
    return folder


def invented_store(folder: Path, **options: Any) -> Store:
    """Write and ingest it."""
    write_meds(folder / "meds", **options)
    ingest("meds", folder / "meds", folder / "store")
    return Store.open(folder / "store")


def questions(store: Store, *, tasks: tuple[str, ...] = ("guo_los", "lab_anemia"), flip: str = "") -> Benchmark:
    """Ask every subject at noon. ``flip``: the split whose answers are turned round."""
    samples = []
    for task in tasks:
        for subject_id in range(1, SUBJECTS + 1):
            grade, split = severity(subject_id), split_of(subject_id)
            grade = 3 - grade if split == flip else grade
            target = str(grade) if task == "lab_anemia" else str(int(grade > 0))
            samples.append(
                Sample(
                    id=f"{task}-{subject_id}",
                    task=task,
                    subject_id=subject_id,
                    prediction_time=NOON,
                    target=(target,),
                    split=split,  # type: ignore[arg-type]
                    stratum="any",
                )
            )
    manifest = {"name": "invented", "policy": "known_at", "source": {"store_digest": store.digest}}
    return Benchmark(manifest=manifest, all_samples=tuple(samples))
