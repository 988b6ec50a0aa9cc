"""What a source spec is: its dataclasses, the reader of its TOML files, and the check of the whole."""

from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.roles import ROLES, CodedRows, Codes, Conditions, refusal
from wardround.records.specs.spec import (
    ARROW_TYPES,
    DAY_MICROSECONDS,
    END_OF_DAY_MICROSECONDS,
    ColumnType,
    DictionarySpec,
    late_rules,
    microseconds,
    valid,
)
from wardround.records.specs.spec_body import spec_schema
from wardround.records.specs.spec_check import refuse_open_questions
from wardround.records.specs.spec_file import spec_problems
from wardround.records.specs.wall_clock import UndeclaredZone, WallClock

__all__ = [
    "ARROW_TYPES",
    "DAY_MICROSECONDS",
    "END_OF_DAY_MICROSECONDS",
    "ROLES",
    "CodedRows",
    "Codes",
    "ColumnType",
    "Conditions",
    "DictionarySpec",
    "FileFormat",
    "UndeclaredZone",
    "WallClock",
    "late_rules",
    "microseconds",
    "refusal",
    "refuse_open_questions",
    "spec_problems",
    "spec_schema",
    "valid",
]
