"""Raw files as typed rows: files are found, cut into blocks and read; broken rows are quarantined."""

from wardround.records.reading.cell_texts import as_text, on_the_wall, reader_of
from wardround.records.reading.csv_blocks import RecordsBlock
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.reading.postgres import Database
from wardround.records.reading.source_files import subject_number
from wardround.records.reading.table_reader import open_records

__all__ = [
    "Database",
    "FlatTables",
    "RecordsBlock",
    "as_text",
    "on_the_wall",
    "open_records",
    "reader_of",
    "subject_number",
]
