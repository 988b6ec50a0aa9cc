"""Roles of tables, and one subject's rows by role."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Roles: what a source's tables are used for, whatever their names. Tasks, answer spaces and the offline policy find
# tables by role. A spec declares roles under ``[roles.*]``; ``docs/roles.md`` lists every key.


Conditions: TypeAlias = tuple[Mapping[str, tuple[str, ...]], ...]
"""A row counts if it meets one of these, or if there are none: each names columns and the patterns (``*`` any text,
``?*`` any but an empty one) of which one must fit, and none of those that begin with ``!``; case does not matter."""
Precision = Literal["moment", "day", "stay"]
Group = Literal["ccs"]
ROLES: Mapping[str, str] = {
    "admission": "a stay in hospital, from admission to discharge",
    "stay": "a stay in intensive care",
    "emergency": "a visit to the emergency department",
    "lab": "a laboratory result",
    "vital": "a vital sign or another measurement at the bedside",
    "order": "a drug order",
    "administration": "a dose of a drug given",
    "intake": "what a person is given as a fluid or an infusion",
    "output": "what leaves the body: urine, drains",
    "transfer": "a move to a care unit",
    "culture": "a culture or another test of microbiology",
    "diagnosis": "a diagnosis",
    "procedure": "a procedure done",
    "allergy": "what a person does not tolerate",
    "note": "a text",
    "summary": "the discharge summary of a finished stay",
    "death": "when the person died",
    "image": "a picture that was taken",
    "person": "who the person is: sex, ethnicity, insurance",
}
"""Every role, and which rows have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRole:
    """Intervals: one row each (``start`` and ``ends`` are columns), or two events of a stream (``starts`` and ``stops``
    are patterns of their codes); the second event is not needed if the first has a cell in ``ends``.

    The latest of ``ends`` counts; the first column of ``ends`` is the discharge. ``time|day``: a time, or if it is
    empty or midnight the day of another column. Columns may be ``_event`` and ``_available``, the row's own clocks.
    """

    table: str
    id: str | None = None
    start: str | None = None
    time: tuple[str, ...] = ()
    """Where ``start`` is no column of the file: the columns in which a chart shows when an interval began."""
    ends: tuple[str, ...] = ()
    code: str | None = None
    starts: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    where: Conditions = ()
    kind: str | None = None
    """The column that says what kind of interval a row is; those of ``no_stays`` that meet no condition are none."""
    no_stays: tuple[str, ...] = ()

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Every column it names."""
        ends = (part for end in self.ends for part in end.split("|"))
        conditions = (column for condition in self.where for column in condition)
        return tuple(filter(None, (self.id, self.start, *self.time, self.code, self.kind, *ends, *conditions)))

    def looked_for(self) -> str:
        """How its rows are found, in one line, for messages."""
        if self.start is None:
            return f"{self.table}.{self.code} like {' or '.join(self.starts)}"
        conditions = (
            " and ".join(f"{column} {' or '.join(map(repr, patterns))}" for column, patterns in condition.items())
            for condition in self.where
        )
        return f"{self.table} with {', or '.join(conditions)}" if self.where else f"rows of {self.table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentRole:
    """Moments: a time column, or the time of the rows whose code matches one of the patterns ``starts``."""

    table: str
    time: str | None = None
    code: str | None = None
    starts: tuple[str, ...] = ()

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Every column it names."""
        return tuple(filter(None, (self.time, self.code)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRole:
    """The columns that describe a person, by which results are split; a table may lack some of them."""

    table: str
    sex: str | None = None
    ethnicity: str | None = None
    insurance: str | None = None

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Every column it names."""
        return tuple(filter(None, (self.sex, self.ethnicity, self.insurance)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRole:
    """Images: one row each, whose ``id`` names the file or the object on an image server. ``study``: the examination;
    ``view``: the projection; ``instance``: the DICOM instance UID. ``report``: the table of reports on examinations,
    with ``report_study`` and ``report_text``."""

    table: str
    id: str
    study: str | None = None
    time: tuple[str, ...] = ()
    view: str | None = None
    instance: str | None = None
    report: str | None = None
    report_study: str | None = None
    report_text: str | None = None

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Every column of its own table that it names."""
        return tuple(filter(None, (self.id, self.study, *self.time, self.view, self.instance)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeForm:
    """The form of a code in a stream: a code that begins with ``start`` is of ``system``; the rest is the code, up to
    the next ``//``, after which the unit may follow."""

    start: str
    system: str
    unit_follows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinTable:
    """Another table with the same content as a row: ``column`` of the row has the other's key."""

    table: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRole:
    """Rows with one statement each: a result, an order, a diagnosis.

    ``label``: the columns that name it, best first (without one: the table's own label); ``time``: the columns in which
    a chart shows when it was. A code is of one ``system``, of the system in a column, or in one of several ``forms``; a
    cell may hold several, separated by ``separator``. ``precision``: rows are known to the moment, to the day, or
    belong to a whole stay and are written when it ends. ``where``: the rows that tasks use; codes are looked up in all
    rows. ``group``: the answers are the categories of its codes, not its labels.
    """

    table: str
    label: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    id: str | None = None
    where: Conditions = ()
    precision: Precision = "moment"
    group: Group | None = None
    group_label: str = "ccs_label"
    """Where its codes are grouped: the column in which a chart shows the category."""
    clock: str | None = None
    """Rows in which this column is empty have only a date, and no moment for a question."""
    not_labels: tuple[str, ...] = ()
    """Labels without meaning (an unknown unit)."""
    specimen: str | None = None
    """Of cultures: the specimen. If the label is the specimen too, tasks ask for specimens."""
    organism: str | None = None
    """Of cultures: the organism."""
    drug_code: str | None = None
    """Of orders: the column with the drug's national code, which may say more than its name."""
    twin: TwinTable | None = None
    stop: str | None = None
    """Of orders, intake and procedures: the column in which a chart shows when it ended, once it has."""
    route: str | None = None
    """Of orders: how the drug is given."""
    fluid: str | None = None
    """Of results: the column of the specimen; a result from anything but blood is another measurement."""
    measures: Mapping[str, str] = field(default_factory=dict)
    """Of rows that hold many measurements: their columns and what each of them measures."""
    units: Mapping[str, str] = field(default_factory=dict)
    """By column of numbers the unit that all of them are in, where no column says it."""
    low: str | None = None
    high: str | None = None
    """Of results: the limits of what is normal."""
    code: str | None = None
    system: str | None = None
    system_column: str | None = None
    systems: Mapping[str, str] = field(default_factory=dict)
    forms: tuple[CodeForm, ...] = ()
    separator: str | None = None
    value: str | None = None
    text: str | None = None
    unit: str | None = None
    dictionary: Mapping[str, str] = field(default_factory=dict)
    """The dictionary of its codes: ``name``, and its columns ``code``, ``system``, ``label``; ``about`` are the columns
    that say more of a label, with commas between."""

    def readings(self, code: str, system_cell: str = "") -> Iterator[tuple[str, str, str | None]]:
        """Yield every (system, code, unit) that a cell may mean; the first form that matches is the only one."""
        if self.system is not None:
            for each in code.split(self.separator) if self.separator else (code,):
                yield self.system, each, None
        elif self.system_column is not None:
            if system_cell in self.systems:
                yield self.systems[system_cell], code, None
        else:
            form = next((form for form in self.forms if code.startswith(form.start)), None)
            if form is not None:
                inner, _, rest = code.removeprefix(form.start).partition("//")
                yield form.system, inner, rest.rpartition("//")[2] or None if form.unit_follows else None

    @property
    def is_coded(self) -> bool:
        """Whether it declares the system of its codes."""
        return bool(self.code and (self.system or self.system_column or self.forms))

    @property
    def asks_specimens(self) -> bool:
        """Whether its label is the specimen, not the test."""
        return self.specimen is not None and self.label == (self.specimen,)

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Every column it names."""
        conditions = (column for condition in self.where for column in condition)
        single = (self.id, self.clock, self.specimen, self.organism, self.drug_code, self.stop, self.route, self.fluid)
        coded = (self.code, self.system_column, self.value, self.text, self.unit, self.low, self.high)
        twin = (self.twin.column,) if self.twin else ()
        several = (*self.label, *self.time, *self.measures, *self.units)
        return tuple(filter(None, (*several, *single, *coded, *twin, *conditions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The roles of one source; several tables may have a role, tasks use the first.

    ``not_the_record``: patterns of codes that are not events of the record (a birth); ``hierarchy``: how the source
    stores which code is below which; ``kept_for_admitted``: tables with rows only of admitted people, so that a row
    itself reveals the admission; ``unavailable``: by pattern, the tasks whose answers the source can never contain, and
    why.
    """

    admission: SpanRole | None = None
    stay: SpanRole | None = None
    emergency: SpanRole | None = None
    lab: tuple[RowRole, ...] = ()
    vital: tuple[RowRole, ...] = ()
    order: tuple[RowRole, ...] = ()
    administration: tuple[RowRole, ...] = ()
    intake: tuple[RowRole, ...] = ()
    output: tuple[RowRole, ...] = ()
    transfer: tuple[RowRole, ...] = ()
    culture: tuple[RowRole, ...] = ()
    diagnosis: tuple[RowRole, ...] = ()
    procedure: tuple[RowRole, ...] = ()
    allergy: tuple[RowRole, ...] = ()
    note: tuple[RowRole, ...] = ()
    summary: tuple[RowRole, ...] = ()
    death: tuple[MomentRole, ...] = ()
    image: tuple[ImageRole, ...] = ()
    person: tuple[PersonRole, ...] = ()
    not_the_record: tuple[str, ...] = ()
    kept_for_admitted: tuple[str, ...] = ()
    hierarchy: str | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)

    def rows(self, role: str) -> tuple[RowRole, ...]:
        """Every table with a role of rows."""
        found: tuple[RowRole, ...] = getattr(self, role)
        return found

    def first(self, role: str) -> RowRole | None:
        """The table that tasks use; None if no table has the role."""
        return next(iter(self.rows(role)), None)

    def refuses(self, task: str) -> str | None:
        """Return why this source can never have the answers of a task; None if it can."""
        return refusal(self.unavailable, task)


def refusal(unavailable: Mapping[str, str], task: str) -> str | None:
    """Return the reason of the first pattern that a task matches."""
    return next((why for pattern, why in unavailable.items() if fnmatchcase(task, pattern)), None)


def unplayed(role: str) -> str:
    """Return the message that no table has a role."""
    return f"no table plays the role `{role}` ({ROLES[role]})"


# One subject's rows of a table; code columns are read once, however many rules use them.


Codes = tuple[str, ...]
Encoded = tuple[npt.NDArray[np.int64], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedRows:
    """Rows of a table; for each code column its distinct texts, and which of them every row has."""

    batch: pa.RecordBatch
    _columns: dict[str, Encoded] = field(default_factory=dict, init=False, repr=False)

    def has(self, names: Sequence[str]) -> bool:
        """Return whether all these columns exist."""
        return set(names) <= set(self.batch.schema.names)

    def encoded(self, name: str) -> Encoded:
        """Return each row's place among the distinct texts, and the texts; an empty cell is an empty text."""
        if name not in self._columns:
            encoded = self.batch.column(name).dictionary_encode()
            cells = ("" if cell is None else str(cell) for cell in encoded.dictionary.to_pylist())
            texts = (*cells, "")
            index = encoded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
            self._columns[name] = np.asarray(index, np.int64), texts
        return self._columns[name]

    def combined(self, names: Sequence[str]) -> tuple[npt.NDArray[np.int64], list[Codes]]:
        """Return each row's place among the combinations of texts, and the combinations."""
        if len(names) == 1:
            index, texts = self.encoded(names[0])
            return index, [(text,) for text in texts]
        places = np.zeros(self.batch.num_rows, np.int64)
        keys: list[Codes] = [()]
        for name in names:
            index, texts = self.encoded(name)
            places = places * len(texts) + index
            keys = [(*key, text) for key in keys for text in texts]
        return places, keys

    def fits(self, name: str, patterns: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Return which rows have a text that matches one of the patterns and none of those after ``!``; case is
        ignored."""
        index, texts = self.encoded(name)
        return np.fromiter((_fits(text, patterns) for text in texts), bool, len(texts))[index]

    def meet(self, conditions: Conditions) -> npt.NDArray[np.bool_]:
        """Return which rows meet one of some conditions (all rows without conditions). A missing column matches no
        pattern."""
        if not conditions:
            return np.ones(self.batch.num_rows, bool)
        met = np.zeros(self.batch.num_rows, bool)
        for condition in conditions:
            if self.has(list(condition)):
                met |= np.logical_and.reduce([self.fits(name, patterns) for name, patterns in condition.items()])
        return met


@cache
def _fits(text: str, patterns: tuple[str, ...]) -> bool:
    folded = text.casefold()
    wanted = [pattern.casefold() for pattern in patterns if not pattern.startswith("!")]
    refused = [pattern[1:].casefold() for pattern in patterns if pattern.startswith("!")]
    fits = not wanted or any(fnmatchcase(folded, pattern) for pattern in wanted)
    return fits and not any(fnmatchcase(folded, pattern) for pattern in refused)
