"""A source's files as lines of a stream, and what ingest makes of the same files: written without a look at clocks."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wardround.agents.stays.batch import batch_steps
from wardround.agents.stays.player import coded_roles
from wardround.clinical.bundles import BundleEvent, batch_states, store_bundles
from wardround.clinical.bundles.events import HOUR
from wardround.clinical.bundles.reading import played_rows
from wardround.core import to_microseconds
from wardround.records import Store, load_source_spec
from wardround.records.sources.flatten import flattened
from wardround.stream import FollowSettings, coded_responder, follow, patient_events, watched_ledger
from wardround.stream.follow import states_of
from wardround.stream.source_rules import SourceRules

AT_ONCE = FollowSettings(once=True, finish=True)
ENTERED = ("pharmacy_id",)
"""What names the row with the time at which another was entered: it comes then, not when what it orders begins."""
MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?")


def table_lines(spec_name: str, folder: Path, subjects: set[int] | None = None) -> list[tuple[str, str]]:
    """Return the rows of a source's files as lines, each with the earliest time that stands in it: rows without any
    come before everything else."""
    spec = load_source_spec(spec_name)
    played = played_rows(spec)
    found: list[tuple[str, str]] = []
    with flattened(spec, folder) as files:
        begins: dict[tuple[str, str], str] = {}
        for name, paths in sorted(files.tables.items(), key=lambda pair: pair[0] in played):
            table = spec.tables[name]
            columns = [each for each, kind in table.columns.items() if kind in ("time", "date")]
            for row in (row for path in paths for row in _rows(path)):
                row = {key: value for key, value in row.items() if value not in (None, "")}
                if subjects is not None and int(row.get(table.subject or "", 0)) not in subjects:
                    continue
                moments = [str(row[each]) for each in columns if each in row]
                when = min((each for each in moments if each[:4].isdigit()), default="")
                if name not in played:  # what only gives others their times is there before them
                    begins |= {(key, str(row[key])): when for key in table.key if key in ENTERED and when}
                    when = ""
                elif when and name == "prescriptions":
                    when = min([when, *(begins[one] for one in ((k, str(v)) for k, v in row.items()) if one in begins)])
                found.append((when.replace("T", " ")[:19], json.dumps({"table": name, "row": row}, default=str)))
    return sorted(found, key=lambda pair: pair[0])


def _rows(path: Path) -> list[dict[str, Any]]:
    if path.name.endswith(".parquet"):
        return list(pq.read_table(path).to_pylist())
    if path.name.endswith((".arrow", ".arrows")):
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_stream(source).read_all().to_pylist()
    with _opened(path) as source:
        return [{name.lower(): cell for name, cell in row.items()} for row in csv.DictReader(source)]


def _opened(path: Path) -> Any:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def resource_lines(folder: Path) -> list[tuple[str, str]]:
    """Return resources as lines, each with the time at which it may come: of its last update, where it is a later
    version, else when what it says happened."""
    found = []
    for path in sorted(folder.rglob("*.ndjson*")):
        for text in _texts(path):
            resource = json.loads(text)
            found.append((_when(resource), text))
    return sorted(found, key=lambda pair: pair[0])


def _texts(path: Path) -> Iterator[str]:
    with _opened(path) as source:
        yield from (line.strip() for line in source if line.strip())


def _when(resource: dict[str, Any]) -> str:
    if resource["resourceType"] in ("Medication", "Location", "Organization", "Patient"):
        return ""
    if resource.get("status") in ("amended", "corrected", "entered-in-error") and "meta" in resource:
        return str(resource["meta"]["lastUpdated"]).replace("T", " ")[:19]
    return min((each.group()[:19].replace("T", " ") for each in MOMENT.finditer(json.dumps(resource))), default="")


def event_said(event: BundleEvent, *, named: bool) -> tuple[Any, ...]:
    """Return what of an event is compared; names of rows only where the source has keys."""
    value = None if event.value is None else round(event.value, 9)
    shown = (event.kind, event.concept, value, event.text, event.unit, event.level, event.time, event.known)
    return (*shown, event.revision, event.row_id if named else "")


def differences(store: Store, lines: Path, out: Path, protocol: Path | None = None) -> Counter[str]:
    """Follow lines and compare with the store of the same files: bundles hour by hour, states, and predictions."""
    rules = SourceRules.of_store(store)
    responder = None if protocol is None else coded_responder(protocol)
    report = follow(rules, lines, out, settings=AT_ONCE, responder=responder)
    found: Counter[str] = Counter(late=report.late, refused=report.refused)
    states = states_of(rules, out, responder=responder)
    told = {}
    for line in (out / "bundles.jsonl").read_bytes().splitlines():
        one = json.loads(line)
        told[one["subject"], one["hour"]] = one
    with watched_ledger(out) as ledger:
        for stream in store_bundles(store):
            batch = batch_states(stream)
            steps = None if protocol is None else list(batch_steps(stream, coded_roles(protocol)))
            hours: dict[int, list[int]] = {}
            for subject, hour in zip(stream.subjects.tolist(), stream.hours.tolist(), strict=True):
                hours.setdefault(subject, []).append(hour)
            live = {subject: patient_events(ledger, subject, several) for subject, several in hours.items()}
            for place, bundle in enumerate(stream):
                found["bundles"] += 1
                hour = to_microseconds(bundle.hour) // HOUR
                ours = live[bundle.subject_id].get(hour, [])
                names = [bool(store.spec.tables[e.row_id.split(":")[0]].key) for e in bundle.events]
                theirs = Counter(event_said(e, named=n) for e, n in zip(bundle.events, names, strict=True))
                keyed = {e.row_id for e, n in zip(bundle.events, names, strict=True) if n}
                mine = Counter(event_said(e, named=e.row_id in keyed) for e in ours)
                blind = {each: replace_level(each) for each in (*theirs, *mine)}
                if Counter({blind[k]: v for k, v in theirs.items()}) != Counter({blind[k]: v for k, v in mine.items()}):
                    found["different bundles"] += 1
                if steps is not None:
                    one = told.get((bundle.subject_id, f"{bundle.hour:%Y-%m-%d %H:00}"))
                    step = steps[place].to_json()
                    if one is None or any(one[key] != json.loads(json.dumps(step[key])) for key in step):
                        found["different steps"] += 1
                told.pop((bundle.subject_id, f"{bundle.hour:%Y-%m-%d %H:00}"), None)
            for subject in hours:
                found["different states"] += unlike(states[subject], batch.of(subject))
    found["only live"] = len(told)
    return found


def replace_level(said: tuple[Any, ...]) -> tuple[Any, ...]:
    """An event without its level: levels against the person's own first value are compared in the states."""
    return (*said[:5], *said[6:])


def unlike(one: Any, other: Any) -> bool:
    """Whether two states differ in what they say, names of rows aside."""
    return _said(one) != _said(other)


def _said(state: Any) -> Any:
    return (
        {key: each.since for key, each in state.problems.items()},
        Counter((each.concept, each.dose, each.unit, each.since, each.kind) for each in state.medications.values()),
        {key: [(r.time, r.value, r.level) for r in each.readings] for key, each in state.trends.items()},
        {key: (each.reaction, each.since) for key, each in state.allergies.items()},
        {key: (each.last, each.count) for key, each in state.actions.items()},
    )
