"""``wardround export``: write a store, a chart, labels, predictions, episodes or bundles for other tools."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

from wardround import __version__
from wardround.agents.stays import coded_roles
from wardround.agents.stays.batch import StepsTable
from wardround.cli.parser import Command, add_action, moment
from wardround.cli.terminal import add_json_option, print_json
from wardround.clinical.bundles import ActionType, bundle_text, bundles_of, carried_by, step_targets
from wardround.clinical.bundles.files import END_OF_TIME, write_bundles
from wardround.core import Progress, TerminalProgress, UserError, printable
from wardround.exports.aces import write_aces_labels
from wardround.exports.meds import ExportSettings, export_meds
from wardround.exports.parquet import write_chart_tables, write_store_tables
from wardround.log import LogReader, Trajectory, atif_documents, conversations, episode_line, spans_document
from wardround.records import Store
from wardround.reports.inspect_log import write_inspect_logs
from wardround.reports.predictions import write_meds_predictions
from wardround.runs import RunFolder
from wardround.runs.stays import store_score
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.benchmarks.meds_labels import meds_splits, write_meds_labels

# Data sets, labels, predictions and tables.


EXAMPLES = """
  wardround export meds --store store --out meds
  wardround export meds --store store --out meds-plain --time event
  wardround export meds-labels --benchmark bench --out labels
  wardround export meds-predictions --run run --out predictions
  wardround export tables --store store --subject 12345678 --as-of "2150-01-31 08:00" --out chart
  wardround export inspect --run run --out logs
  wardround export spans --run run --out spans.jsonl
"""
TABLE_EXAMPLES = """
  wardround export tables --store store --subject 12345678 --as-of "2150-01-31 08:00" --out chart
      Parquet of one chart: what was known by then, later cells null
  wardround export tables --store store --table labevents prescriptions --out tables
      Parquet of every row, with known_at: whoever shows a row before that leaks
"""
DATA_EXAMPLES = """
  wardround export meds --store store --out meds
      time says when a row was known: whoever reads "time <= prediction_time" sees what a chart shows, and no more
  wardround export meds --store store --out meds-plain --time event
      time says when it happened, available_at when it was known
  wardround export meds --store store --out meds --benchmark bench
      data/train, data/tuning and data/held_out as the benchmark has its subjects, data/no_split for all others
"""
LABEL_EXAMPLES = """
  wardround export meds-labels --benchmark bench --out labels
      labels/<task>/train.parquet, tuning.parquet and held_out.parquet
"""
PREDICTION_EXAMPLES = """
  wardround export meds-predictions --run run --out predictions
      predictions/<task>/<method>.parquet, for meds-evaluation-cli predictions_path=FILE output_file=FILE
  wardround export meds-predictions --run fits --benchmark bench --out predictions
      of a folder with predictors only
"""


ACES_EXAMPLES = """
  wardround export aces --store store --task in_hospital_death.yaml --out death.parquet
      death.parquet: boolean_value, and available_value by the times at which rows became known
  wardround bench build own --store store --out bench --aces in_hospital_death.yaml --question "Death in this stay?"
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
    what = "write a store as a MEDS 0.4 data set, which PyHealth's MEDSDataset opens, too"
    data = actions.add_parser("meds", aliases=["pyhealth"], help=what, examples=DATA_EXAMPLES)
    data.add_argument("--store", type=Path, required=True, help="folder of the store")
    data.add_argument("--out", type=Path, required=True, help="folder of the data set to make")
    data.add_argument(
        "--time",
        choices=["known", "event"],
        default="known",
        help="what the column time holds: when a row was known, or when it happened (available_at has the other)",
    )
    data.add_argument("--benchmark", type=Path, help="take the splits from this benchmark, not from the store")
    labels = actions.add_parser(
        "meds-labels", help="write a benchmark's targets as MEDS labels", examples=LABEL_EXAMPLES
    )
    labels.add_argument("--benchmark", type=Path, required=True, help="folder of the benchmark")
    labels.add_argument("--out", type=Path, required=True, help="folder of the labels to make")
    guesses = actions.add_parser(
        "meds-predictions", help="write a run's answers for meds-evaluation", examples=PREDICTION_EXAMPLES
    )
    guesses.add_argument("--run", type=Path, required=True, help="folder of a scored run, or of fitted predictors")
    guesses.add_argument("--out", type=Path, required=True, help="folder of the predictions to make")
    guesses.add_argument("--benchmark", type=Path, help="folder of the benchmark, if the run does not name it")
    guesses.add_argument(
        "--unanswered-is-no",
        action="store_true",
        help="count an episode without an answer as a no; else its value is null and has no accuracy",
    )
    tables = actions.add_parser("tables", help="write a chart or a store's tables as Parquet", examples=TABLE_EXAMPLES)
    tables.add_argument("--store", type=Path, required=True, help="folder of the store")
    tables.add_argument("--out", type=Path, required=True, help="folder of the files to make")
    tables.add_argument("--table", nargs="+", default=[], help="only these (default: all that hold rows)")
    tables.add_argument("--subject", help="one subject's chart; every row of the store if left out")
    tables.add_argument("--as-of", type=moment, help="with --subject: as of when (a date means the end of that day)")
    aces = actions.add_parser("aces", help="write the labels of an ACES task file", examples=ACES_EXAMPLES)
    aces.add_argument("--store", type=Path, required=True, help="folder of the store")
    aces.add_argument("--task", type=Path, required=True, metavar="FILE", help="YAML file of the task")
    aces.add_argument("--out", type=Path, required=True, metavar="FILE", help="Parquet file of labels to make")
    for action in (data, labels, guesses, tables, aces):
        add_json_option(action)
    configure_episodes(actions)
    add_action(
        actions, "bundles", BUNDLES, "what became known hour by hour, and the decisions to predict: written or printed"
    )


def run(arguments: argparse.Namespace) -> int:
    """Export and print what was written and what was not."""
    if "do" in arguments:
        return int(arguments.do(arguments))
    made = {
        "meds": _data,
        "pyhealth": _data,
        "meds-labels": _labels,
        "meds-predictions": _predictions,
        "tables": _tables,
        "aces": _aces,
    }
    made.get(arguments.action, export_run)(arguments)
    return 0


def _data(arguments: argparse.Namespace) -> None:
    progress = TerminalProgress()
    store = Store.open(arguments.store)
    splits = None if arguments.benchmark is None else meds_splits(Benchmark.open(arguments.benchmark))
    settings = ExportSettings(time=arguments.time, splits=splits)
    report = export_meds(store, arguments.out, settings=settings, report=progress)
    progress.close()
    if arguments.json:
        print_json(report)
        return
    counts = report.counts
    print(f"{report.subjects:,} subjects, {counts.events:,} events, {report.codes:,} codes: {report.folder}")
    by_split = ", ".join(f"{name} {count:,}" for name, count in report.splits.items())
    print(f"{report.files:,} data files" + (f"; subjects by split: {by_split}" if by_split else ""))
    if report.without_split:
        print(f"{report.without_split:,} subjects are in no split: they lie in data/no_split")
    if counts.later:
        print(f"{counts.later:,} events tell a row again, with cells that were filled in later (column revision)")
    if counts.masked_births:
        print(f"{counts.masked_births:,} dates of birth left out: the source sets them back to hide a great age")
    if counts.never_visible:
        print(f"{counts.never_visible:,} rows left out: no time is known at which they became known")
    for assumption in store.manifest.get("assumptions", ()):
        print(assumption)
    if arguments.time == "event":
        print("time is when things happened: a row is known only from available_at on")


def _labels(arguments: argparse.Namespace) -> None:
    benchmark = Benchmark.open(arguments.benchmark)
    counts = write_meds_labels(benchmark, arguments.out)
    if arguments.json:
        print_json({"labels": counts, "folder": arguments.out})
        return
    for name, count in counts.items():
        print(f"{name}: {count:,} labels")
    if benchmark.policy == "published":
        print("the benchmark follows the papers' clocks: its prediction times do not belong to an export by known time")
    print(f"labels: {arguments.out}")


def _predictions(arguments: argparse.Namespace) -> None:
    report = write_meds_predictions(
        arguments.run, arguments.out, benchmark=arguments.benchmark, unanswered_is_no=arguments.unanswered_is_no
    )
    if arguments.json:
        print_json(report)
        return
    for name, count in report.rows.items():
        missing = report.unanswered.get(name, 0)
        what = "counted as no" if arguments.unanswered_is_no else "no value"
        print(f"{name}: {count:,} predictions" + (f", of {missing:,} there is no answer ({what})" if missing else ""))
    for reason, count in report.left_out.items():
        print(f"left out {count:,}: {reason}")
    print(f"predictions: {arguments.out}")


def _tables(arguments: argparse.Namespace) -> None:
    store = Store.open(arguments.store)
    progress = TerminalProgress()
    if arguments.subject is None:
        if arguments.as_of is not None:
            raise UserError("--as-of is of one chart: say whose with --subject")
        counts = write_store_tables(store, arguments.out, arguments.table, report=progress)
    else:
        if arguments.as_of is None:
            raise UserError("--subject needs --as-of: a chart is a record as of a moment")
        chart = store.chart(store.subject_of(arguments.subject), arguments.as_of)
        counts = write_chart_tables(chart, arguments.out, arguments.table)
    progress.close()
    if arguments.json:
        print_json({"rows": counts, "folder": arguments.out})
        return
    print(f"{sum(counts.values()):,} rows in {len(counts)} tables: {arguments.out}")


def _aces(arguments: argparse.Namespace) -> None:
    progress = TerminalProgress()
    found = write_aces_labels(Store.open(arguments.store), arguments.task, arguments.out, report=progress)
    progress.close()
    if arguments.json:
        print_json(found)
        return
    print(fill(found.text, 100))
    print(f"labels: {found.file}")


# ``wardround export trajectories|conversations|atif|spans|inspect``: a run's episodes in formats of other programs.


_Lines = Callable[[Trajectory], Iterator[dict[str, Any]]]
EPISODE_EXAMPLES = """
  wardround export trajectories --run run --out trajectories.jsonl
  wardround export conversations --run run --out conversations.jsonl
  wardround export atif --run run --out atif.jsonl
  wardround export spans --run run --out spans.jsonl
      OTLP in JSON, an episode a line; without any text, which is patient data, unless --content asks for it
  wardround export inspect --run run --out logs
      then: inspect view --log-dir logs
"""
LINES = {
    "trajectories": "write episodes whole: message tree, turns, tools, notes (JSON lines)",
    "conversations": "write a line for each branch of an episode, with the tools offered (JSON lines)",
    "atif": "write branches in ATIF 1.8, which Harbor and NeMo read (JSON lines)",
    "spans": "write OpenTelemetry GenAI spans (OTLP in JSON lines)",
}


def configure_episodes(actions: Any) -> None:
    """Declare the exports of a run's episodes."""
    for name, summary in {**LINES, "inspect": "write logs of Inspect (.eval), one a task, agent and model"}.items():
        action = actions.add_parser(name, help=summary, examples=EPISODE_EXAMPLES)
        action.add_argument("--run", type=Path, required=True, help="folder of the run")
        what = "folder of the logs" if name == "inspect" else "file"
        action.add_argument("--out", type=Path, required=True, help=f"{what} to make")
        add_json_option(action)
        if name == "spans":
            action.add_argument("--content", action="store_true", help="with all texts: they are patient data")


def export_run(arguments: argparse.Namespace) -> None:
    """Write and print what was written."""
    folder = RunFolder.open(arguments.run)
    if arguments.action == "inspect":
        counts = write_inspect_logs(folder, arguments.out)
    else:
        counts = {arguments.out.name: _write_lines(folder, _lines(arguments), arguments.out)}
    if arguments.json:
        print_json({"written": counts, "out": arguments.out})
        return
    one = "episodes" if arguments.action in ("inspect", "trajectories", "spans") else "branches"
    for name, count in counts.items():
        print(f"{name}: {count:,} {one}")
    print(f"{arguments.action}: {arguments.out}")


def _lines(arguments: argparse.Namespace) -> _Lines:
    if arguments.action == "spans":
        return lambda episode: iter([spans_document(episode, version=__version__, content=arguments.content)])
    known: dict[str, _Lines] = {
        "trajectories": lambda episode: iter([episode_line(episode)]),
        "conversations": conversations,
        "atif": partial(atif_documents, version=__version__),
    }
    return known[arguments.action]


def _write_lines(folder: RunFolder, lines: _Lines, out: Path) -> int:
    """Write the lines of every finished episode, one after the other."""
    if out.exists():
        raise UserError(f"{out} is there already; name another file")
    progress = TerminalProgress()
    count = 0
    unfinished = out.with_name(f".{out.name}.unfinished")
    with LogReader(folder.logs) as reader, unfinished.open("w", encoding="utf-8") as file:
        finished = [entry.key for entry in reader.episodes() if entry.state == "finished"]
        for done, key in enumerate(finished, start=1):
            for line in lines(reader.trajectory(key)):
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
            progress(Progress(label="export", done=done, total=len(finished), unit="episodes"))
    unfinished.replace(out)
    progress.close()
    return count


# ``wardround export bundles``: a store or one chart, hour by hour, with the decisions to predict.


BUNDLE_EXAMPLES = """
  wardround export bundles --store store --out bundles
      bundles/events.parquet: a row per event, with the hour in which it became known; bundles/targets.parquet: the
      decisions (orders, specimens, procedures) until the next bundle
  wardround export bundles --store store --out bundles --protocol protocol.toml
      bundles/steps.parquet too: every bundle in words, and the predictions of TRACE's roles in code after it
  wardround export bundles --store store --subject 12345678 --as-of "2150-01-31 08:00"
      one chart's bundles in words, as a model reads them
  wardround export bundles --store store --subject 12345678 --targets
      the record to its end, with the decisions to predict after each bundle
"""


def configure_bundles(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--store", type=Path, required=True, help="folder of the store")
    parser.add_argument("--out", type=Path, help="folder to write the whole store's bundles to")
    parser.add_argument("--subject", help="subject whose bundles to print (the source's id)")
    parser.add_argument(
        "--as-of",
        type=moment,
        help="with --subject: as of when (a date means the end of that day); the end if left out",
    )
    parser.add_argument("--targets", action="store_true", help="with --subject: print the targets of every step too")
    parser.add_argument(
        "--protocol",
        type=Path,
        help="with --out: write every bundle's words and the coded roles' step too, by these rules",
    )
    add_json_option(parser)


def export_bundles(arguments: argparse.Namespace) -> int:
    """Write all bundles, or print a subject's."""
    if (arguments.out is None) == (arguments.subject is None):
        raise UserError("say where the whole store's bundles go (--out FOLDER) or whose to print (--subject ID)")
    if arguments.protocol is not None and arguments.out is None:
        raise UserError("--protocol belongs to --out FOLDER: the steps of the whole store")
    store = Store.open(arguments.store)
    if arguments.subject is None:
        _write_bundles(store, arguments)
    else:
        _print_chart(store, arguments)
    return 0


def _write_bundles(store: Store, arguments: argparse.Namespace) -> None:
    progress = TerminalProgress()
    beside = []
    if arguments.protocol is not None:
        beside = [StepsTable(coded_roles(arguments.protocol, carried_by(store), store_score(store)))]
    report = write_bundles(store, arguments.out, beside=beside, report=progress)
    progress.close()
    if arguments.json:
        print_json(report)
        return
    print(f"{report.subjects:,} subjects, {report.bundles:,} bundles, {report.events:,} events: {report.folder}")
    print("events: " + ", ".join(f"{name} {count:,}" for name, count in report.kinds.most_common()))
    for name in ActionType:
        print(
            f"targets {name}: {report.targets[name]:,}; {report.skipped[name]:,} steps have none,"
            f" {report.visible[name]:,} decisions left out as they were on the chart already"
        )
    for type_name, why in report.without_targets.items():
        print(f"no targets {type_name}: {why}")


def _print_chart(store: Store, arguments: argparse.Namespace) -> None:
    as_of = END_OF_TIME if arguments.as_of is None else arguments.as_of
    stream = bundles_of(store.chart(store.subject_of(arguments.subject), as_of))
    targets = step_targets(stream)
    texts = [bundle_text(bundle) for bundle in stream]
    wanted = [targets.of(place) if arguments.targets else {} for place in range(len(stream))]
    if arguments.json:
        print_json([{"text": text, "targets": its} for text, its in zip(texts, wanted, strict=True)])
        return
    for text, its in zip(texts, wanted, strict=True):
        print(printable(text))
        for name, concepts in its.items():
            print(printable(f"  -> {name}: {'; '.join(concepts)}"))
    if not texts:
        print("nothing was known of this subject by then")


EXPORT = Command(EXAMPLES, configure, run)
BUNDLES = Command(BUNDLE_EXAMPLES, configure_bundles, export_bundles)
