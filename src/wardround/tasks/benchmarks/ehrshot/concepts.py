"""EHRSHOT's concepts: codes by system, descent, units, thresholds, and the roles the tasks need."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.core import RecordError, UserError
from wardround.records import MomentRole, RowRole, SourceSpec, SpanRole, Store, list_sources, load_source_spec, unplayed
from wardround.records.specs import CodedRows, Codes, refusal
from wardround.tasks.benchmarks.answer_rules import AnswerRules, Thresholds

SEVERITIES = ("normal", "mild", "moderate", "severe")
PREFIX_SYSTEMS = frozenset({"icd9", "icd10"})
"""Systems whose codes are given by their beginning; all other codes are whole. ``icd`` is either of them: no code of
a concept here is one of another concept in the other version."""
_DECIMALS = 4
"""A value that was stored with 32 bits (3.9 reads as 3.9000001) must not cross a threshold by that."""

Operator = Literal["<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One threshold: values for which it holds have this class."""

    value: int
    operator: Operator
    bound: float

    def holds(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Say for which values it holds."""
        compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[self.operator]
        return np.asarray(compare(values, self.bound))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConcept:
    """What one task is about. ``codes`` by system; ``roots`` are ids whose descendants count too; a laboratory concept
    has a ``unit``, the factors of the ``units`` that can be turned into it, and ``steps``, the worst first."""

    task: str
    title: str
    codes: Mapping[str, tuple[str, ...]]
    roots: tuple[str, ...] = ()
    unit: str = ""
    units: Mapping[str, float] = field(default_factory=dict)
    steps: tuple[Threshold, ...] = ()

    @property
    def is_result(self) -> bool:
        """Whether it is a laboratory result, not a diagnosis."""
        return bool(self.steps)

    def factor(self, unit: str | None) -> float | None:
        """Return what turns a value of this unit into the concept's, None where nobody says."""
        return None if unit is None else self.units.get(plain_unit(unit))

    def classes(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
        """Return the class of values in the concept's unit; no value may be NaN."""
        rounded = np.round(values, _DECIMALS)
        is_in_step = [step.holds(rounded) for step in self.steps]
        return np.select(is_in_step, [step.value for step in self.steps]).astype(np.int8)

    def matches(self, system: str, code: str) -> bool:
        """Whether a code of a system is one of this concept's own codes."""
        if system == "icd":
            return any(self.matches(version, code) for version in sorted(PREFIX_SYSTEMS))
        own = self.codes.get(system, ())
        if system in PREFIX_SYSTEMS:
            return plain_icd(code).startswith(own) if own else False
        return code in own

    def looked_for(self) -> str:
        """Its codes in one line, for messages."""
        return "; ".join(f"{system} {', '.join(codes)}" for system, codes in self.codes.items())


def plain_unit(unit: str) -> str:
    """The form in which units are compared."""
    return "".join(unit.replace("µ", "u").replace("μ", "u").casefold().split())


def plain_icd(code: str) -> str:
    """The form in which ICD codes are compared."""
    return code.strip().replace(".", "").upper()


@cache
def load_concepts() -> Mapping[str, TaskConcept]:
    """Return every concept, by the name of its task."""
    source = resources.files("wardround.tasks.benchmarks.ehrshot").joinpath("concepts.toml").read_text(encoding="utf-8")
    return {task: _concept(task, body) for task, body in tomllib.loads(source).items()}


def _concept(task: str, body: Mapping[str, Any]) -> TaskConcept:
    codes = {name: tuple(values) for name, values in body["codes"].items()}
    roots = codes.pop("roots", ())
    return TaskConcept(
        task=task,
        title=body["title"],
        codes=codes,
        roots=roots,
        unit=body.get("unit", ""),
        units={plain_unit(unit): float(Fraction(factor)) for unit, factor in body.get("units", {}).items()},
        steps=tuple(_step(text) for text in body.get("steps", ())),
    )


def _step(text: str) -> Threshold:
    name, operator, bound = text.split()
    return Threshold(value=SEVERITIES.index(name), operator=operator, bound=float(bound))  # type: ignore[arg-type]


# Which rows speak of which concept: codes are read once each, counted, and a concept without any code is noticed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a code says: the concept (a place in the list, -1: none of them) and the unit, if the code names it."""

    concept: int
    unit: str | None


@dataclass(slots=True, kw_only=True)
class CodeMatcher:
    """Finds the rows of some concepts in one place. ``rows`` counts the rows of every matching code, by concept;
    ``listed`` are the matching codes of the source's dictionary, which need not occur in any row."""

    place: RowRole
    concepts: Sequence[TaskConcept]
    descendants: Mapping[str, frozenset[str]] = field(default_factory=dict)
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    listed: dict[str, set[str]] = field(default_factory=dict)
    coded: int = 0
    """The number of rows with a code."""
    _meanings: dict[Codes, Meaning] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that say what a row's code is."""
        return tuple(filter(None, (self.place.code, self.place.system_column)))

    def match(self, rows: CodedRows) -> tuple[npt.NDArray[np.int64], list[Meaning]]:
        """Return, for every row, the place of its meaning in a list, and the list."""
        if not rows.has(self.columns):
            return np.zeros(rows.batch.num_rows, np.int64), [Meaning(concept=-1, unit=None)]
        places, keys = rows.combined(self.columns)
        meanings = [self.meaning(key) for key in keys]
        counts = np.bincount(places, minlength=len(keys)).tolist()
        self.coded += sum(count for key, count in zip(keys, counts, strict=True) if key[0])
        for key, meaning, count in zip(keys, meanings, counts, strict=True):
            if meaning.concept >= 0 and count:
                task = self.concepts[meaning.concept].task
                self.rows.setdefault(task, Counter())[key[0]] += count
        return places, meanings

    def meaning(self, key: Codes) -> Meaning:
        """Return what a code (and its system column) says; every code is looked at once."""
        found = self._meanings.get(key)
        if found is None:
            found = self._meanings.setdefault(key, self._read(key))
        return found

    def read_dictionary(self, store: Store) -> None:
        """Note which codes of the source's dictionary belong to a concept, used or not."""
        named = self.place.dictionary
        if not named:
            return
        try:
            table = store.dictionary(named["name"])
        except RecordError:
            return
        columns = [named["code"], *([named["system"]] if "system" in named else [])]
        if not set(columns) <= set(table.column_names):
            return
        for key in zip(*(map(_text, table.column(name).to_pylist()) for name in columns), strict=True):
            meaning = self.meaning(key)
            if meaning.concept >= 0:
                self.listed.setdefault(self.concepts[meaning.concept].task, set()).add(key[0])

    def _read(self, key: Codes) -> Meaning:
        for number, concept in enumerate(self.concepts):
            if key[0] in self.descendants.get(concept.task, ()):
                return Meaning(concept=number, unit=None)
        for system, code, unit in self.place.readings(*key):
            for number, concept in enumerate(self.concepts):
                if concept.matches(system, code):
                    return Meaning(concept=number, unit=unit)
        return Meaning(concept=-1, unit=None)


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)


# The classes of a laboratory concept, in words a reader of the record can apply.


_OTHER_UNIT = {"g/L": "g/dL", "mmol/L": "mg/dL"}
_OPERATORS = {"<": "below", "<=": "at most", ">": "above", ">=": "at least"}


def rules_of(concept: TaskConcept | None) -> AnswerRules:
    """Return the facts about a task's answers: its thresholds, for a task of results."""
    if concept is None or not concept.steps:
        return AnswerRules()
    steps = (f"{SEVERITIES[step.value]} {_OPERATORS[step.operator]} {step.bound:g}" for step in concept.steps)
    title = f"{concept.title} in {concept.unit}{_also(concept)}"
    return AnswerRules(thresholds=Thresholds(title=title, steps=tuple(steps)))


def _also(concept: TaskConcept) -> str:
    """The other unit that records commonly have, and how it is converted."""
    other = _OTHER_UNIT.get(concept.unit, "")
    factor = concept.factor(other)
    if factor is None:
        return ""
    return f" ({other} {f'times {factor:g}' if factor > 1 else f'divided by {1 / factor:g}'})"


# What EHRSHOT's tasks need of a source's roles: stays, intensive care, deaths, coded rows, reports.


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """One source. ``not_the_record`` are patterns of codes that are no event of the record (a birth); ``unavailable``
    says, by pattern, of which tasks the source can never tell the labels and why."""

    source: str
    stays: SpanRole
    icu_stays: SpanRole | None
    deaths: tuple[MomentRole, ...]
    labs: tuple[RowRole, ...]
    diagnoses: tuple[RowRole, ...]
    reports: RowRole | None
    not_the_record: tuple[str, ...]
    hierarchy: str | None
    unavailable: Mapping[str, str]

    def refuses(self, task: str) -> str | None:
        """Say why this source can never tell the labels of a task, None if it can."""
        return refusal(self.unavailable, task)


def places_of(spec: SourceSpec) -> Places:
    """Return where a source keeps what the tasks are about. UserError: nothing in it is a stay in hospital."""
    roles = spec.roles
    if roles.admission is None:
        raise UserError(
            f"no EHRSHOT task is possible for source {spec.name!r}: {unplayed('admission')}; see docs/roles.md"
        )
    return Places(
        source=spec.name,
        stays=roles.admission,
        icu_stays=roles.stay,
        deaths=roles.death,
        labs=tuple(role for role in roles.lab if role.is_coded),
        diagnoses=tuple(role for role in roles.diagnosis if role.is_coded),
        reports=next((role for role in roles.note if role.id), None),
        not_the_record=roles.not_the_record,
        hierarchy=roles.hierarchy,
        unavailable=roles.unavailable,
    )


def load_places(source: str) -> Places:
    """Return the places of a source that comes with wardround. UserError lists those."""
    if source not in known_sources():
        raise UserError(f"no source {source!r} comes with wardround; there are {', '.join(known_sources())}")
    return places_of(load_source_spec(source))


def known_sources() -> tuple[str, ...]:
    """The sources that come with wardround."""
    return list_sources()


# Descent: which codes of a store lie below the roots of a concept, where the store has a hierarchy.
#
# OMOP has ``concept_ancestor`` (every pair, numbers of concepts), MEDS ``parent_codes`` (one step, codes as text).


_CODE = re.compile(r"[^\s\[\]'\",]+/[^\s\[\]'\",]+")


def descendants(store: Store, places: Places, concept: TaskConcept) -> frozenset[str]:
    """Return the codes below a concept's roots as the store writes them, empty where it keeps no hierarchy."""
    kind = places.hierarchy
    if not concept.roots or kind is None:
        return frozenset()
    return _omop(store, concept) if kind == "concept_ancestor" else _meds(store, concept)


def _omop(store: Store, concept: TaskConcept) -> frozenset[str]:
    concepts, pairs = _dictionary(store, "concept"), _dictionary(store, "concept_ancestor")
    if concepts is None or pairs is None or not pairs.num_rows:
        return frozenset()
    codes = concepts.column("concept_code").cast(pa.string())
    roots = concepts.filter(pc.is_in(codes, pa.array(concept.roots))).column("concept_id")
    below = pairs.filter(pc.is_in(pairs.column("ancestor_concept_id"), roots.combine_chunks()))
    ids = below.column("descendant_concept_id").combine_chunks()
    found = concepts.filter(pc.is_in(concepts.column("concept_id"), ids)).column("concept_code")
    return frozenset(map(str, found.to_pylist()))


def _meds(store: Store, concept: TaskConcept) -> frozenset[str]:
    codes = _dictionary(store, "codes")
    if codes is None or not {"code", "parent_codes"} <= set(codes.column_names):
        return frozenset()
    children: dict[str, list[str]] = {}
    for code, parents in zip(codes.column("code").to_pylist(), codes.column("parent_codes").to_pylist(), strict=True):
        for parent in _listed(parents):
            children.setdefault(parent, []).append(code)
    waiting = [name for name in children if name.rpartition("/")[2] in concept.roots]
    found: set[str] = set()
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return frozenset(found)


def _listed(parents: object) -> list[str]:
    """Read a list of codes, which a store may keep as text."""
    if isinstance(parents, str):
        return _CODE.findall(parents)
    return [str(parent) for parent in parents] if isinstance(parents, list) else []


def _dictionary(store: Store, name: str) -> pa.Table | None:
    try:
        return store.dictionary(name)
    except RecordError:
        return None
