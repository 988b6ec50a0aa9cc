"""What may be shared of a benchmark: which questions, as of when, in which split, hashes of the whole.

No answer and no record text. Strata are left out, which the answers decide, and so are hashes of single samples: an
answer of two classes is guessed from its hash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wardround.benchmarks.benchmark import Benchmark
from wardround.benchmarks.sample import Sample
from wardround.benchmarks.sharing.records import RecordsOfPeople, records_of_people
from wardround.benchmarks.task import get_task
from wardround.core import Reporter, UserError, format_time, silent, write_atomically
from wardround.records import Store

SHARE_SCHEMA = 1
_SOURCE = ("name", "spec_sha256", "store_digest")
_SHOWN = 3


def share(benchmark: Benchmark, store: Store | None, *, report: Reporter = silent) -> dict[str, Any]:
    """Return what may be shared of a benchmark. ``store`` is the one it was built from; None where it has none.

    UserError: no other site could build it from that, or the store is another.
    """
    said = benchmark.manifest
    _must_be_built_here(benchmark)
    body = {
        "schema": SHARE_SCHEMA,
        "name": benchmark.name,
        "kind": benchmark.kind,
        "wardround": said["wardround"],
        "recipe": said["recipe"],
        "label_maps": said.get("label_maps"),
        "source": {name: said["source"].get(name) for name in _SOURCE},
        "records": _records(benchmark, store, report),
        "tasks": {task.name: _definition(task.name, said["tasks"][task.name]) for task in benchmark.tasks},
        "samples": [_question(sample) for sample in benchmark.all_samples],
        "samples_sha256": said["samples_sha256"],
    }
    told: dict[str, Any] = json.loads(json.dumps(body))  # as it is read back, to be compared with
    return told


def write_share(body: Mapping[str, Any], file: Path) -> None:
    """Write what may be shared as JSON, a line per sample."""
    lines = ",\n".join(json.dumps(sample) for sample in body["samples"])
    head = json.dumps({name: part for name, part in body.items() if name != "samples"}, indent=1)
    write_atomically(file, f'{head[:-2]},\n "samples": [\n{lines}\n ]\n}}\n')


def read_share(file: Path) -> dict[str, Any]:
    """Read a shared benchmark. UserError: it is none that this version reads."""
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} is no shared benchmark: {error}") from error
    if not isinstance(body, dict) or body.get("schema") != SHARE_SCHEMA or "recipe" not in body:
        raise UserError(f"{file} is no shared benchmark of schema {SHARE_SCHEMA}; wardround bench share writes one")
    return body


def difference(shared: Mapping[str, Any], built: Mapping[str, Any]) -> str | None:
    """Say in one line how what was built differs from what was shared; None where every byte of the samples and of the
    records that they are asked about is the same."""
    told = [*_other_samples(shared, built), *_other_records(shared, built)]
    if not told:
        return None
    parts = ("source", "label_maps", "tasks", "wardround", "recipe")
    causes = [name.replace("_", " ") for name in parts if shared[name] != built[name]]
    return "; ".join(told) + (f"; other {', '.join(causes)}" if causes else "")


def _other_samples(shared: Mapping[str, Any], built: Mapping[str, Any]) -> list[str]:
    if built["samples_sha256"] == shared["samples_sha256"]:
        return []
    wanted, found = ({one["id"]: one for one in body["samples"]} for body in (shared, built))
    both = sorted(wanted.keys() & found.keys())
    parts = {
        "samples are missing": sorted(wanted.keys() - found.keys()),
        "samples are not of it": sorted(found.keys() - wanted.keys()),
        "samples have another moment": [one for one in both if wanted[one]["moment"] != found[one]["moment"]],
        "samples are in another split": [one for one in both if wanted[one]["split"] != found[one]["split"]],
    }
    told = [f"{len(ids):,} {what} ({', '.join(ids[:_SHOWN])})" for what, ids in parts.items() if ids]
    return told or ["the samples are the same, their answers or facts are not"]


def _other_records(shared: Mapping[str, Any], built: Mapping[str, Any]) -> list[str]:
    """Records are of the people asked about: compared where those are the same."""
    if shared["records"] is None or {one["id"] for one in shared["samples"]} != {one["id"] for one in built["samples"]}:
        return []
    found = RecordsOfPeople(**built["records"]).difference(RecordsOfPeople(**shared["records"]))
    return [] if found is None else [found]


def _must_be_built_here(benchmark: Benchmark) -> None:
    """UserError: the manifest does not say all that it was built with."""
    if "reclocked" in benchmark.manifest:
        raise UserError("it is another one on other clocks: share that one, wardround bench reclock makes this of it")
    if "recipe" not in benchmark.manifest:
        raise UserError("its manifest does not say all that it was built with: build it with wardround bench build")


def _records(benchmark: Benchmark, store: Store | None, report: Reporter) -> dict[str, Any] | None:
    if benchmark.told:
        return None
    if store is None:
        raise UserError("its people's records are hashed, to be compared with another site's: --store FOLDER")
    if store.digest != benchmark.manifest["source"]["store_digest"]:
        raise UserError(f"{store.path} is not the store that it was built from")
    return records_of_people(store, (one.subject_id for one in benchmark.all_samples), report=report).to_json()


def _definition(name: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """What a task asks: its table, its candidate space, its prompt with the hash, its kind of answer."""
    kept = {part: said[part] for part in ("title", "candidate_space", "prompt") if part in said}
    return kept | {"answer": get_task(name).answer.to_json()}


def _question(sample: Sample) -> dict[str, str | None]:
    moment = None if sample.prediction_time is None else format_time(sample.prediction_time)
    return {"id": sample.id, "moment": moment, "split": sample.split}
