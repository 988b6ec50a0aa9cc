"""``wardround bench``: build, show, share or rebuild a benchmark."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any

from wardround.cli.parser import Command, add_executor_options
from wardround.cli.scores import print_card, print_warnings
from wardround.cli.terminal import add_json_option, print_json, print_rows
from wardround.core import TerminalProgress, UserError, user_codes_home
from wardround.exports.aces import AcesCounts
from wardround.records import Store
from wardround.reports.baseline_card import baseline_card
from wardround.tasks.answers import AnswerClass
from wardround.tasks.benchmarks import (
    CLINSEEK_TASKS,
    EHRSHOT_TASKS,
    FAMILIES,
    SPLITS,
    STRATA,
    TEXT_CASE_FAMILIES,
    Benchmark,
    Conversion,
    Task,
    build_benchmark,
    convert_ehrxqa,
    convert_medmod,
    options_of,
    reclock,
    write_examples,
)
from wardround.tasks.benchmarks.drawing import DEFAULT_FRACTIONS
from wardround.tasks.benchmarks.own import OWN_TASKS
from wardround.tasks.benchmarks.sharing import read_share, rebuild, share, write_share
from wardround.tasks.scoring import trivial_scores

# ``wardround bench share`` and ``rebuild``: a benchmark for another licensed site, without answers or record text.


SHARE_EXAMPLES = """
  wardround bench share bench --store store --out bench.json
      ids, moments, splits, definitions and hashes; ids and moments are still under the data use agreement
  wardround bench rebuild bench.json --store store --out bench-again
      builds it here and prints a line on what differs, if anything
  wardround bench rebuild sepsis.json --store store --given sepsis.csv --out bench-sepsis
      with the files of one's own that it was built with, known by their hashes
  wardround bench share bench-medr --out medr.json
  wardround bench rebuild medr.json --given train.json test.json --out bench-medr
      cases described in words: from their files, without a store
"""


def configure_share(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``share``."""
    parser.add_argument("folder", type=Path, help="folder of a built benchmark")
    parser.add_argument("--store", type=Path, help="folder of its store, whose records are hashed (not for text cases)")
    parser.add_argument("--out", type=Path, required=True, help="file to write")


def configure_rebuild(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``rebuild``."""
    parser.add_argument("file", type=Path, help="what bench share wrote")
    parser.add_argument("--store", type=Path, help="folder of the store of the same records (not for text cases)")
    parser.add_argument(
        "--given", nargs="+", type=Path, default=[], metavar="FILE", help="files of your own it was built with"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the benchmark to make")


def share_benchmark(arguments: argparse.Namespace) -> int:
    """Write the benchmark without record text."""
    benchmark, progress = Benchmark.open(arguments.folder), TerminalProgress()
    try:
        write_share(share(benchmark, _store(arguments), report=progress), arguments.out)
    finally:
        progress.close()
    print(f"{len(benchmark.all_samples):,} samples without answers or record text: {arguments.out}")
    return 0


def rebuild_benchmark(arguments: argparse.Namespace) -> int:
    """Rebuild the benchmark and compare."""
    shared, progress = read_share(arguments.file), TerminalProgress()
    try:
        built = rebuild(
            shared,
            _store(arguments),
            arguments.out,
            given=arguments.given,
            user_codes=user_codes_home(),
            report=progress,
        )
    finally:
        progress.close()
    print(f"{len(built.all_samples):,} samples, the same byte for byte: {arguments.out}")
    return 0


def _store(arguments: argparse.Namespace) -> Store | None:
    return None if arguments.store is None else Store.open(arguments.store)


# ``wardround bench examples``: questions with pictures of EHRXQA's and MedMod's own files, as a manifest.


_CONVERTERS: Mapping[str, Callable[[Sequence[Path], Store], Conversion]] = {
    "ehrxqa": convert_ehrxqa,
    "medmod": convert_medmod,
}


def configure_examples(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", choices=tuple(_CONVERTERS), help="whose files")
    parser.add_argument(
        "files", nargs="+", type=Path, help="ehrxqa: train.json, valid.json, test.json; medmod: listfiles of its tasks"
    )
    parser.add_argument("--store", type=Path, required=True, help="folder of the store, with the films' tables")
    parser.add_argument("--out", type=Path, required=True, help="the manifest to write (JSON lines)")


def write_manifest(arguments: argparse.Namespace) -> int:
    """Convert, write, and print the number of examples of each task and what was left out."""
    made = _CONVERTERS[arguments.name](arguments.files, Store.open(arguments.store))
    if not made.examples:
        raise UserError(f"no question of these files fits this store; left out: {_counted(made.left_out)}")
    write_examples(made.examples, arguments.out)
    tasks = Counter(example.task for example in made.examples)
    if arguments.json:
        print_json({"examples": dict(tasks), "left_out": dict(made.left_out)})
        return 0
    print(f"{len(made.examples):,} examples: {arguments.out}")
    print(f"  {_counted(tasks)}\n  left out: {_counted(made.left_out)}")
    return 0


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items())) or "none"


# ``wardround bench build medr-bench | medagentsbench | text-cases``: cases described in words, from a user's files.


def add_text_case_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of cases described in words."""
    group = parser.add_argument_group(", ".join(TEXT_CASE_FAMILIES), "cases described in words: no store, no chart")
    group.add_argument(
        "--cases",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="cases, split by hash of report or question; a folder: its test_hard.jsonl files",
    )
    group.add_argument(
        "--test-cases",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="the test; --cases are then the rest",
    )
    group.add_argument(
        "--drop-overlaps",
        action="store_true",
        help="leave cases out of training that share a report or a question with the test, and count them",
    )


# ``wardround bench build labels | tasks``: benchmarks of a user's own questions.


def add_own_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a user's own labels and tasks."""
    labels = parser.add_argument_group("labels, own", "a table as MEDS has it: subject_id, prediction_time, *_value")
    labels.add_argument("--labels", type=Path, default=None, metavar="FILE", help="CSV or Parquet file of labels")
    labels.add_argument("--label-name", default=None, metavar="NAME", help="name of the task (default: the file's)")
    labels.add_argument("--question", default=None, metavar="TEXT", help="the question of the prompt")
    labels.add_argument(
        "--class",
        dest="classes",
        nargs="+",
        default=[],
        metavar="VALUE=MEANING",
        help="what integer or categorical values mean, the negative one first",
    )
    labels.add_argument("--aces", type=Path, default=None, metavar="FILE", help="own: a task file of ACES ([aces])")
    labels.add_argument("--cut", nargs="+", type=float, default=[], help="where classes of float values begin")
    tasks = parser.add_argument_group("tasks", "files that define question, prediction time and label")
    tasks.add_argument("--task-file", nargs="+", type=Path, default=[], metavar="FILE", help="one TOML file per task")


def _class(text: str) -> AnswerClass:
    value, sign, meaning = text.partition("=")
    if not sign or not value.strip() or not meaning.strip():
        raise UserError(f"--class takes VALUE=MEANING, such as 1=mild, not {text!r}")
    return value.strip(), meaning.strip()


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
  wardround bench build own --store store --out bench-death --aces death.yaml --question "Death in this stay?"
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
    build.add_argument("name", choices=list(FAMILIES), help="which benchmark")
    build.add_argument("--store", type=Path, help="folder of the store (not for cases described in words)")
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
    films.add_argument("--reports", action="store_true", help="ask once the latest film's report is available")
    films.add_argument("--hide-vocabulary", action="store_true", help="list the names of answers to neither arm")
    add_own_options(build)
    add_text_case_options(build)
    examples = actions.add_parser("examples", help="a manifest of a data set's own questions", examples=EXAMPLES)
    configure_examples(examples)
    again = actions.add_parser("reclock", help="the same questions on other clocks", examples=EXAMPLES)
    again.add_argument("folder", type=Path, help="folder of a built benchmark")
    again.add_argument("--policy", choices=["known_at", "published"], default="published", help="the other clocks")
    again.add_argument("--out", type=Path, required=True, help="folder of the benchmark to make")
    configure_share(actions.add_parser("share", help="for another site: ids, no answers", examples=SHARE_EXAMPLES))
    configure_rebuild(actions.add_parser("rebuild", help="build a shared one again", examples=SHARE_EXAMPLES))
    show = actions.add_parser("show", help="show the contents of a benchmark", examples=EXAMPLES)
    show.add_argument("folder", type=Path, help="folder of a built benchmark")
    for action in (build, examples, again, show):
        add_json_option(action)


def run(arguments: argparse.Namespace) -> int:
    """Run the action: build, convert, share, reclock or show."""
    elsewhere = {"examples": write_manifest, "share": share_benchmark, "rebuild": rebuild_benchmark}
    if arguments.action in elsewhere:
        return elsewhere[arguments.action](arguments)
    if arguments.action == "show":
        _print(Benchmark.open(arguments.folder), arguments)
        return 0
    if arguments.action == "reclock":
        _print(reclock(Benchmark.open(arguments.folder), arguments.policy, arguments.out), arguments)
        return 0
    progress = TerminalProgress()
    benchmark = _build(arguments, progress)
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


_KEYWORDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "task": ("tasks", tuple),
    "per_task": ("per_task", int),
    "per_subject": ("per_subject", int),
    "chexpert_labels": ("chexpert_labels", Path),
    "allow_missing": ("allow_missing", bool),
    "as_they_come": ("balanced", lambda given: not given),
    "common_candidates": ("listing", lambda given: "common"),
    "unit": ("unit", str),
    "examples": ("examples", Path),
    "reports": ("reports", bool),
    "hide_vocabulary": ("vocabulary_shown", lambda given: not given),
    "labels": ("labels", Path),
    "aces": ("aces", Path),
    "label_name": ("label_name", str),
    "question": ("question", str),
    "classes": ("classes", lambda given: [_class(text) for text in given]),
    "cut": ("cuts", tuple),
    "task_file": ("task_files", tuple),
    "cases": ("cases", tuple),
    "test_cases": ("test_cases", tuple),
    "drop_overlaps": ("drop_overlaps", bool),
}
"""By option of single families: the builder's parameter, and how a given value is converted."""


def _build(arguments: argparse.Namespace, progress: TerminalProgress) -> Benchmark:
    """Build what the options describe; UserError for an option of another family."""
    family, known = arguments.name, options_of(arguments.name)
    if family in TEXT_CASE_FAMILIES and (arguments.store is not None or arguments.policy != "known_at"):
        raise UserError(f"{family} describes its cases in words: it takes no --store and has no clocks")
    if arguments.store is None and family not in TEXT_CASE_FAMILIES:
        raise UserError(f"{family} is built from a store: --store FOLDER")
    given = {"seed": arguments.seed, "fractions": tuple(arguments.fractions), "policy": arguments.policy}
    given |= {"workers": arguments.workers, "executor": arguments.executor}
    options = {name: value for name, value in given.items() if name in known}
    for name, (keyword, read) in _KEYWORDS.items():
        value = getattr(arguments, name)
        if value is None or value is False or value == []:
            continue
        if keyword not in known:
            families = [family for family in FAMILIES if keyword in options_of(family)]
            option = {"classes": "class"}.get(name, name).replace("_", "-")
            raise UserError(f"--{option} is for {' and '.join(families)}, not for {family}")
        options[keyword] = read(value)
    return build_benchmark(family, arguments.store, arguments.out, report=progress, **options)


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
        card = baseline_card(trivial_scores(benchmark, test), intervals=False)
        print_card(card)
        print_warnings(card)
    _show_missing(benchmark)
    for name, task_facts in benchmark.manifest.get("tasks", {}).items():
        published = task_facts.get("cases_as_published")
        if published and published != task_facts["samples"]:
            print(f"{name}: {task_facts['samples']:,} cases; its authors publish {published:,}")
    for name, task_facts in benchmark.manifest.get("tasks", {}).items():
        if "aces" in task_facts.get("label", {}):
            print(
                fill(
                    f"{name}, by ACES: {AcesCounts(**task_facts['label']['aces']).text}", 100, subsequent_indent="    "
                )
            )
    for what, kinds in _kinds(benchmark).items():
        print(f"{what}: {', '.join(f'{kind or 0} {count:,}' for kind, count in kinds.items())}")
    drops = benchmark.manifest.get("drops") or {}
    for task, reasons in drops.items():
        text = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in reasons.items() if count)
        if text:
            print(fill(f"left out of {task}: {text}", 100, subsequent_indent="    "))
    counted = {reason for reasons in drops.values() for reason, count in reasons.items() if count}
    meanings = "; ".join(
        f"{reason.replace('_', ' ')}: {words}" for reason, words in _DROPS.items() if reason in counted
    )
    if meanings:
        print(fill(meanings, 100, subsequent_indent="    "))


_DROPS = {
    "not_chosen": "further questions about a patient of whom one question is kept already",
    "not_drawn": "beyond the number of samples that was asked for",
    "row_of_reflex_test": "a test that the laboratory added by itself",
}
"""Reasons why a question is left out that need more words than their name."""


def _show_missing(benchmark: Benchmark) -> None:
    """Print each reason once, with all tasks that were not built, or have no sample, because of it."""
    reasons: dict[str, list[str]] = {}
    for name, task_facts in benchmark.manifest.get("tasks", {}).items():
        for what in ("unavailable", "skipped"):
            if what in task_facts:
                reasons.setdefault(f"unavailable: {task_facts[what].removeprefix(f'{name}: ')}", []).append(name)
    for reason, names in reasons.items():
        print(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {reason}")
    for name, task_facts in benchmark.manifest.get("tasks", {}).items():
        for line in task_facts.get("matches_no_row", ()):
            print(f"! {name}: {line}")
    for what, words in (("never_the_answer", "never the answer"), ("never_drawn", "in no drawn question (--per-task)")):
        absent = {
            name: task_facts[what]
            for name, task_facts in benchmark.manifest.get("tasks", {}).items()
            if what in task_facts
        }
        if absent:
            print(f"offered and {words}: " + "; ".join(f"{name} {', '.join(one)}" for name, one in absent.items()))


def _kinds(benchmark: Benchmark) -> dict[str, dict[str, int]]:
    """Return the number of rows of each kind of visit by how it was counted, if a source has kinds of visits."""
    headings = {"stays": "visits that are stays, by kind", "no stays": "visits that are none, by kind"}
    headings["undeclared"] = "WARNING: visits of kinds that are not declared, so no stays"
    counted = benchmark.manifest.get("stays", {})
    found = {
        text: {kind: counts[what] for kind, counts in counted.items() if what in counts}
        for what, text in headings.items()
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


def _show_names(benchmark: Benchmark, tasks: list[Task]) -> None:
    strata = [stratum for stratum in STRATA if stratum != "any"]
    ceilings = any("listed_share" in sample.facts for sample in benchmark.all_samples)
    rows = []
    for task in tasks:
        samples = benchmark.samples(task.name)
        space = benchmark.space(task)
        wanted = sum(len(sample.target) for sample in samples)
        shares: tuple[str, ...] = ()
        if ceilings:  # of targets that are listed, and that can be reached at all: an oracle's recall by arm
            listed = fmean(float(sample.facts.get("listed_share", 0.0)) for sample in samples)
            reachable = fmean(1 - len(sample.unwinnable) / len(sample.target) for sample in samples)
            shares = (f"{listed:.1%}", f"{reachable:.1%}")
        rows.append(
            (
                task.name,
                str(len(samples)),
                *(str(len(benchmark.samples(task.name, split))) for split in SPLITS),
                *(str(len(benchmark.samples(task.name, None, stratum))) for stratum in strata),
                "" if space is None else str(len(space.labels.labels)),
                f"{wanted / len(samples):.2f}",
                f"{sum(len(sample.unwinnable) for sample in samples) / wanted:.1%}",
                *shares,
            )
        )
    more = ("listed", "reachable") if ceilings else ()
    header = ("task", "samples", *SPLITS, *strata, "candidates", "labels/sample", "unwinnable", *more)
    print_rows(header, rows)


BENCH = Command(EXAMPLES, configure, run)
