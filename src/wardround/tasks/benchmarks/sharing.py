"""Share a benchmark without answers or record text, and rebuild it at another licensed site."""

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
from wardround.tasks.benchmarks.own import OWN_TASKS, build_own, read_aces_task, read_label_table, read_task_file
from wardround.tasks.benchmarks.own.labelling import OwnTask
from wardround.tasks.benchmarks.pipeline import BuildSettings
from wardround.tasks.benchmarks.text_cases import TEXT_CASE_FAMILIES, CaseFiles, build_text_cases
from wardround.tasks.benchmarks.trace import build_trace

# Compare the records of a benchmark's people in two stores: one hash of all their rows, and row counts.
#
# Charts come from these rows and clocks, so the same samples on other rows are another benchmark. Storage details
# (shards, compression) do not count. There is one hash for all rows: the hash of a few rows could be guessed.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsOfPeople:
    """The hash of all rows of some people, and the number of rows in each table."""

    sha256: str
    rows: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {"sha256": self.sha256, "rows": dict(self.rows)}

    def difference(self, other: RecordsOfPeople) -> str | None:
        """Describe how these records differ from the other site's; None where every row is the same."""
        if self.sha256 == other.sha256:
            return None
        tables = sorted(self.rows.keys() | other.rows.keys())
        counts = {name: (self.rows.get(name, 0), other.rows.get(name, 0)) for name in tables}
        differing = [f"{name} {other:,} rows, here {own:,}" for name, (own, other) in counts.items() if other != own]
        return f"other records of the benchmark's people ({', '.join(differing) or 'as many rows, other cells'})"


def records_of_people(store: Store, subjects: Iterable[int], *, report: Reporter = silent) -> RecordsOfPeople:
    """Return hash and counts of some people's records."""
    people, digest = sorted(set(subjects)), hashlib.sha256()
    rows = dict.fromkeys(sorted(store.table_names), 0)
    for done, subject in enumerate(people):
        report(Progress(label="records", done=done, total=len(people), unit="subjects"))
        for name in rows:
            batch = store.rows(subject, name, versions=True)
            rows[name] += batch.num_rows
            digest.update(f"{subject} {name}\n".encode())
            digest.update(_as_csv(batch))
    return RecordsOfPeople(sha256=digest.hexdigest(), rows={name: count for name, count in rows.items() if count})


def _as_csv(rows: pa.RecordBatch) -> bytes:
    """Return the rows as CSV in their order: equal for equal cells, however they are stored."""
    text = io.BytesIO()
    pyarrow.csv.write_csv(rows, text)
    return text.getvalue()


# The shared file: the questions with their prediction times and splits, and hashes of the whole.
#
# It has no answer and no record text. Strata are left out because the answers decide them. Hashes of single samples are
# left out because an answer of two classes can be guessed from its hash.


SHARE_SCHEMA = 1
_SOURCE = ("name", "spec_sha256", "store_digest")
_SHOWN = 3


def share(benchmark: Benchmark, store: Store | None, *, report: Reporter = silent) -> dict[str, Any]:
    """Return the shareable part of a benchmark.

    ``store``: the store it was built from; None where it has none. UserError: no other site could rebuild it, or the
    store is another one.
    """
    manifest = benchmark.manifest
    if "reclocked" in manifest:
        raise UserError(
            "it is another benchmark on other clocks: share that one; wardround bench reclock makes this one from it"
        )
    if "recipe" not in manifest:
        raise UserError("its manifest does not record how it was built: build it again with wardround bench build")
    tasks, samples = {}, []
    for task in benchmark.tasks:
        facts = manifest["tasks"][task.name]
        kept = {part: facts[part] for part in ("title", "candidate_space", "prompt") if part in facts}
        tasks[task.name] = kept | {"answer": task.answer.to_json()}
    for sample in benchmark.all_samples:
        moment = None if sample.prediction_time is None else format_time(sample.prediction_time)
        samples.append({"id": sample.id, "moment": moment, "split": sample.split})
    body = {
        "schema": SHARE_SCHEMA,
        "name": benchmark.name,
        "kind": benchmark.kind,
        "wardround": manifest["wardround"],
        "recipe": manifest["recipe"],
        "label_maps": manifest.get("label_maps"),
        "source": {name: manifest["source"].get(name) for name in _SOURCE},
        "records": _records(benchmark, store, report),
        "tasks": tasks,
        "samples": samples,
        "samples_sha256": manifest["samples_sha256"],
    }
    shared: dict[str, Any] = json.loads(json.dumps(body))  # as read from a file, for comparing
    return shared


def write_share(body: Mapping[str, Any], file: Path) -> None:
    """Write the shared file as JSON, one line per sample."""
    lines = ",\n".join(json.dumps(sample) for sample in body["samples"])
    head = json.dumps({name: part for name, part in body.items() if name != "samples"}, indent=1)
    write_atomically(file, f'{head[:-2]},\n "samples": [\n{lines}\n ]\n}}\n')


def read_share(file: Path) -> dict[str, Any]:
    """Read a shared file. UserError: this version cannot read it."""
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} is not a shared benchmark: {error}") from error
    if not isinstance(body, dict) or body.get("schema") != SHARE_SCHEMA or "recipe" not in body:
        raise UserError(
            f"{file} is not a shared benchmark of schema {SHARE_SCHEMA}; write one with wardround bench share"
        )
    return body


def difference(shared: Mapping[str, Any], built: Mapping[str, Any]) -> str | None:
    """Describe in one line how a rebuilt benchmark differs from the shared one.

    None where the samples and the records of their people are the same, byte for byte.
    """
    differences = [*_other_samples(shared, built), *_other_records(shared, built)]
    if not differences:
        return None
    parts = ("source", "label_maps", "tasks", "wardround", "recipe")
    causes = [name.replace("_", " ") for name in parts if shared[name] != built[name]]
    return "; ".join(differences) + (f"; other {', '.join(causes)}" if causes else "")


def _other_samples(shared: Mapping[str, Any], built: Mapping[str, Any]) -> list[str]:
    if built["samples_sha256"] == shared["samples_sha256"]:
        return []
    wanted, rebuilt = ({sample["id"]: sample for sample in body["samples"]} for body in (shared, built))
    both = sorted(wanted.keys() & rebuilt.keys())
    parts = {
        "samples are missing": sorted(wanted.keys() - rebuilt.keys()),
        "samples are extra": sorted(rebuilt.keys() - wanted.keys()),
        "samples have another moment": [
            sample for sample in both if wanted[sample]["moment"] != rebuilt[sample]["moment"]
        ],
        "samples are in another split": [
            sample for sample in both if wanted[sample]["split"] != rebuilt[sample]["split"]
        ],
    }
    messages = [f"{len(ids):,} {what} ({', '.join(ids[:_SHOWN])})" for what, ids in parts.items() if ids]
    return messages or ["the samples are the same, their answers or facts are not"]


def _other_records(shared: Mapping[str, Any], built: Mapping[str, Any]) -> list[str]:
    """Compare the records of the people, where the samples are the same."""
    if shared["records"] is None or {one["id"] for one in shared["samples"]} != {one["id"] for one in built["samples"]}:
        return []
    difference = RecordsOfPeople(**built["records"]).difference(RecordsOfPeople(**shared["records"]))
    return [] if difference is None else [difference]


def _records(benchmark: Benchmark, store: Store | None, report: Reporter) -> dict[str, Any] | None:
    if benchmark.is_text_cases:
        return None
    if store is None:
        raise UserError("the records of its people must be hashed for the other site: give --store FOLDER")
    if store.digest != benchmark.manifest["source"]["store_digest"]:
        raise UserError(f"{store.path} is not the store that it was built from")
    return records_of_people(store, (sample.subject_id for sample in benchmark.all_samples), report=report).to_json()


# Rebuild a shared benchmark: each family by its own builder, from the recipe and nothing else.


Recipe = Mapping[str, Any]
"""The build settings in a benchmark's manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The inputs of a site: its store (None for text cases), the user's files, the user's code tables."""

    store: Store | None
    given: GivenFiles
    user_codes: Path | None
    report: Reporter

    @property
    def records(self) -> Store:
        """The store. UserError: the site has none."""
        if self.store is None:
            raise UserError("it is built from a store of the same records: give --store FOLDER")
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
    """Build a shared benchmark again. ``given``: the user's own files that it was built with.

    UserError describes the differences in one line; the built folder is kept for inspection.
    """
    must_be_new(folder)
    builder = _BUILDERS.get(shared["kind"])
    if builder is None:
        raise UserError(f"this version cannot build benchmarks of the family {shared['kind']!r}")
    site = Site(store=store, given=GivenFiles(paths=tuple(given)), user_codes=user_codes, report=report)
    built = builder(shared["recipe"], site, folder)
    differences = difference(shared, share(built, store, report=report))
    if differences is not None:
        raise UserError(f"{folder} is not the benchmark that was shared: {differences}")
    return built


def _draw_options(recipe: Recipe, site: Site) -> dict[str, Any]:
    """Return the options that every family has for splits and draws."""
    shared_options = {name: recipe[name] for name in ("seed", "per_task")}
    return {**shared_options, "fractions": tuple(recipe["fractions"]), "report": site.report}


def _with_codes(build: Callable[..., Benchmark], recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    """Build a family whose labels come from code tables, which may be the site's own."""
    more = {"policy": recipe["policy"], "user_codes": site.user_codes, **recipe["options"]}
    return build(site.records, folder, **_draw_options(recipe, site), **more)


def _with_one_file(build: Callable[..., Benchmark], file: str, recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    """Build a family that has one option with a file."""
    options = dict(recipe["options"])
    file_entry = options.pop(file)
    options[file] = None if file_entry is None else site.given.find(file_entry)
    return build(site.records, folder, **_draw_options(recipe, site), policy=recipe["policy"], **options)


def _ehrshot(recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    build = partial(build_ehrshot, per_subject=recipe["per_subject"])
    return _with_one_file(build, "chexpert_labels", recipe, site, folder)


def _trace(recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    return build_trace(site.records, folder, **_draw_options(recipe, site), **recipe["options"])


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


def _own_task(built_from: Recipe, site: Site) -> OwnTask:
    if "task_file" in built_from:
        return read_task_file(site.given.find(built_from["task_file"]), site.records.spec)
    if "aces" in built_from:
        options = {name: part for name, part in built_from.items() if name != "aces"}
        return read_aces_task(site.given.find(built_from["aces"]), site.records, report=site.report, **options)
    if "label_table" in built_from:
        options = {name: part for name, part in built_from.items() if name != "label_table"}
        classes = [(value, meaning) for value, meaning in options.pop("classes")]
        return read_label_table(site.given.find(built_from["label_table"]), classes=classes, **options)
    return OWN_TASKS.get(built_from["plugin"])(site.records.spec)


def _text_cases(family: str, recipe: Recipe, site: Site, folder: Path) -> Benchmark:
    options = recipe["options"]
    files = CaseFiles(cases=site.given.find_all(options["cases"]), test=site.given.find_all(options["test"]))
    return build_text_cases(
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
    **{family: partial(_text_cases, family) for family in TEXT_CASE_FAMILIES},
}
"""Builders by the kind that a manifest declares."""


# Public names.


__all__ = [
    "RecordsOfPeople",
    "difference",
    "read_share",
    "rebuild",
    "records_of_people",
    "share",
    "write_share",
]
