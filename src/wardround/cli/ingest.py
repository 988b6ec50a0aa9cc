"""``wardround ingest``: read source files into a point-in-time store."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from wardround.cli.output import add_json_option, print_json
from wardround.cli.parser import add_executor_options
from wardround.core import TerminalProgress, UserError, duration_text
from wardround.records import SOURCES, IngestReport, IngestSettings, SourceSpec, ingest, load_source_spec
from wardround.records.ingest import ingest_database
from wardround.records.reading import Database

EXAMPLES = """
  wardround ingest mimiciv mimic-iv-2.2 --store store
  wardround ingest mimiciv mimic-iv-demo-2.2 mimic-iv-ed-demo-2.2 --store store
  wardround ingest mimiciv mimic-iv-3.1 --store store --coding-lag-days 14
  wardround ingest mimiciv /shared/mimic-iv-3.1 --store /shared/store --workers 32 --executor ray
  wardround ingest mimiciv mimic-iv-3.1 --store store31 --earlier store30   reuses what is unchanged in store30
  wardround ingest mimiciii mimic-iii-1.4 --store store3 --result-lag-hours 6 --culture-lag-days 4
  wardround ingest fhir bulk-export --store store-fhir --time-zone America/New_York
  wardround ingest omop cdm-export --store store-omop --result-lag-hours 12
  wardround ingest omop --database postgresql://reader@db.hospital/cdm --schema cdm --store store-omop
  wardround ingest eicu eicu-crd-2.0 --store store-eicu
  wardround ingest --spec hospital.toml hospital --store store-hospital
"""

_MOST_NAMES = 8
_MOST_REASONS = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    kinds_of = f"{', '.join(SOURCES.names)}, or spec files of your own (with --spec it is left out)"
    parser.add_argument("source", nargs="?", help=f"what kind of records: {kinds_of}")
    parser.add_argument("--spec", type=Path, help="spec file of your own, or a folder of them: wardround spec init")
    kinds = ".csv, .tsv, .parquet, of FHIR .ndjson and .json; .gz too"
    parser.add_argument("folder", type=Path, nargs="*", help=f"one or more folders of the source's files: {kinds}")
    parser.add_argument("--database", metavar="URL", help="a PostgreSQL database in place of folders; read only")
    parser.add_argument("--schema", default="public", help="where its tables are (default: %(default)s)")
    parser.add_argument("--store", type=Path, required=True, help="folder of the store to make")
    parser.add_argument(
        "--earlier", type=Path, metavar="STORE", help="an earlier release's store: unchanged parts are reused"
    )
    parser.add_argument(
        "--coding-lag-days", type=float, default=0.0, help="billing codes are known this long after discharge"
    )
    parser.add_argument(
        "--result-lag-hours", type=float, default=24.0, help="delay until a laboratory result without a time is known"
    )
    parser.add_argument(
        "--culture-lag-days",
        type=float,
        default=7.0,
        help="delay until a culture is known, in sources without that time",
    )
    parser.add_argument(
        "--measure-medians",
        action="store_true",
        help="measure on these files the usual delay that replaces a missing time: every chart then depends on the "
        "rows of all patients (default: the delay in the spec)",
    )
    parser.add_argument(
        "--time-zone",
        metavar="NAME",
        help="time zone of the hospital, or its UTC offset (=-05:00), to read times with an offset",
    )
    parser.add_argument("--fill", action="store_true", help="print for every column the share of filled cells")
    add_executor_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ingest; print what was read, quarantined and missing."""
    progress = TerminalProgress()
    settings = IngestSettings(
        coding_lag=timedelta(days=arguments.coding_lag_days),
        result_lag=timedelta(hours=arguments.result_lag_hours),
        culture_lag=timedelta(days=arguments.culture_lag_days),
        measure_medians=arguments.measure_medians,
        time_zone=arguments.time_zone,
        workers=arguments.workers,
        executor=arguments.executor,
    )
    source, folders = _input(arguments)
    if arguments.database is not None:
        database = Database(url=arguments.database, schema=arguments.schema)
        report = ingest_database(
            source, database, arguments.store, settings=settings, earlier=arguments.earlier, report=progress
        )
    else:
        report = ingest(source, folders, arguments.store, settings=settings, earlier=arguments.earlier, report=progress)
    progress.close()
    if arguments.json:
        print_json(report)
    else:
        _print(report, every_column=arguments.fill)
    lost = any(report.quarantined.values()) or report.emptied_cells
    return 1 if lost or report.needed_tables or report.empty_files else 0


def _input(arguments: argparse.Namespace) -> tuple[SourceSpec, tuple[Path, ...]]:
    """Return the source and the folders: with ``--spec`` every word that is not an option is a folder."""
    named = [] if arguments.source is None else [arguments.source]
    words = [*named, *arguments.folder]
    if arguments.spec is None and not words:
        raise UserError("name the kind of records: wardround ingest SOURCE FOLDER --store STORE")
    source = load_source_spec(words.pop(0) if arguments.spec is None else arguments.spec)
    given = tuple(map(Path, words))
    if arguments.database is not None:
        if given:
            raise UserError(f"give --database or folders, not both ({given[0]})")
        return source, ()
    if not given:
        raise UserError(f"give the folder of the files: wardround ingest {source.name} FOLDER --store STORE")
    return source, given


def _print(report: IngestReport, *, every_column: bool) -> None:
    """Print what was ingested and what was not."""
    rows = sum(report.rows.values())
    print(f"{report.subjects:,} subjects, {rows:,} rows in {len(report.rows)} tables: {report.store}")
    print(f"took {duration_text(report.seconds)}" + (", continuing an interrupted ingest" if report.resumed else ""))
    if report.made_from is not None:
        print(report.made_from.as_text())
    for assumption in report.assumptions:
        print(assumption)
    _print_set_aside(report)
    for table, lost in report.needed_tables.items():
        print(f"WARNING: {table} is missing, so no chart shows {lost}")
    if report.empty_files:
        print(f"WARNING: empty files, treated as missing: {_some(report.empty_files)}")
    if report.only_headers:
        print(f"tables with a header and no row: {_some(report.only_headers)}")
    if report.repeated_rows:
        where = ", ".join(f"{name} {count:,}" for name, count in report.repeated_rows.items())
        print(f"duplicate rows, kept once: {where}")
    _print_cells(report, every_column=every_column)
    hidden = {name: count for name, count in report.never_visible.items() if count}
    if hidden:
        where = ", ".join(f"{name} {count:,}" for name, count in hidden.items())
        print(f"no availability time, so no chart shows these rows: {where}")
    if report.left_out:
        where = ", ".join(f"{what} {count:,}" for what, count in report.left_out.items())
        print(f"not used from the raw files: {where}")
    if report.missing_tables:
        print(f"missing tables: {', '.join(report.missing_tables)}")
    for name, columns in report.missing_columns.items():
        if columns:
            print(f"missing columns of {name}: {', '.join(columns)}")
    for name, columns in report.unknown_columns.items():
        if columns:
            print(f"unused columns of {name}: {', '.join(columns)}")
    if report.unknown_files:
        print(f"unused files: {_some(report.unknown_files)}")


def _print_cells(report: IngestReport, *, every_column: bool) -> None:
    """Print which cells were converted, refer to missing rows, or are empty."""
    for table, casts in report.casts.items():
        for cast, count in casts.items():
            print(f"WARNING: {table}: {count:,} cells were converted, or their time is ambiguous: {cast}")
    for table, orphans in report.orphans.items():
        for key, count in orphans.items():
            print(f"{table}: {count:,} values of {key} refer to missing rows")
    for table, filled in report.filled.items():
        empty = [column for column, count in filled.items() if not count]
        if empty and report.rows.get(table):
            print(f"empty columns of {table}: {', '.join(empty)}")
    if every_column:
        for table, filled in report.filled.items():
            read = report.rows_read.get(table, 0)
            shown = ", ".join(f"{column} {count / read:.0%}" for column, count in filled.items() if read)
            print(f"filled in {table}: {shown}")


def _print_set_aside(report: IngestReport) -> None:
    """Print how many rows were quarantined, of how many, and why; and which cells were left empty."""
    for name, cells in report.emptied_cells.items():
        why = "; ".join(f"{reason} {count:,}" for reason, count in cells.items())
        print(f"WARNING: unreadable late cells were left empty: {name}: {why}")
    total = sum(report.quarantined.values())
    if not total:
        return
    where = ", ".join(f"{name} {count:,}" for name, count in report.quarantined.items())
    print(f"WARNING: set aside {total:,} broken rows ({where}); see {report.store / 'quarantine'}")
    for name, count in report.quarantined.items():
        kept = report.rows.get(name, report.dictionary_rows.get(name))
        whole = "" if kept is None else f" of {kept + count:,}"
        reasons = sorted(report.quarantine_reasons.get(name, {}).items(), key=lambda item: -item[1])
        why = "; ".join(f"{reason} {number:,}" for reason, number in reasons[:_MOST_REASONS])
        others = len(reasons) - _MOST_REASONS
        more = f"; {others} more reasons" if others > 0 else ""
        if why:
            print(f"  {name}: {count:,}{whole} rows: {why}{more}")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"
