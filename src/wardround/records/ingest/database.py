"""Ingest a PostgreSQL database in place of files: its tables are copied beside the store, read, and removed."""

from __future__ import annotations

import shutil
from pathlib import Path

from wardround.core import Reporter, UserError, silent
from wardround.records.ingest.ingest import ingest
from wardround.records.ingest.plan import IngestReport, IngestSettings, is_finished
from wardround.records.reading.postgres import Database, copy_tables
from wardround.records.specs.spec import SourceSpec
from wardround.records.specs.spec_file import load_source_spec


def ingest_database(
    source: str | SourceSpec,
    database: Database,
    store: Path | str,
    *,
    settings: IngestSettings | None = None,
    earlier: Path | str | None = None,
    report: Reporter = silent,
) -> IngestReport:
    """Read the tables of a database, as of one moment, into a new store. Arguments as for :func:`ingest`.

    The same call after an interruption continues. UserError: the store is finished, or as for :func:`ingest`.
    """
    store = Path(store)
    if is_finished(store):
        raise UserError(f"{store} is a finished store: name another folder to read the database again")
    spec = source if isinstance(source, SourceSpec) else load_source_spec(source)
    copied = store.with_name(f"{store.name}.tables")
    copy_tables(spec, database, copied, report=report)
    made = ingest(spec, copied, store, settings=settings, earlier=earlier, report=report)
    shutil.rmtree(copied)
    return made
