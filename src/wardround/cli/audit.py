"""``wardround audit``: look for leaks, and for damage to a store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from wardround.audits import (
    AuditResult,
    LeakReport,
    SwapReport,
    audit_leaks,
    audit_plausibility,
    audit_swap,
    check_labels,
    check_store,
    random_moments,
)
from wardround.audits.own import pipeline_table
from wardround.audits.pipeline import (
    PipelineCommand,
    PipelineReport,
    PipelineSample,
    PipelineSettings,
    audit_pipeline,
    draw_samples,
    read_hindsight,
    read_samples,
)
from wardround.audits.swap import SwapTable, load_swap_table, swap_sources
from wardround.cli.parser import Command
from wardround.cli.terminal import add_json_option, print_json
from wardround.clinical.bundles.futures import differing_bundles, differing_records
from wardround.core import TerminalProgress, UserError, must_be_new, parse_time, user_codes_home
from wardround.exports import differing_exports
from wardround.records import IngestSettings, Store, load_source_spec
from wardround.reports import leak_test_page
from wardround.runs import check_files
from wardround.tasks.benchmarks import Benchmark, get_task, leak_check, names_its_answer
from wardround.tasks.benchmarks.early_columns import audit_columns
from wardround.tasks.benchmarks.other_futures import differing_answers, differing_candidates, differing_questions
from wardround.tasks.benchmarks.own import moment_comparison

EXAMPLES = """
  wardround audit leaks --store store --benchmark bench
  wardround audit leaks --store store --benchmark bench --raw mimic-iv-demo-2.2 --limit 50
  wardround audit leaks --store store --sample 12345678,2150-01-31T08:00
  wardround audit leaks --store store --benchmark bench --raw mimic-iv-demo-2.2 --swap --limit 50
  wardround audit leaks --store store --raw mimic-iv-demo-2.2 --swap --random 200
  wardround audit leaks --store store --benchmark bench --raw hospital --swap --knowledge hospital.knowledge.toml
  wardround audit plausibility --store store
  wardround audit plausibility --store store --knowledge hospital.knowledge.toml
  wardround audit plausibility --store meds-store --against mimiciv-store
  wardround audit columns --store store
  wardround audit labels --benchmark bench --raw mimic-iv-demo-2.2
  wardround audit labels --benchmark clinseek --raw mimic-iv-demo-2.2 mimic-iv-ed-demo-2.2
  wardround audit store store
  wardround audit files demo
"""
LEAKS = """
Time audit: rows and cells on a chart that lie after its moment. With --raw, deletion: the chart again from files
without what was not known yet. With --benchmark, answers: the rows and cells that hold a sample's answer are not on its
chart. They follow the source's own clocks: they find a clock that is not kept, never one that
is wrong. With --raw and --swap, outcome swap: the files again with another future (death and survival exchanged, rows
changed, left out or doubled) by tables written by hand that never read the clocks; charts, tool answers, bundles and
questions must be equal. It sees what those tables say is unknown at a moment, not what they do not know either: a
result whose time of storing nobody recorded, cells overwritten without a trace, hints in prose."""
PLAUSIBILITY = """
Looks at whole records, without the raw files: care that happens after a shown death or outcome of the stay, keys shown
before what they name; with --against, what this store shows earlier than another store of the same people. It sees
contradictions, not causes: a finding may lie in the data (the page of the source lists those), and a fact that is early
everywhere alike contradicts nothing."""

COLUMNS = """
Holds what charts show of every column, at the admission and at each day of a stay, against how the stay goes on: a
death in it, a rest longer than the median, a return within 30 days. Reads no clock and asks nobody. Lists the columns
whose AUC has a 99.9 % interval above 0.6; above 0.85 somebody has to say when the column could be read. It is a list,
no verdict: sick people have other values. It sees values, not rows: a result shown at the draw predicts little."""

LABELS = """
Works out every label of an AgentEHR, EHRSHOT or ClinSeek-Bench benchmark a second time, from raw files in MIMIC-IV's
form, row by row and without the store. Shared with the builders are only the names of codes and drugs. Status 1 where
any differs."""

PIPELINE_EXAMPLES = """
  wardround audit pipeline --raw hospital --draw icu+24h --run 'python features.py {raw} {out}' \\
      --read 'rows:{out}/features.csv,key=stay_id,label=died' --bisect
  wardround audit pipeline --raw mimic-iv-demo-2.2 --samples samples.csv --run './extract.sh {raw} {out}' \\
      --read 'meds:{out}'
  wardround audit pipeline --raw hospital --draw hunt --run 'python events.py {raw} {out} {samples}' \\
      --read 'events:{out}/events.parquet,time=charttime,code=name' --out leaks.html
"""
PIPELINE = """
A leak test for a pipeline of yours. It runs on copies of its raw files: twice as they are, then with other facts after
each sample's time, with only the order of later rows changed, and cut at each sample's time. What it makes of a sample
must be the same. LEAK: it differs although only facts changed that happened later by their own time. LATE-RECORDED: it
differs when facts change that were only written down later. One subject in eight keeps its own files: what differs of
those is a statistic over everybody. --bisect finds the raw columns, and how early a fact is known. Status 0:
clean; 1: a leak; 2: of some feature, or of all, it could not be said."""

_SHOWN = 20


class AuditReport(Protocol):
    """What every audit returns."""

    def as_text(self) -> str:
        """Return the result as lines of text."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    leaks = actions.add_parser(
        "leaks",
        help="count rows and cells that were not known yet; with --raw also rebuild charts from altered copies",
        description=LEAKS,
        examples=EXAMPLES,
    )
    leaks.add_argument("--store", type=Path, required=True, help="folder of the store")
    leaks.add_argument("--benchmark", type=Path, help="audit at the samples of this benchmark")
    leaks.add_argument("--task", nargs="+", default=[], help="only samples of these tasks")
    leaks.add_argument(
        "--sample",
        nargs="+",
        default=[],
        metavar="SUBJECT,TIME",
        help="audit these moments; SUBJECT as the source has it",
    )
    leaks.add_argument("--raw", type=Path, nargs="+", default=[], help="source folders: run the deletion audit too")
    leaks.add_argument("--limit", type=int, help="at most this many samples, spread evenly")
    leaks.add_argument("--policy", choices=["known_at", "published"], default="known_at", help="clocks to audit")
    leaks.add_argument("--swap", action="store_true", help="with --raw: the outcome swap instead of the deletion audit")
    leaks.add_argument(
        "--cut", action="store_true", help="with --swap: nothing comes after a moment, stays are open, instead"
    )
    leaks.add_argument(
        "--random",
        type=int,
        default=20,
        metavar="N",
        help="with --swap: look at so many random moments too, half of them inside emergency visits and other stays",
    )
    leaks.add_argument("--alone", action="store_true", help="with --swap: leave other subjects out of the copies")
    leaks.add_argument(
        "--record", type=Path, metavar="FILE", help="keep what was audited and found, for wardround report --audit"
    )
    plausible = actions.add_parser(
        "plausibility",
        help="look for care after a shown death or outcome, keys before what they name, facts known too early",
        description=PLAUSIBILITY,
        examples=EXAMPLES,
    )
    plausible.add_argument("--store", type=Path, required=True, help="folder of the store")
    for action in (leaks, plausible):
        action.add_argument(
            "--knowledge", type=Path, metavar="FILE", help="a second person's answers about a source of your own"
        )
    plausible.add_argument("--against", type=Path, help="a store of the same people from another source")
    labels = actions.add_parser(
        "labels", help="work out a benchmark's labels again from the raw files", description=LABELS, examples=EXAMPLES
    )
    labels.add_argument("--benchmark", type=Path, required=True, help="a benchmark under the clocks known_at")
    labels.add_argument("--raw", type=Path, nargs="+", required=True, help="the source folders, in MIMIC-IV's form")
    columns = actions.add_parser(
        "columns",
        help="name the columns whose value predicts how a stay goes on, at the admission and at each day",
        description=COLUMNS,
        examples=EXAMPLES,
    )
    columns.add_argument("--store", type=Path, required=True, help="folder of the store")
    columns.add_argument("--stays", type=int, default=600, help="look at this many stays (default: %(default)s)")
    store = actions.add_parser(
        "store", help="read every file of a store and compare it with its checksums", examples=EXAMPLES
    )
    store.add_argument("folder", type=Path, help="folder of the store")
    files = actions.add_parser(
        "files",
        help="hold every store, benchmark, run, log, bank, stream and corpus below a folder against its checksums",
        examples=EXAMPLES,
    )
    files.add_argument("folder", type=Path, help="folder to look through")
    pipeline = actions.add_parser(
        "pipeline",
        help="test a pipeline of yours for leaks: run it on copies of its files with another future",
        description=PIPELINE,
        examples=PIPELINE_EXAMPLES,
    )
    _configure_pipeline(pipeline)
    for action in (leaks, plausible, columns, labels, store, files, pipeline):
        add_json_option(action)


def _configure_pipeline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--source", choices=swap_sources(), default="mimiciv", help="form of the raw files (default: %(default)s)"
    )
    parser.add_argument("--spec", type=Path, help="in place of --source: the spec of a source of your own")
    parser.add_argument(
        "--knowledge", type=Path, metavar="FILE", help="with --spec: a second person's answers about it"
    )
    parser.add_argument("--raw", type=Path, nargs="+", required=True, help="folders of the raw files")
    parser.add_argument(
        "--run",
        required=True,
        metavar="COMMAND",
        help="the pipeline, with {raw} ({raw0}, {raw1} of several folders), {out} and, if it wants them, {samples}",
    )
    parser.add_argument(
        "--read",
        action="append",
        required=True,
        metavar="KIND:{out}/FILE[,NAME=VALUE]",
        help="where its results lie: meds (a MEDS folder), events (a table with a time column), rows (a row a sample); "
        "names: key, time, code, label, skip, table, index",
    )
    samples = parser.add_mutually_exclusive_group(required=True)
    samples.add_argument(
        "--samples",
        type=Path,
        metavar="FILE",
        help="CSV with subject_id, time (eICU: patientunitstayid, minutes), other keys and label",
    )
    samples.add_argument(
        "--draw",
        metavar="HOW",
        help="icu+24h, admission, discharge, random, or hunt (between a row's time and its recording)",
    )
    samples.add_argument("--sample", nargs="+", metavar="SUBJECT,TIME", help="look at these moments")
    parser.add_argument("--count", type=int, default=200, help="draw so many samples (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw (default: %(default)s)")
    parser.add_argument("--bisect", action="store_true", help="find the raw columns that make features differ")
    parser.add_argument(
        "--most-runs", type=int, default=60, metavar="N", help="runs that --bisect may take (default: %(default)s)"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="FILE[.COLUMN]", help="change these raw files or columns alone"
    )
    parser.add_argument("--alone", action="store_true", help="leave people without a sample out of the copies")
    parser.add_argument(
        "--hindsight", type=Path, metavar="FILE", help="TOML: [declared] with FEATURE = why it may look ahead"
    )
    parser.add_argument("--tolerance", type=float, default=1e-6, help="relative, of numbers (default: %(default)s)")
    parser.add_argument(
        "--limit-s", type=float, default=3600.0, metavar="SECONDS", help="for each run (default: %(default)s)"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep every copy, result and log in this new folder")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the report: .html, .json, .sarif, .xml (JUnit) or .txt"
    )


def run(arguments: argparse.Namespace) -> int:
    """Audit and print; status 1 when something leaks or is damaged."""
    if arguments.action == "store":
        return _check_store(arguments)
    if arguments.action == "files":
        checked = check_files(arguments.folder)
        _print(checked, arguments)
        return 1 if checked.damaged else 0
    if arguments.action == "plausibility":
        return _audit_plausibility(arguments)
    if arguments.action == "columns":
        return _audit_columns(arguments)
    if arguments.action == "labels":
        return _check_labels(arguments)
    if arguments.action == "pipeline":
        return _audit_pipeline(arguments)
    return _audit_leaks(arguments)


def _check_store(arguments: argparse.Namespace) -> int:
    progress = TerminalProgress()
    found = check_store(arguments.folder, progress)
    progress.close()
    _print(found, arguments)
    return 0 if found.whole else 1


def _check_labels(arguments: argparse.Namespace) -> int:
    benchmark = Benchmark.open(arguments.benchmark)
    if benchmark.policy != "known_at":
        raise UserError(f"the second path keeps the clocks known_at; this benchmark has {benchmark.policy!r}")
    progress = TerminalProgress()
    found = check_labels(benchmark.all_samples, *arguments.raw, user_codes=user_codes_home(), report=progress)
    progress.close()
    _print(found, arguments)
    return 0 if found.clean else 1


def _audit_plausibility(arguments: argparse.Namespace) -> int:
    progress = TerminalProgress()
    against = None if arguments.against is None else Store.open(arguments.against)
    found = audit_plausibility(Store.open(arguments.store), against, knowledge=arguments.knowledge, report=progress)
    progress.close()
    _print(found, arguments)
    return 0 if found.clean else 1


def _audit_pipeline(arguments: argparse.Namespace) -> int:
    if arguments.keep is not None:
        must_be_new(arguments.keep)
    if arguments.out is not None and arguments.out.suffix not in _REPORTS:
        raise UserError(f"--out {arguments.out}: its name ends with one of {', '.join(_REPORTS)}")
    if (arguments.spec is None) != (arguments.knowledge is None):
        raise UserError(
            "--spec and --knowledge belong together: wardround spec knowledge SPEC --out FILE asks the questions"
        )
    table = (
        load_swap_table(arguments.source)
        if arguments.spec is None
        else pipeline_table(arguments.knowledge, load_source_spec(arguments.spec))
    )
    only: dict[str, set[str] | None] = {}
    for one in arguments.only:
        file, dot, column = one.partition(".")
        if dot:
            only[file] = (only.get(file) or set()) | {column}
        else:
            only[file] = None
    found = audit_pipeline(
        PipelineCommand.parse(arguments.run, limit_s=arguments.limit_s),
        arguments.raw,
        _pipeline_samples(arguments, table),
        read=arguments.read,
        source=table,
        settings=PipelineSettings(
            bisect=arguments.bisect,
            most_runs=arguments.most_runs,
            alone=arguments.alone,
            tolerance=arguments.tolerance,
            only=only or None,
            declared={} if arguments.hindsight is None else read_hindsight(arguments.hindsight),
            keep=arguments.keep,
        ),
        report=(progress := TerminalProgress()),
    )
    progress.close()
    if arguments.out is not None:
        arguments.out.write_text(_REPORTS[arguments.out.suffix](found), encoding="utf-8")
    if arguments.json:
        print_json(found.to_json())
    else:
        print(found.as_text())
    return found.status


def _pipeline_samples(arguments: argparse.Namespace, table: SwapTable) -> list[PipelineSample]:
    if arguments.samples is not None:
        return read_samples(arguments.samples, table=table, folders=arguments.raw)
    if arguments.draw is not None:
        return draw_samples(table, arguments.raw, arguments.draw, count=arguments.count, seed=arguments.seed)
    made = []
    for text in arguments.sample:
        subject, _, time = text.partition(",")
        try:
            made.append(PipelineSample(subject=subject, time=parse_time(time), keys={"subject_id": subject}))
        except ValueError as error:
            raise UserError(f"{text!r} is not SUBJECT,TIME (for example 12345678,2150-01-31T08:00): {error}") from error
    return made


_REPORTS: Mapping[str, Callable[[PipelineReport], str]] = {
    ".html": leak_test_page,
    ".json": lambda found: json.dumps(found.to_json(), indent=2) + "\n",
    ".sarif": lambda found: json.dumps(found.as_sarif(), indent=2) + "\n",
    ".xml": PipelineReport.as_junit,
    ".txt": lambda found: found.as_text() + "\n",
}


def _audit_columns(arguments: argparse.Namespace) -> int:
    progress = TerminalProgress()
    found = audit_columns(Store.open(arguments.store), stays=arguments.stays, report=progress)
    progress.close()
    _print(found, arguments)
    return 0


def _audit_leaks(arguments: argparse.Namespace) -> int:
    if arguments.limit is not None and arguments.limit < 1:
        raise UserError(f"--limit must be at least 1, not {arguments.limit}")
    if (arguments.swap or arguments.alone) and not (arguments.raw and arguments.swap):
        raise UserError("--swap needs --raw with the files that the store was made from; --alone belongs to --swap")
    if arguments.knowledge is not None and not arguments.swap:
        raise UserError("--knowledge belongs to --swap here; without it: wardround audit plausibility --knowledge FILE")
    store = Store.open(arguments.store)
    samples = list(_samples(arguments, store))
    if not samples and not (arguments.swap and arguments.random):
        raise UserError("nothing to audit: give --benchmark, or --sample SUBJECT,TIME, or with --swap --random N")
    if arguments.limit is not None and len(samples) > arguments.limit:
        samples = [samples[n * len(samples) // arguments.limit] for n in range(arguments.limit)]
    progress = TerminalProgress()
    report: LeakReport | SwapReport
    if arguments.swap:
        samples += random_moments(store, arguments.random)
        own = [] if arguments.benchmark is None else [moment_comparison(Benchmark.open(arguments.benchmark))]
        report = audit_swap(
            store,
            samples,
            tuple(arguments.raw),
            policy=arguments.policy,
            user_codes=_codes_of(store),
            knowledge=arguments.knowledge,
            others=not arguments.alone,
            cut=arguments.cut,
            charts=[differing_answers, differing_bundles],
            stores=[differing_questions, differing_candidates, differing_records, differing_exports, *own],
            report=progress,
        )
    else:
        report = audit_leaks(
            store,
            samples,
            raw_folder=tuple(arguments.raw) or None,
            policy=arguments.policy,
            user_codes=_codes_of(store) if arguments.raw else None,
            report=progress,
        )
    progress.close()
    _print(report, arguments)
    shown = _answers_shown(arguments, store, samples)
    if arguments.record is not None:
        looked = None if arguments.benchmark is None else shown
        AuditResult.of(store, report, looked).write(arguments.record)
    return 0 if report.clean and not shown else 1


def _answers_shown(arguments: argparse.Namespace, store: Store, samples: Sequence[tuple[int, datetime]]) -> int:
    """Search each sample's chart for the rows and cells that hold the answer by its benchmark; return how many are
    visible, and print them."""
    if arguments.benchmark is None:
        return 0
    benchmark, audited = Benchmark.open(arguments.benchmark), set(samples)
    drawn = tuple(sample for sample in benchmark.all_samples if (sample.subject_id, sample.moment) in audited)
    some = tuple(sample for sample in drawn if names_its_answer(sample))
    leaks = leak_check(replace(benchmark, all_samples=some), store)
    lines = [f"answers: {len(some):,} samples looked at, {len(leaks):,} leaks"]
    if unnamed := len(drawn) - len(some):
        lines.append(f"answers: of {unnamed:,} samples no row is named that holds the answer, so none was looked for")
    lines += [f"    {leak.sample}: {leak.what}" for leak in leaks[:_SHOWN]]
    lines += [f"    and {len(leaks) - _SHOWN:,} more"] if len(leaks) > _SHOWN else []
    print("\n".join(lines), file=sys.stderr if arguments.json else sys.stdout)
    return len(leaks)


def _print(found: AuditReport, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(found)
    else:
        print(found.as_text())


def _codes_of(store: Store) -> Path | None:
    """Return the folder of code tables the store was ingested with; UserError when they have changed since."""
    used = store.manifest["settings"]["user_codes"]
    if used is None:
        return None
    home = user_codes_home()
    if IngestSettings(user_codes=home).to_json()["user_codes"] != used:
        raise UserError("the code tables (wardround codes show) are not those of the store's ingest; ingest it again")
    return home


def _samples(arguments: argparse.Namespace, store: Store) -> Iterator[tuple[int, datetime]]:
    if arguments.benchmark is not None:
        benchmark = Benchmark.open(arguments.benchmark)
        tasks = {get_task(name).name for name in arguments.task}
        for sample in benchmark.all_samples:
            if not tasks or sample.task in tasks:
                yield sample.subject_id, sample.moment
    for text in arguments.sample:
        subject, _, moment = text.partition(",")
        try:
            number = (
                int(subject) if subject.isdecimal() and int(subject) in store.subjects else store.subject_of(subject)
            )
            yield number, parse_time(moment)
        except ValueError as error:
            raise UserError(f"{text!r} is not SUBJECT,TIME (for example 12345678,2150-01-31T08:00): {error}") from error


AUDIT = Command(EXAMPLES, configure, run)
