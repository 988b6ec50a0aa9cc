"""Building a shared benchmark again: each family by its own door, with what the recipe says and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from wardround.benchmarks.agentehr import build_agentehr
from wardround.benchmarks.benchmark import Benchmark, must_be_new
from wardround.benchmarks.clinseek import build_clinseek
from wardround.benchmarks.clinseek_mm import build_clinseek_mm
from wardround.benchmarks.ehrshot import build_ehrshot
from wardround.benchmarks.given_files import GivenFiles
from wardround.benchmarks.own import OWN_TASKS, build_own, read_label_table, read_task_file
from wardround.benchmarks.own.questions import OwnTask
from wardround.benchmarks.pipeline import BuildSettings
from wardround.benchmarks.sharing.shared import difference, share
from wardround.benchmarks.told import TOLD_FAMILIES, build_told
from wardround.benchmarks.told.build import CaseFiles
from wardround.benchmarks.trace.build import build_trace
from wardround.core import Reporter, UserError, silent
from wardround.records import Store

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
