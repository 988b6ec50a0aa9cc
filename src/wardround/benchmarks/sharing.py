"""A benchmark to share: which questions, as of when, in which split, a hash of the whole; no answer, no record text.

Another site that is licensed for the same records builds it again and compares. Strata are left out, which the answers
decide, and so are hashes of single samples: an answer of two classes is guessed from its hash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wardround.benchmarks.agentehr import build_agentehr
from wardround.benchmarks.benchmark import Benchmark, must_be_new
from wardround.benchmarks.sample import Sample
from wardround.benchmarks.task import get_task
from wardround.core import Reporter, UserError, format_time, silent, write_atomically
from wardround.records import Store

SHARE_SCHEMA = 1
_RECIPE = ("kind", "seed", "fractions", "per_task", "policy", "label_maps")
_SOURCE = ("name", "spec_sha256", "store_digest")
_SHOWN = 3


def share(benchmark: Benchmark) -> dict[str, Any]:
    """Return what may be shared of a benchmark. UserError: no other site could build it from that."""
    if benchmark.kind != "agentehr":
        raise UserError(f"only benchmarks of the family agentehr can be shared so far, not {benchmark.kind!r}")
    said = benchmark.manifest
    body = {
        "schema": SHARE_SCHEMA,
        "name": benchmark.name,
        "wardround": said["wardround"],
        "recipe": {name: said[name] for name in _RECIPE},
        "source": {name: said["source"][name] for name in _SOURCE},
        "tasks": {task.name: _definition(task.name, said["tasks"][task.name]) for task in benchmark.tasks},
        "samples": [_question(sample) for sample in benchmark.all_samples],
        "samples_sha256": said["samples_sha256"],
    }
    told: dict[str, Any] = json.loads(json.dumps(body))  # as it is read back, to be compared with
    return told


def write_share(benchmark: Benchmark, file: Path) -> None:
    """Write what may be shared as JSON, a line per sample."""
    body = share(benchmark)
    lines = ",\n".join(json.dumps(sample) for sample in body.pop("samples"))
    head = json.dumps(body, indent=1)
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


def rebuild(
    shared: Mapping[str, Any], store: Store, folder: Path, *, user_codes: Path | None = None, report: Reporter = silent
) -> Benchmark:
    """Build a shared benchmark again. UserError: what differs, in one line; what was built then stays."""
    must_be_new(folder)
    recipe = shared["recipe"]
    train, dev, test = recipe["fractions"]
    built = build_agentehr(
        store,
        folder,
        seed=recipe["seed"],
        fractions=(train, dev, test),
        per_task=recipe["per_task"],
        policy=recipe["policy"],
        user_codes=user_codes,
        report=report,
    )
    found = difference(shared, built)
    if found is not None:
        raise UserError(f"{folder} is not the benchmark that was shared: {found}")
    return built


def difference(shared: Mapping[str, Any], built: Benchmark) -> str | None:
    """Say in one line what differs from what was shared; None where every byte of the samples is the same."""
    if built.manifest["samples_sha256"] == shared["samples_sha256"]:
        return None
    here = share(built)
    wanted, found = ({one["id"]: one for one in body["samples"]} for body in (shared, here))
    both = sorted(wanted.keys() & found.keys())
    parts = {
        "samples are missing": sorted(wanted.keys() - found.keys()),
        "samples are not of it": sorted(found.keys() - wanted.keys()),
        "samples have another moment": [one for one in both if wanted[one]["moment"] != found[one]["moment"]],
        "samples are in another split": [one for one in both if wanted[one]["split"] != found[one]["split"]],
    }
    told = [f"{len(ids):,} {what} ({', '.join(ids[:_SHOWN])})" for what, ids in parts.items() if ids]
    told = told or ["the samples are the same, their answers or facts are not"]
    causes = [name for name in ("source", "tasks", "wardround", "recipe") if shared[name] != here[name]]
    return "; ".join(told) + (f"; other {', '.join(causes)}" if causes else "")


def _definition(name: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """What a task asks: its table, its candidate space, its prompt with the hash, its kind of answer."""
    kept = {part: said[part] for part in ("title", "table", "candidate_space", "prompt") if part in said}
    return kept | {"answer": get_task(name).answer.to_json()}


def _question(sample: Sample) -> dict[str, str]:
    return {"id": sample.id, "moment": format_time(sample.moment), "split": sample.split}
