"""``wardround export bundles``: a store or one chart, hour by hour, with the decisions to predict."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.agents.stays import coded_roles
from wardround.agents.stays.batch import StepsTable
from wardround.cli.output import add_json_option, print_json
from wardround.cli.parser import moment
from wardround.clinical.bundles import ActionType, bundle_text, bundles_of, carried_by, step_targets
from wardround.clinical.bundles.files import END_OF_TIME, BundlesReport, write_bundles
from wardround.core import TerminalProgress, UserError, printable
from wardround.records import Store
from wardround.runs.stays import store_score

EXAMPLES = """
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


def configure(parser: argparse.ArgumentParser) -> None:
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


def run(arguments: argparse.Namespace) -> int:
    """Write all bundles, or print a subject's."""
    if (arguments.out is None) == (arguments.subject is None):
        raise UserError("say where the whole store's bundles go (--out FOLDER) or whose to print (--subject ID)")
    if arguments.protocol is not None and arguments.out is None:
        raise UserError("--protocol belongs to --out FOLDER: the steps of the whole store")
    store = Store.open(arguments.store)
    if arguments.subject is None:
        _write(store, arguments)
    else:
        _print_chart(store, arguments)
    return 0


def _write(store: Store, arguments: argparse.Namespace) -> None:
    progress = TerminalProgress()
    beside = []
    if arguments.protocol is not None:
        beside = [StepsTable(coded_roles(arguments.protocol, carried_by(store), store_score(store)))]
    report = write_bundles(store, arguments.out, beside=beside, report=progress)
    progress.close()
    if arguments.json:
        print_json(report)
        return
    _print_report(report)


def _print_report(report: BundlesReport) -> None:
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
