"""Source specs: tables, columns and types, and the clock of every row and late cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from wardround.core import Sensitivity, UserError
from wardround.records.rules.language import NO_TIME, Constant, MedianDelay, Rule, Times, walk
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.roles import Roles

# A spec is one or more TOML files (`sources/<source>/<module>.toml`): a new source needs a spec, not code. This file
# declares the keys; `spec_file.py` reads and checks the files.


ColumnType = Literal["int", "float", "text", "time", "date"]
OWN_SUBJECT = "_subject"
"""The column of a row's subject number, if the file itself has none."""
WRITTEN = "_written"
_PLAIN = FileFormat()
BESIDE_CELL = re.compile(r"\{(\w+)\}")
"""A cell in a text of ``beside``."""
LagSetting = Literal["coding_lag", "result_lag", "culture_lag"]
LAG_SETTINGS: tuple[LagSetting, ...] = get_args(LagSetting)
GROUP_SYSTEMS: Mapping[str, str] = {"ccs-diagnoses": "ccs_label", "ccs-procedures": "ccs_label", "atc": "atc_label"}
"""Grouping systems and the default name of the column each adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DictionaryJoin:
    """Columns added from a dictionary: ``on`` matches its key, ``add`` maps a new name to one of its columns."""

    table: str
    on: tuple[str, ...]
    add: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJoin:
    """A coarse label from a code grouper: CCS by ``code`` and ``version`` (a column, or the one ICD version of the
    source, ``fixed_version``), ATC by drug name and ``ndc``. If a key is missing in the spec, the table's ``code`` and
    the usual column names are used."""

    system: Literal["ccs-diagnoses", "ccs-procedures", "atc"]
    code: str = ""
    name: str = ""
    version: str | None = None
    fixed_version: int | None = None
    ndc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClock:
    """The clock of the papers. ``time`` None: always visible. ``operator`` compares it with the as-of time."""

    time: Rule | None = None
    hide: tuple[str, ...] = ()
    operator: Literal["<", "<="] = "<="


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflexTests:
    """Tests that are done only because of a result: ``column`` has one of the ``patterns``."""

    column: str | None = None
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRows:
    """Rows of one ``group`` are shown as a single row with only ``columns``, from ``at`` on until the first of them is
    known (``until``), because their number is itself a result. Groups with a ``reflex`` test show nothing before."""

    group: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    at: Rule
    until: Rule
    reflex: ReflexTests = ReflexTests()


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """A table that ingest makes from the ``text`` column of table ``source`` by a named function; a raw file of the
    table is used instead, if there is one.

    Only rows of the source whose text cells equal those of ``where`` are used (outer spaces are ignored). Of several
    with one key the one that was written first is kept, by the first filled column of ``written``. ``source`` is
    ``from`` in a file.
    """

    source: str
    function: str
    text: str = "text"
    where: Mapping[str, str] = field(default_factory=dict)
    written: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeColumns:
    """Columns from which a chart computes ``age``: an anchor (age and year), a birth date, or if that is empty its
    year, month and day (empty ones count as 1). None of them is shown."""

    anchor_age: str | None = None
    anchor_year: str | None = None
    birth: str | None = None
    birth_year: str | None = None
    birth_month: str | None = None
    birth_day: str | None = None
    hide: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are set."""
        anchor, parts = (self.anchor_age, self.anchor_year), (self.birth_year, self.birth_month, self.birth_day)
        return tuple(name for name in (*anchor, self.birth, *parts, *self.hide) if name is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendments:
    """How rows are amended: rows with one key are versions of one row, each valid from its ``version`` time on. A
    ``status`` among ``withdrawn`` removes the row from every later chart.

    ``row``: the column that names the row, in tables without a key; where it is empty, or not in the file, there are no
    versions.
    """

    status: str
    withdrawn: tuple[str, ...] = ()
    row: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names."""
        return (self.status,) if self.row is None else (self.status, self.row)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOf:
    """Rows that are shown in the line of the row of ``table`` with the same ``on``, by the texts ``beside``."""

    table: str
    on: str
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFrom:
    """The name of a row without one: ``column`` of the first row of ``table`` with the same ``on``."""

    table: str
    on: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectFrom:
    """The subject of a row: that of the row of ``table`` to which the column ``key`` refers."""

    key: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKeys:
    """The keys of ``[tables.NAME]`` in a spec file. ``columns`` are the file's; a key of ``late`` may be several column
    names, separated by commas."""

    path: str
    columns: Mapping[str, ColumnType]
    event_time: Rule
    available_at: Rule
    description: str = ""
    key: tuple[str, ...] = ()
    id_columns: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    """The file's own primary key, if ``key`` is not: checked at ingest, not part of row ids. Columns that are not in
    ``columns`` are whole numbers, read for the check and not stored."""
    version: str | None = None
    """The column that says when the row came to be as it is: two rows that differ in nothing else are one."""
    amended: Amendments | None = None
    subject: str | None = None
    """``subject_id`` if neither it nor ``subject_from`` is given."""
    subject_from: SubjectFrom | None = None
    encounter: str | None = None
    code: str | None = None
    code_system: str | None = None
    """The prefix of the codes; None: the table's name; empty: no prefix."""
    code_system_column: str | None = None
    """The column with each row's own code system; rows where it is empty have ``code_system``."""
    kind: str | None = None
    """The kind of its events in words; None: the table's name; ``code prefix``: the first part of the code."""
    classes: tuple[str, ...] = ()
    """Labels that give only a row's class ("Lab" of an order): without a text such a row has no content."""
    beside: tuple[str, ...] = ()
    """What an event's line shows beside its value: texts with ``{column}``, each shown where its cells are filled."""
    part_of: PartOf | None = None
    label_from: tuple[LabelFrom, ...] = ()
    """Sources of the name of a row without a label, first match; a row without any name has no content."""
    once_per: tuple[str, ...] = ()
    """Columns that make events repetitions: of those with the same cells, all filled, the last has a line."""
    needs_unit: bool = False
    """Whether a value without a unit could be read as what it is not (a rate, where an amount was charted): no line
    shows it."""
    label: str | None = None
    death: str | None = None
    """The column that says when the person died: a death in exports."""
    value: str | None = None
    text: str | None = None
    unit: str | None = None
    withhold: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    default_columns: tuple[str, ...] = ()
    describe: Mapping[str, str] = field(default_factory=dict)
    late: Mapping[str, Rule] = field(default_factory=dict)
    median_minutes: Mapping[str, float] = field(default_factory=dict)
    """By ``FROM.TO``, what ``median_delay(FROM, TO)`` adds unless an ingest is told to measure it: measured of a source
    it would be a statistic of everybody's future."""
    dictionary: DictionaryJoin | tuple[DictionaryJoin, ...] = ()
    group: GroupJoin | None = None
    published: PublishedClock = PublishedClock()
    pending: PendingRows | None = None
    derive: Derivation | None = None
    age: AgeColumns | None = None
    required: tuple[str, ...] = ()
    """Columns that the file must have, besides subject and key."""
    first: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Text columns made at ingest: the first of some columns that is not empty."""
    files: FileFormat = _PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec(TableKeys):
    """One table: its keys with defaults filled in, ``late`` by column, and the columns added at ingest."""

    name: str
    module: str
    joined: Mapping[str, ColumnType] = field(default_factory=dict)
    """Columns added at ingest from ``dictionary``, ``group`` and ``first``, with their types, in order."""

    @property
    def dictionaries(self) -> tuple[DictionaryJoin, ...]:
        """The joins of ``dictionary``, which may be one or a list."""
        return (self.dictionary,) if isinstance(self.dictionary, DictionaryJoin) else self.dictionary

    @property
    def owner_columns(self) -> tuple[str, ...]:
        """The file's columns that give a row's subject."""
        parent = None if self.subject_from is None else self.subject_from.key
        return tuple(name for name in (self.subject, parent) if name is not None)

    @property
    def has_text_subject(self) -> bool:
        """Whether the file names subjects by text; a store has a number for each."""
        return self.subject is not None and self.columns[self.subject] == "text"

    @property
    def subject_column(self) -> str:
        """The column with the subject's number, while a store is made."""
        return OWN_SUBJECT if self.subject is None or self.has_text_subject else self.subject

    @property
    def is_static(self) -> bool:
        """Whether the rows have no time (``event_time = "always"``)."""
        return isinstance(self.event_time, Constant)

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that name a row of the file; empty without a primary key."""
        return self.unique or self.key

    @property
    def read_columns(self) -> Mapping[str, ColumnType]:
        """What ingest reads of the file."""
        return {**self.columns, **{name: "int" for name in self.unique if name not in self.columns}}

    @property
    def all_columns(self) -> Mapping[str, ColumnType]:
        """The file's columns and the joined ones, in the order in which they are handed out."""
        return {**self.columns, **self.joined}

    @property
    def hidden(self) -> frozenset[str]:
        """Columns never handed out under any policy."""
        return frozenset(self.withhold).union(self.age.columns if self.age else ())

    @property
    def public_columns(self) -> Mapping[str, ColumnType]:
        """What a chart of policy ``known_at`` hands out besides ``row_id``: default columns first, then the others."""
        types: dict[str, ColumnType] = dict(self.all_columns)
        if self.age:
            types["age"] = "int"
        order = dict.fromkeys((*self.default_columns, *types))
        return {name: types[name] for name in order if name not in self.hidden}

    @property
    def later_columns(self) -> frozenset[str]:
        """The columns that are shown later than their row and do not give its time or subject: their content must not
        decide whether the row exists before."""
        clocks = {name for rule in (self.event_time, self.available_at) for part in walk(rule) for name in part.columns}
        return (
            frozenset(self.late).intersection(self.columns) - clocks - {*self.owner_columns, *self.key, *self.required}
        )

    @property
    def content_columns(self) -> tuple[str, ...]:
        """The columns whose content makes the row id of a table without a key: not late, not withheld, not joined."""
        return self.id_columns or tuple(name for name in self.columns if name not in self.hidden.union(self.late))

    @property
    def median_pairs(self) -> Sequence[tuple[str, str]]:
        """The pairs of columns whose median delay the table's rules use."""
        parts = (part for _, rule in self.rules() for part in walk(rule))
        return sorted({(part.start, part.end) for part in parts if isinstance(part, MedianDelay)})

    def rules(self) -> Iterator[tuple[str, Rule]]:
        """Yield every time rule with its place in the spec."""
        yield "event_time", self.event_time
        yield "available_at", self.available_at
        for column, rule in self.late.items():
            yield f"late.{column}", rule
        if self.published.time is not None:
            yield "published.time", self.published.time
        if self.pending is not None:
            yield "pending.at", self.pending.at
            yield "pending.until", self.pending.until


@dataclass(frozen=True, slots=True, kw_only=True)
class DictionaryKeys:
    """The keys of ``[dictionaries.NAME]``: a table of codes, the same for all subjects, loaded whole."""

    path: str
    columns: Mapping[str, ColumnType]
    key: tuple[str, ...] = ()
    description: str = ""
    also: tuple[str, ...] = ()
    """Paths of further files that belong to it, as a data set's own concepts do to a vocabulary."""
    absent: tuple[str, ...] = ()
    """Values of the key's first column that mean "no code": their entries are not loaded."""
    files: FileFormat = _PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class DictionarySpec(DictionaryKeys):
    """One dictionary: its keys and its name."""

    name: str

    @property
    def read_columns(self) -> Mapping[str, ColumnType]:
        """What ingest reads of the file."""
        return self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKeys:
    """The keys of ``[source]`` that hold for the whole source, in whichever file they are."""

    name: str
    versions: tuple[str, ...] = ()
    sensitivity: Sensitivity = "credentialed"
    ignored: tuple[str, ...] = ()
    """Columns that every file may have and that are not used."""
    flatten: str | None = None
    """The flattener that makes this source's raw files flat before ingest; None: they are tables already."""
    assumed: Mapping[LagSetting, str] = field(default_factory=dict)
    """Lag settings that replace times this source does not record, each with the assumption in words."""
    splits: str | None = None
    """The dictionary with the source's own splits: columns ``subject_id`` and ``split``."""
    person: str | None = None
    """``table.column``, a text column that gives the subjects of one person, if a person may have several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec(SourceKeys):
    """One source. ``sha256``: hash of its files; ``order`` lists tables so that a table's available time never needs
    that of a later one."""

    title: str
    sha256: str
    tables: Mapping[str, TableSpec]
    dictionaries: Mapping[str, DictionarySpec]
    order: tuple[str, ...]
    files: Mapping[str, str]
    """The spec's own files, name to text."""
    modules: tuple[str, ...] = ()
    roles: Roles = field(default_factory=Roles)
    """The roles of its tables."""
    time_zone: str = ""
    """The hospital's time zone, in which all its files are read."""
    numbered_by: str = ""
    """For records exported from another source's store: that source, whose numbers its people have."""

    @property
    def people(self) -> str:
        """The source to which these people belong: one name and one number are one person, also in banks."""
        return self.numbered_by or self.name

    @property
    def median_seconds(self) -> Mapping[str, float]:
        """The declared median delays, by ``table.from.to``."""
        return {
            f"{table.name}.{pair}": minutes * 60
            for table in self.tables.values()
            for pair, minutes in table.median_minutes.items()
        }

    def in_zone(self, time_zone: str | None) -> SourceSpec:
        """Return the same source for a hospital in a time zone. UserError: the spec declares another zone."""
        if not time_zone or time_zone == self.time_zone:
            return self
        if not self.time_zone and self.flatten is not None:  # flat tables are on the hospital's clock already
            return replace(self, time_zone=time_zone)
        if self.time_zone:
            raise UserError(
                f"source {self.name!r}: time_zone is {self.time_zone} in the spec and {time_zone} is asked for"
            )

        def there(files: FileFormat) -> FileFormat:
            return replace(files, time_zone=time_zone)

        return replace(
            self,
            tables={name: replace(table, files=there(table.files)) for name, table in self.tables.items()},
            dictionaries={name: replace(each, files=there(each.files)) for name, each in self.dictionaries.items()},
            time_zone=time_zone,
        )


def late_rules(table: TableSpec, present: list[str]) -> dict[Rule, list[str]]:
    """Return each distinct late rule with its columns; joined columns have the clock of the column that they are joined
    by."""
    rules: dict[Rule, list[str]] = {}
    for column, rule in table.late.items():
        if column in present or column in table.joined:
            rules.setdefault(rule, []).append(column)
    return rules


# Column types of a spec as Arrow types, and times as plain microseconds.


DAY_MICROSECONDS = 86_400_000_000
END_OF_DAY_MICROSECONDS = DAY_MICROSECONDS - 1_000_000
ARROW_TYPES: Mapping[ColumnType, Any] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "time": pa.timestamp("us"),
    "date": pa.date32(),
}


def microseconds(array: Any) -> Times:
    """Return a timestamp[us] or date32 array as microseconds; a date is the end of its day, null is ``NO_TIME``."""
    times: Times
    if pa.types.is_date32(array.type):
        days = integers(array, null=0).astype(np.int64)
        times = days * DAY_MICROSECONDS + END_OF_DAY_MICROSECONDS
        if array.null_count:
            times = np.where(valid(array), times, NO_TIME)
    else:
        times = integers(array, null=NO_TIME)
    return times


def integers(array: Any, *, null: int) -> Any:
    """Return the raw integers of a fixed-width array, zero-copy if nothing is null (``null`` fills the gaps)."""
    width = array.type.bit_width // 8
    kind = np.dtype(f"i{width}")
    buffer = array.buffers()[1]
    if buffer is None:
        return np.empty(0, dtype=kind)
    numbers = np.frombuffer(buffer, dtype=kind, count=len(array), offset=array.offset * width)
    if array.null_count:
        numbers = np.where(valid(array), numbers, kind.type(null))
    return numbers


def one_array(column: Any) -> Any:
    """Return a chunked column as one array, without a copy if it has only one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def valid(array: Any) -> Any:
    """Return which cells are not null, as a boolean array."""
    return array.is_valid().to_numpy(zero_copy_only=False)


def timestamps(times: Times) -> Any:
    """Return microseconds as a timestamp[us] array without nulls."""
    return pa.Array.from_buffers(pa.timestamp("us"), len(times), [None, pa.py_buffer(np.ascontiguousarray(times))])


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as a single batch."""
    table = table.combine_chunks()
    arrays = [column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
