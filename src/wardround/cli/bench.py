"""``wardround bench``: build or show a benchmark."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TypedDict

from wardround.benchmarks import (
    CLINSEEK_TASKS,
    EHRSHOT_TASKS,
    SPLITS,
    STRATA,
    TOLD_FAMILIES,
    Benchmark,
    Sample,
    Task,
    build_clinseek,
    build_clinseek_mm,
    build_ehrshot,
    build_trace,
    reclock,
)
from wardround.benchmarks.agentehr import build_agentehr
from wardround.benchmarks.own import OWN_TASKS
from wardround.benchmarks.split import DEFAULT_FRACTIONS, Fractions
from wardround.cli.bench_examples import configure_examples, write_manifest
from wardround.cli.bench_own import OWN_OPTIONS, add_own_options, build_from_files, build_from_labels
from wardround.cli.bench_share import (
    SHARE_EXAMPLES,
    configure_rebuild,
    configure_share,
    rebuild_benchmark,
    share_benchmark,
)
from wardround.cli.bench_told import TOLD_OPTIONS, add_told_options, build_from_cases
from wardround.cli.card import print_card, print_warnings
from wardround.cli.executors import add_executor_options
from wardround.cli.json_output import add_json_option, print_json
from wardround.cli.paths import user_codes_home
from wardround.cli.progress import TerminalProgress
from wardround.cli.table import print_rows
from wardround.core import UserError
from wardround.records import Store
from wardround.runs.honesty import honesty_card
from wardround.scoring import trivial_scores

EXAMPLES = """
  wardround bench build agentehr --store store --out bench
  wardround bench build agentehr --store store --out bench-published --policy published --per-task 600
  wardround bench build ehrshot --store store --out bench-ehrshot --task guo_los lab_anemia --per-task 200
  wardround bench build clinseek --store store --out bench-clinseek --per-task 40
  wardround bench build agentehr --store store --out bench --fractions 0.5 0.2 0.3
  wardround bench build clinseek-mm --store store --out bench-films --hide-vocabulary
  wardround bench examples ehrxqa ehrxqa/test.json --store store --out examples.jsonl
  wardround bench examples medmod decompensation/test_listfile.csv --store store --out examples.jsonl
  wardround bench build clinseek-mm --store store --examples examples.jsonl --out bench-films
  wardround bench build labels --store store --out bench-sepsis --labels sepsis.csv --question "Sepsis within a day?"
  wardround bench build tasks --store store --out bench-own --task-file creatinine.toml next_ward.toml
  wardround bench build ehrshot --store store --out bench-ehrshot --workers 15 --executor ray
  wardround bench build trace --store store --out bench-stays --unit icu
  wardround bench build medr-bench --cases train.json --test-cases test.json --out bench-medr
  wardround bench build medagentsbench --test-cases questions.jsonl --out bench-questions
  wardround bench reclock bench-clinseek --policy published --out bench-leaking
  wardround bench show bench
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="build a benchmark from a store", examples=EXAMPLES)
    build.add_argument("name", choices=list(_BUILDERS), help="which benchmark")
    build.add_argument("--store", type=Path, help="folder of the store (not for cases told in words)")
    build.add_argument("--out", type=Path, required=True, help="folder of the benchmark to make")
    build.add_argument("--seed", type=int, default=0, help="seed of splits and sampling")
    build.add_argument(
        "--per-task",
        type=int,
        default=None,
        help="most samples of a task in each stratum of each split (600, of clinseek 40); 0: all (not agentehr)",
    )
    build.add_argument(
        "--policy", choices=["known_at", "published"], default="known_at", help="clocks; published are the papers' own"
    )
    build.add_argument(
        "--fractions",
        nargs=3,
        type=float,
        default=DEFAULT_FRACTIONS,
        metavar=("TRAIN", "DEV", "TEST"),
        help="shares of people in the splits, where the data set has none of its own",
    )
    add_executor_options(build)
    only = build.add_argument_group("ehrshot, clinseek")
    named = [*EHRSHOT_TASKS, *CLINSEEK_TASKS, *OWN_TASKS.names]
    only.add_argument("--task", nargs="+", default=[], choices=named, help="only these; of tasks: those of plug-ins")
    only.add_argument(
        "--per-subject", type=int, default=None, help="most samples of a task from one subject; labels and tasks too"
    )
    only.add_argument("--chexpert-labels", type=Path, default=None, help="CSV file of CheXpert labels by report id")
    only.add_argument(
        "--allow-missing",
        action="store_true",
        help="ehrshot: tasks may lack their codes in the store; clinseek: offer a class that is never the answer",
    )
    only.add_argument(
        "--as-they-come", action="store_true", help="risks as often as they are, not half of the answers yes"
    )
    only.add_argument(
        "--common-candidates",
        action="store_true",
        help="decisions list the commonest names, not their target among others drawn by the seed",
    )
    stays = build.add_argument_group("trace")
    stays.add_argument("--unit", choices=("icu", "hospital"), help="what a stay is (default: icu)")
    films = build.add_argument_group("clinseek-mm")
    films.add_argument("--examples", type=Path, help="manifest of examples (JSON lines); default: of the store's films")
    films.add_argument("--reports", action="store_true", help="ask when the latest film's report is there")
    films.add_argument("--hide-vocabulary", action="store_true", help="list the names of answers to neither arm")
    add_own_options(build)
    add_told_options(build)
    examples = actions.add_parser("examples", help="a manifest of a data set's own questions", examples=EXAMPLES)
    configure_examples(examples)
    again = actions.add_parser("reclock", help="the same questions on other clocks", examples=EXAMPLES)
    again.add_argument("folder", type=Path, help="folder of a built benchmark")
    again.add_argument("--policy", choices=["known_at", "published"], default="published", help="the other clocks")
    again.add_argument("--out", type=Path, required=True, help="folder of the benchmark to make")
    configure_share(actions.add_parser("share", help="for another site: ids, no answers", examples=SHARE_EXAMPLES))
    configure_rebuild(actions.add_parser("rebuild", help="build a shared one again", examples=SHARE_EXAMPLES))
    show = actions.add_parser("show", help="say what a benchmark holds", examples=EXAMPLES)
    show.add_argument("folder", type=Path, help="folder of a built benchmark")
    for action in (build, examples, again, show):
        add_json_option(action)


def run(arguments: argparse.Namespace) -> int:
    """Build, convert, share, put on other clocks, or show."""
    elsewhere = {"examples": write_manifest, "share": share_benchmark, "rebuild": rebuild_benchmark}
    if arguments.action in elsewhere:
        return elsewhere[arguments.action](arguments)
    if arguments.action == "show":
        _print(Benchmark.open(arguments.folder), arguments)
        return 0
    if arguments.action == "reclock":
        _print(reclock(Benchmark.open(arguments.folder), arguments.policy, arguments.out), arguments)
        return 0
    _check_options(arguments)
    if arguments.per_task is None:
        arguments.per_task = _PER_TASK.get(arguments.name, 600)
    progress = TerminalProgress()
    benchmark = _BUILDERS[arguments.name](arguments, progress)
    progress.close()
    _print(benchmark, arguments)
    if not arguments.json:
        print(f"\nbenchmark: {arguments.out}")
    return 0


def _print(benchmark: Benchmark, arguments: argparse.Namespace) -> None:
    if arguments.json:
        counts = Counter((sample.task, sample.split) for sample in benchmark.all_samples)
        samples = [{"task": task, "split": split, "samples": number} for (task, split), number in counts.items()]
        print_json({"name": benchmark.name, "samples": samples, "manifest": benchmark.manifest})
    else:
        _show(benchmark)


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise UserError for an option of another kind of benchmark, and where a store is missing."""
    if arguments.store is None and arguments.name not in TOLD_FAMILIES:
        raise UserError(f"{arguments.name} is built from a store: --store FOLDER")
    for name, kinds in (_OPTIONS_OF | OWN_OPTIONS | TOLD_OPTIONS).items():
        if getattr(arguments, name) and arguments.name not in kinds:
            option = {"classes": "class"}.get(name, name).replace("_", "-")
            raise UserError(f"--{option} is for {' and '.join(kinds)}, not for {arguments.name}")


class _Drawn(TypedDict):
    """What every family is told: how its people are split and its samples drawn."""

    seed: int
    fractions: Fractions
    per_task: int
    workers: int
    executor: str
    report: TerminalProgress


def _drawn(arguments: argparse.Namespace, progress: TerminalProgress) -> _Drawn:
    train, dev, test = arguments.fractions
    return {
        "seed": arguments.seed,
        "fractions": (train, dev, test),
        "per_task": arguments.per_task,
        "workers": arguments.workers,
        "executor": arguments.executor,
        "report": progress,
    }


def _build_agentehr(arguments: argparse.Namespace, progress: TerminalProgress) -> Benchmark:
    return build_agentehr(
        Store.open(arguments.store),
        arguments.out,
        **_drawn(arguments, progress),
        policy=arguments.policy,
        user_codes=user_codes_home(),
    )


def _build_ehrshot(arguments: argparse.Namespace, progress: TerminalProgress) -> Benchmark:
    return build_ehrshot(
        Store.open(arguments.store),
        arguments.out,
        **_drawn(arguments, progress),
        policy=arguments.policy,
        tasks=arguments.task,
        per_subject=arguments.per_subject,
        allow_missing=arguments.allow_missing,
        chexpert_labels=arguments.chexpert_labels,
    )


def _build_clinseek(arguments: argparse.Namespace, progress: TerminalProgress) -> Benchmark:
    return build_clinseek(
        Store.open(arguments.store),
        arguments.out,
        **_drawn(arguments, progress),
        policy=arguments.policy,
        tasks=arguments.task,
        balanced=not arguments.as_they_come,
        listing="common" if arguments.common_candidates else "target",
        allow_missing=arguments.allow_missing,
        user_codes=user_codes_home(),
    )


def _build_trace(arguments: argparse.Namespace, progress: TerminalProgress) -> Benchmark:
    if arguments.policy != "known_at":
        raise UserError("trace has no published clocks: a bundle is what became known within an hour")
    return build_trace(
        Store.open(arguments.store),
        arguments.out,
        **_drawn(arguments, progress),
        unit=arguments.unit or "icu",
    )


def _build_clinseek_mm(arguments: argparse.Namespace, progress: TerminalProgress) -> Benchmark:
    return build_clinseek_mm(
        Store.open(arguments.store),
        arguments.out,
        **_drawn(arguments, progress),
        policy=arguments.policy,
        examples=arguments.examples,
        reports=arguments.reports,
        vocabulary_shown=not arguments.hide_vocabulary,
    )


_BUILDERS: dict[str, Callable[[argparse.Namespace, TerminalProgress], Benchmark]] = {
    "agentehr": _build_agentehr,
    "ehrshot": _build_ehrshot,
    "clinseek": _build_clinseek,
    "clinseek-mm": _build_clinseek_mm,
    "trace": _build_trace,
    "labels": build_from_labels,
    "tasks": build_from_files,
    **dict.fromkeys(TOLD_FAMILIES, build_from_cases),
}
_PER_TASK = {"clinseek": 40, "clinseek-mm": 0}
"""Of the papers; 600 where nothing is said."""
_OPTIONS_OF = {
    "task": ("ehrshot", "clinseek", "tasks"),
    "as_they_come": ("clinseek",),
    "common_candidates": ("clinseek",),
    "examples": ("clinseek-mm",),
    "reports": ("clinseek-mm",),
    "hide_vocabulary": ("clinseek-mm",),
    "per_subject": ("ehrshot", "labels", "tasks"),
    "chexpert_labels": ("ehrshot",),
    "allow_missing": ("ehrshot", "clinseek"),
    "unit": ("trace",),
}


def _show(benchmark: Benchmark) -> None:
    print(f"{benchmark.name}, clock policy {benchmark.policy}, {len(benchmark.all_samples):,} samples")
    assumptions = benchmark.manifest["source"].get("assumptions", ()) if benchmark.policy == "known_at" else ()
    for assumption in assumptions:
        print(assumption)
    by_class = [task for task in benchmark.tasks if task.answer.label_values]
    others = [task for task in benchmark.tasks if not task.answer.label_values]
    if others:
        _show_names(benchmark, others)
    if by_class:
        _show_classes(benchmark, by_class)
    test = {sample.id for sample in benchmark.samples(split="test")}
    if test:
        card = honesty_card(trivial_scores(benchmark, test), intervals=False)
        print_card(card)
        print_warnings(card)
    _show_missing(benchmark)
    _show_published_counts(benchmark)
    for what, kinds in _kinds(benchmark).items():
        print(f"{what}: {', '.join(f'{kind or 0} {count:,}' for kind, count in kinds.items())}")
    drops = benchmark.manifest.get("drops") or {}
    for task, reasons in drops.items():
        text = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
        if text:
            print(f"left out of {task}: {text}")


def _show_missing(benchmark: Benchmark) -> None:
    """Say once for all tasks that it keeps from being built why they are not there, or are there without a sample."""
    reasons: dict[str, list[str]] = {}
    for name, said in benchmark.manifest.get("tasks", {}).items():
        for what in ("unavailable", "skipped"):
            if what in said:
                reasons.setdefault(f"unavailable: {said[what].removeprefix(f'{name}: ')}", []).append(name)
    for reason, names in reasons.items():
        print(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {reason}")
    for name, said in benchmark.manifest.get("tasks", {}).items():
        for line in said.get("matches_no_row", ()):
            print(f"! {name}: {line}")
    never = {
        name: said["never_the_answer"]
        for name, said in benchmark.manifest.get("tasks", {}).items()
        if "never_the_answer" in said
    }
    if never:
        print(
            "offered and never the answer: " + "; ".join(f"{name} {', '.join(found)}" for name, found in never.items())
        )


def _show_published_counts(benchmark: Benchmark) -> None:
    """Print which tasks hold another number of cases than their authors publish."""
    for name, facts in benchmark.manifest.get("tasks", {}).items():
        published = facts.get("cases_as_published")
        if published and published != facts["samples"]:
            print(f"{name}: {facts['samples']:,} cases; its authors publish {published:,}")


def _kinds(benchmark: Benchmark) -> dict[str, dict[str, int]]:
    """Return, by what it counted as, how many rows of each kind there were, where a source has kinds of visits."""
    said = {"stays": "visits that are stays, by kind", "no stays": "visits that are none, by kind"}
    said["undeclared"] = "WARNING: visits of kinds that are not declared, so no stays"
    counted = benchmark.manifest.get("stays", {})
    found = {
        text: {kind: counts[what] for kind, counts in counted.items() if what in counts} for what, text in said.items()
    }
    return {text: kinds for text, kinds in found.items() if kinds}


def _show_classes(benchmark: Benchmark, tasks: list[Task]) -> None:
    rows = []
    for task in tasks:
        samples = benchmark.samples(task.name)
        counts = Counter(label for sample in samples for label in sample.target)
        classes = task.answer.class_names.items()
        shown = [(value, name) for value, name in classes if counts[value] or not task.answer.several]
        by_class = ", ".join(f"{counts[value]} {name}" for value, name in shown)
        by_split = (str(len(benchmark.samples(task.name, split))) for split in SPLITS)
        rows.append((task.name, str(len(samples)), *by_split, by_class))
    print_rows(("task", "samples", *SPLITS, "classes"), rows)


def _ceilings(samples: Sequence[Sample], wanted: bool) -> tuple[str, ...]:
    """The share of targets that questions list, and that can be reached at all: what an oracle recalls in each arm."""
    if not wanted:
        return ()
    listed = fmean(float(one.facts.get("listed_share", 0.0)) for one in samples)
    reachable = fmean(1 - len(one.unwinnable) / len(one.target) for one in samples)
    return f"{listed:.1%}", f"{reachable:.1%}"


def _show_names(benchmark: Benchmark, tasks: list[Task]) -> None:
    strata = [stratum for stratum in STRATA if stratum != "any"]
    ceilings = any("listed_share" in one.facts for one in benchmark.all_samples)
    rows = []
    for task in tasks:
        samples = benchmark.samples(task.name)
        space = benchmark.space(task)
        wanted = sum(len(sample.target) for sample in samples)
        rows.append(
            (
                task.name,
                str(len(samples)),
                *(str(len(benchmark.samples(task.name, split))) for split in SPLITS),
                *(str(len(benchmark.samples(task.name, None, stratum))) for stratum in strata),
                "" if space is None else str(len(space.labels.labels)),
                f"{wanted / len(samples):.2f}",
                f"{sum(len(sample.unwinnable) for sample in samples) / wanted:.1%}",
                *_ceilings(samples, ceilings),
            )
        )
    more = ("listed", "reachable") if ceilings else ()
    header = ("task", "samples", *SPLITS, *strata, "candidates", "labels/sample", "unwinnable", *more)
    print_rows(header, rows)
