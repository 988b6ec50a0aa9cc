"""``wardround spec``, ``codes`` and ``ingest``: describe a source, give codes words, read files into a store."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from wardround.audits.own import knowledge_questions, read_knowledge
from wardround.cli.parser import Command, add_executor_options
from wardround.cli.terminal import add_json_option, print_json, print_rows
from wardround.clinical.codes import add_user_codes, how_to_add, user_codes
from wardround.clinical.codes.user_codes import KINDS
from wardround.core import TerminalProgress, UserError, duration_text, user_codes_home, write_atomically
from wardround.records import SOURCES, IngestReport, IngestSettings, SourceSpec, ingest, load_source_spec
from wardround.records.drafts import NOT_TAKEN, draft_spec
from wardround.records.ingest import ingest_database
from wardround.records.reading import Database
from wardround.records.rules import NEVER
from wardround.records.sources.meds import describe_codes
from wardround.records.specs import ROLES, spec_problems, spec_schema

# ``wardround spec``: draft, check and show the spec of a source of your own.


SPEC_EXAMPLES = """
  wardround spec init hospital --out hospital.toml
  wardround spec check hospital.toml
  wardround spec show hospital.toml
  wardround spec show mimiciv
  wardround spec knowledge hospital.toml --out hospital.knowledge.toml
  wardround spec knowledge hospital.toml --check hospital.knowledge.toml
  wardround spec schema > source-spec.schema.json
"""


def configure_spec(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    commands = parser.add_subparsers(dest="action", required=True)
    init = commands.add_parser("init", help="draft a spec from a folder of CSV, TSV, Parquet or JSON lines files")
    init.add_argument("folder", type=Path, help="folder of the files")
    init.add_argument("--out", type=Path, help="file to write (default: print)")
    check = commands.add_parser("check", help="check a spec, or list the open questions of a draft")
    check.add_argument("spec", help="a spec file, a folder of them, or a source's name")
    commands.add_parser("schema", help="print the JSON Schema of spec files, for editors")
    show = commands.add_parser("show", help="print a spec's tables, clocks and roles")
    show.add_argument("spec", help="a spec file, a folder of them, or a source's name")
    knowledge = commands.add_parser(
        "knowledge", help="ask somebody else when each row and column could be read, for the audits"
    )
    knowledge.add_argument("spec", help="a spec file, a folder of them, or a store's spec folder")
    way = knowledge.add_mutually_exclusive_group()
    way.add_argument("--out", type=Path, help="file to write the questions to (default: print)")
    way.add_argument("--check", type=Path, metavar="FILE", help="check whether the answers in this file can be used")


def run_spec(arguments: argparse.Namespace) -> int:
    """Run the action: draft, check or show."""
    if arguments.action == "init":
        return _init(arguments.folder, arguments.out)
    if arguments.action == "knowledge":
        return _knowledge(load_source_spec(arguments.spec), arguments.out, arguments.check)
    if arguments.action == "check":
        return _check(arguments.spec)
    if arguments.action == "schema":
        print(json.dumps(spec_schema(), indent=2))
        return 0
    _show(load_source_spec(arguments.spec))
    return 0


def _init(folder: Path, out: Path | None) -> int:
    text = draft_spec(folder)
    status = _written(text, out, f"answer every TODO in it, then run: wardround spec check {out}")
    for line in text.splitlines() if out is not None else ():
        if line.startswith(NOT_TAKEN):
            print(line.removeprefix("# "))
    return status


def _written(text: str, out: Path | None, then: str) -> int:
    """Print a text, or write it to a new file and print the next step."""
    if out is None:
        print(text)
        return 0
    if out.exists():
        raise UserError(f"{out}: exists already; choose another file or remove it")
    write_atomically(out, text)
    print(f"{out}: {then}")
    return 0


def _knowledge(spec: SourceSpec, out: Path | None, check: Path | None) -> int:
    if check is None:
        return _written(knowledge_questions(spec), out, "give it to somebody who did not write the spec")
    read_knowledge(check, spec)
    print(f"{check}: every question about {spec.name!r} is answered")
    return 0


def _check(spec: str) -> int:
    problems = spec_problems(spec)
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problems")
        return 1
    print(f"{spec}: no problem found; every clock is declared")
    tables = load_source_spec(spec).tables.values()
    hidden = [f"{table.name}.{column}" for table in tables for column, rule in table.late.items() if rule == NEVER]
    if hidden:
        print(f"never shown until a rule says when: {', '.join(hidden)}")
    return 0


def _show(spec: SourceSpec) -> None:
    print(f"{spec.name}: {spec.title} ({spec.sensitivity}), {len(spec.tables)} tables\n")
    clocks = [
        (table.name, ", ".join(table.row_key), str(table.event_time), str(table.available_at))
        for table in spec.tables.values()
    ]
    print_rows(("table", "key", "event_time", "available_at"), clocks)
    late = [(table.name, column, str(rule)) for table in spec.tables.values() for column, rule in table.late.items()]
    if late:
        print()
        print_rows(("table", "late column", "known at"), late)
    print()
    print_rows(("role", "played by", "what it is"), [(role, _played(spec, role), what) for role, what in ROLES.items()])


def _played(spec: SourceSpec, role: str) -> str:
    """Return the tables of a role."""
    found = getattr(spec.roles, role)
    several = found if isinstance(found, tuple) else (found,) if found is not None else ()
    return ", ".join(role.table for role in several) or "-"


# ``wardround codes``: code tables that wardround may not ship, and words for the codes of MEDS data sets.


CODES_EXAMPLES = """
  wardround codes show
  wardround codes add icd9-procedures prref_2015.csv
  wardround codes add drug-atc mimic_drug_to_atc.csv.gz
  wardround codes describe meds --from mimic/hosp/d_labitems.csv.gz mimic/icu/d_items.csv.gz --out words
  wardround ingest meds words meds --store store      the first folder that has codes wins
  wardround codes describe ehrshot_meds --from athena/CONCEPT.csv --out words
"""


def configure_codes(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="check a file and keep its table", examples=CODES_EXAMPLES)
    add.add_argument("kind", choices=sorted(KINDS), help="what the table maps")
    add.add_argument("file", type=Path, help="the file as its publisher gives it, gzipped or not")
    describe = actions.add_parser("describe", help="give a MEDS data set's codes words", examples=CODES_EXAMPLES)
    describe.add_argument("folder", type=Path, help="folder of the MEDS data set")
    describe.add_argument(
        "--from",
        dest="dictionaries",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="code,description; MIMIC's d_labitems, d_items, d_icd_*; Athena's CONCEPT.csv; the first that knows wins",
    )
    describe.add_argument("--out", type=Path, required=True, help="folder to write metadata/codes.parquet into")
    actions.add_parser("show", help="list present tables, and how to get the others", examples=CODES_EXAMPLES)


def run_codes(arguments: argparse.Namespace) -> int:
    """Add code tables, or list them."""
    home = user_codes_home()
    if arguments.action == "add":
        added = add_user_codes(arguments.kind, arguments.file, home)
        print(f"{added.kind}: {added.rows:,} rows of {added.file} ({added.format}), sha256 {added.sha256[:16]}…")
        print("stores and benchmarks built from now on use it")
        return 0
    if arguments.action == "describe":
        found = describe_codes(arguments.folder, arguments.dictionaries, arguments.out)
        print(f"{found.after:,} of {found.codes:,} codes have words, {found.before:,} had: {found.path}")
        return 0
    rows = []
    for kind in sorted(KINDS):
        present = user_codes(home).get(kind)
        rows.append(
            (kind, KINDS[kind].title, f"{present.rows:,} rows, {present.file}" if present else how_to_add(kind))
        )
    print_rows(("kind", "what", "here"), rows)
    return 0


# ``wardround ingest``: read source files into a point-in-time store.


INGEST_EXAMPLES = """
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


def configure_ingest(parser: argparse.ArgumentParser) -> None:
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


def run_ingest(arguments: argparse.Namespace) -> int:
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
        _print_ingest(report, every_column=arguments.fill)
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


def _print_ingest(report: IngestReport, *, every_column: bool) -> None:
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


SPEC = Command(SPEC_EXAMPLES, configure_spec, run_spec)
CODES = Command(CODES_EXAMPLES, configure_codes, run_codes)
INGEST = Command(INGEST_EXAMPLES, configure_ingest, run_ingest)
