"""Share a benchmark without answers or record text, and rebuild it on another licensed site."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from wardround.core import Progress, Reporter, UserError, format_time, silent, write_atomically
from wardround.records import Store
from wardround.tasks.benchmarks.agentehr import build_agentehr
from wardround.tasks.benchmarks.benchmark import Benchmark, GivenFiles, must_be_new
from wardround.tasks.benchmarks.clinseek import build_clinseek
from wardround.tasks.benchmarks.clinseek_mm import build_clinseek_mm
from wardround.tasks.benchmarks.ehrshot import build_ehrshot
from wardround.tasks.benchmarks.own import OWN_TASKS, build_own, read_label_table, read_task_file
from wardround.tasks.benchmarks.own.labelling import OwnTask
from wardround.tasks.benchmarks.pipeline import BuildSettings
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.task import get_task
from wardround.tasks.benchmarks.text_cases import TOLD_FAMILIES, build_told
from wardround.tasks.benchmarks.text_cases.build import CaseFiles
from wardround.tasks.benchmarks.trace import build_trace

# Whether two stores hold the same of the people that a benchmark asks about: one hash of all their rows, and counts.
#
# Charts are made of these rows, clocks and all, so the same samples on other rows are another benchmark. How a store is
# packed (shards, compression) is no part of it. One hash of all: what a few rows hold could be guessed from theirs.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsOfPeople:
    """The hash of all rows of some people, and how many there are in each table."""

    sha256: str
    rows: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {"sha256": self.sha256, "rows": dict(self.rows)}

    def difference(self, other: RecordsOfPeople) -> str | None:
        """Say how these, here, differ from the other site's; None where every row is the same."""
        if self.sha256 == other.sha256:
            return None
        tables = sorted(self.rows.keys() | other.rows.keys())
        counts = {name: (self.rows.get(name, 0), other.rows.get(name, 0)) for name in tables}
        told = [f"{name} {there:,} rows, here {here:,}" for name, (here, there) in counts.items() if there != here]
        return f"other records of the people asked about ({', '.join(told) or 'as many rows, other cells'})"


def records_of_people(store: Store, subjects: Iterable[int], *, report: Reporter = silent) -> RecordsOfPeople:
    """Return what a store holds of some people, for comparing."""
    people, digest = sorted(set(subjects)), hashlib.sha256()
    rows = dict.fromkeys(sorted(store.table_names), 0)
    for done, subject in enumerate(people):
        report(Progress(label="records", done=done, total=len(people), unit="subjects"))
        for name in rows:
            held = store.rows(subject, name, versions=True)
            rows[name] += held.num_rows
            digest.update(f"{subject} {name}\n".encode())
            digest.update(_text_of(held))
    return RecordsOfPeople(sha256=digest.hexdigest(), rows={name: count for name, count in rows.items() if count})


def _text_of(rows: pa.RecordBatch) -> bytes:
    """The rows as CSV, in their order: the same for the same cells, whatever they are stored as."""
    text = io.BytesIO()
    pyarrow.csv.write_csv(rows, text)
    return text.getvalue()


# What may be shared of a benchmark: which questions, as of when, in which split, hashes of the whole.
#
# No answer and no record text. Strata are left out, which the answers decide, and so are hashes of single samples: an
# answer of two classes is guessed from its hash.


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


# Building a shared benchmark again: each family by its own door, with what the recipe says and nothing else.


Recipe = Mapping[str, Any]
"""What a benchmark's manifest says it was built with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a site has to build with: its store (none for cases told in words), its files, its code tables."""

    store: Store | None
    given: GivenFiles
    user_codes: Path | None
    report: Reporter

    @property
    def records(self) -> Store:
        """The store. UserError: there is none."""
        if self.store is None:
            raise UserError("it is built from a store of the same records: --store FOLDER")
        return self.store


def rebuild(
    shared: Mapping[str, Any],
    store: Store | None,
    folder: Path,
    *,
    given: Sequence[Path] = (),
    user_codes: Path | None = None,
    report: Reporter = silent,
) -> Benchmark:
    """Build a shared benchmark again. ``given``: the files of the user's own that it was built with.

    UserError: what differs, in one line; what was built then stays, to be looked at.
    """
    must_be_new(folder)
    builder = _BUILDERS.get(shared["kind"])
    if builder is None:
        raise UserError(f"this version builds no benchmarks of the family {shared['kind']!r}")
    site = Site(store=store, given=GivenFiles(paths=tuple(given)), user_codes=user_codes, report=report)
    built = builder(shared["recipe"], site, folder)
    found = difference(shared, share(built, store, report=report))
    if found is not None:
        raise UserError(f"{folder} is not the benchmark that was shared: {found}")
    return built


def _drawn(recipe: Recipe, site: Site) -> dict[str, Any]:
    """What every family is told of how its people are split and its samples drawn."""
    taken = {name: recipe[name] for name in ("seed", "per_task")}
    return {**taken, "fractions": tuple(recipe["fractions"]), "report": site.report}


def _with_codes(build: Callable[..., Benchmark], recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    """Build a family whose labels come from code tables, some of them a site's own."""
    more = {"policy": recipe["policy"], "user_codes": site.user_codes, **recipe["options"]}
    return build(site.records, folder, **_drawn(recipe, site), **more)


def _with_one_file(build: Callable[..., Benchmark], file: str, recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    """Build a family one of whose options names a file."""
    options = dict(recipe["options"])
    named = options.pop(file)
    options[file] = None if named is None else site.given.find(named)
    return build(site.records, folder, **_drawn(recipe, site), policy=recipe["policy"], **options)


def _ehrshot(recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    build = partial(build_ehrshot, per_subject=recipe["per_subject"])
    return _with_one_file(build, "chexpert_labels", recipe, site, folder)


def _trace(recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    return build_trace(site.records, folder, **_drawn(recipe, site), **recipe["options"])


def _own(recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    settings = BuildSettings(
        seed=recipe["seed"],
        policy=recipe["policy"],
        per_task=recipe["per_task"],
        per_subject=recipe["per_subject"],
        fractions=tuple(recipe["fractions"]),
    )
    tasks = [_own_task(made_of, site) for made_of in recipe["options"]["tasks"]]
    return build_own(tasks, site.records, folder, settings, user_codes=site.user_codes, report=site.report)


def _own_task(made_of: Recipe, site: Site) -> OwnTask:
    if "task_file" in made_of:
        return read_task_file(site.given.find(made_of["task_file"]), site.records.spec)
    if "label_table" in made_of:
        said = {name: part for name, part in made_of.items() if name != "label_table"}
        classes = [(value, meaning) for value, meaning in said.pop("classes")]
        return read_label_table(site.given.find(made_of["label_table"]), classes=classes, **said)
    return OWN_TASKS.get(made_of["plugin"])(site.records.spec)


def _told(family: str, recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    options = recipe["options"]
    files = CaseFiles(cases=site.given.find_all(options["cases"]), test=site.given.find_all(options["test"]))
    return build_told(
        family,
        files,
        folder,
        seed=recipe["seed"],
        fractions=tuple(recipe["fractions"]),
        drop_overlaps=options["drop_overlaps"],
    )


_BUILDERS: dict[str, Callable[[Recipe, Site, Path], Benchmark]] = {
    "agentehr": partial(_with_codes, build_agentehr),
    "clinseek": partial(_with_codes, build_clinseek),
    "clinseek-mm": partial(_with_one_file, build_clinseek_mm, "examples"),
    "ehrshot": _ehrshot,
    "trace": _trace,
    "own": _own,
    **{family: partial(_told, family) for family in TOLD_FAMILIES},
}
"""By the kind that a manifest declares."""


# A benchmark for another licensed site: ids, moments, splits and hashes, from which it is built again and compared.


__all__ = [
    "RecordsOfPeople",
    "difference",
    "read_share",
    "rebuild",
    "records_of_people",
    "share",
    "write_share",
]
