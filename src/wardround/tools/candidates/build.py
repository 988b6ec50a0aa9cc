"""Build candidate spaces from a store's dictionaries and training subjects; how rows become labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

import pyarrow as pa

from wardround.clinical.codes import (
    CodeGrouper,
    DrugGrouper,
    LabelSet,
    distinct_labels,
    load_ccs,
    load_ccs_words,
    load_drugs,
    normalise_label,
)
from wardround.core import RecordError
from wardround.records import RowRole, SourceSpec, Store
from wardround.records.specs import CodedRows
from wardround.tools.candidates.index import SpaceIndex
from wardround.tools.candidates.space import CandidateSpace
from wardround.tools.candidates.words import LABORATORY

# How the rows of a role become labels: categories of codes, drug names, or the names that the rows give themselves.


ICD_VERSIONS: Mapping[str, str] = {"icd9": "9", "icd10": "10"}
"""The code systems that have CCS categories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleLabels:
    """A label from the texts of ``columns``, None if they are empty; ``spelling`` is the label as it was written."""

    columns: tuple[str, ...]
    spelling: Callable[..., str | None]

    def label(self, *cells: str | None) -> str | None:
        """Return the label with single spaces."""
        found = self.spelling(*cells)
        return " ".join(found.split()) or None if found else None


def role_labels(name: str, role: RowRole, spec: SourceSpec, user_codes: Path | None) -> RoleLabels:
    """Return the labelling of rows of a role's table."""
    if role.group == "ccs":
        grouper = load_ccs(ccs_kind(name), user_codes)
        return RoleLabels(
            columns=tuple(filter(None, (role.code, role.system_column))), spelling=_category(role, grouper)
        )
    named = _named(role, naming_columns(role, spec))
    if name != "order":
        return RoleLabels(columns=naming_columns(role, spec), spelling=named)
    columns = (*naming_columns(role, spec), *((role.drug_code,) if role.drug_code else ()))
    drugs = drug_grouper(spec, user_codes)

    def spelling(*cells: str | None) -> str | None:
        return drugs.label(named(*cells), cells[-1] if role.drug_code else None)

    return RoleLabels(columns=columns, spelling=spelling)


def naming_columns(role: RowRole, spec: SourceSpec) -> tuple[str, ...]:
    """Return the columns that name a row, best first: the role's, else the table's label, else its code."""
    table = spec.tables[role.table]
    return role.label or tuple(filter(None, (table.label,))) or tuple(filter(None, (role.code, table.code)))[:1]


def ccs_kind(name: str) -> Literal["diagnoses", "procedures"]:
    """Return the categories of a role. Raises ValueError if it has none."""
    kinds = {"diagnosis": "diagnoses", "procedure": "procedures"}
    if name not in kinds:
        raise ValueError(f"a {name} has no CCS categories")
    return cast(Literal["diagnoses", "procedures"], kinds[name])


def drug_grouper(spec: SourceSpec, user_codes: Path | None) -> DrugGrouper:
    """Return the grouper of a source's drugs: an added ATC map, but only if the source's spec groups its drugs by
    one."""
    orders = spec.roles.first("order")
    table = spec.tables.get(orders.table) if orders else None
    by_atc = table is not None and table.group is not None and table.group.system == "atc"
    return load_drugs(user_codes if by_atc else None)


def _category(role: RowRole, grouper: CodeGrouper) -> Callable[..., str | None]:
    def spelling(code: str | None, system: str | None = None) -> str | None:
        for named, each, _ in role.readings(code or "", system or ""):
            category = grouper.category(each, ICD_VERSIONS[named]) if named in ICD_VERSIONS else None
            if category is not None:
                return category.label
        return None

    return spelling


def _named(role: RowRole, columns: tuple[str, ...]) -> Callable[..., str | None]:
    """Return the first name that is not empty. A code in one of the role's forms is reduced to the part that the form
    keeps."""
    nothing = {"", *(name.casefold() for name in role.not_labels)}

    def spelling(*cells: str | None) -> str | None:
        for column, cell in zip(columns, cells, strict=False):
            text = cell
            if cell and column == role.code and role.forms:
                text = next((code for _, code, _ in role.readings(cell)), cell)
            if text and text.strip().casefold() not in nothing:
                return text
        return None

    return spelling


# What training subjects have of a space's labels, counted in groups of people.
#
# A question about a training subject uses the records of other groups only, so that the subject's own record does not
# affect the candidates and their order.


DescriptionCounts = dict[str, set[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Labels as they were spelt: what describes each, and how many subjects have it."""

    described: DescriptionCounts = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)

    def add(self, labels: Mapping[str, Iterable[str]]) -> None:
        """Count one subject's labels, each with what describes it."""
        for label, texts in labels.items():
            self.described.setdefault(label, set()).update(texts)
        self.uses.update(labels.keys())


class SeenByGroup:
    """What each group of training subjects has."""

    def __init__(self) -> None:
        self._parts: dict[int, Seen] = {}

    def add(self, group: int, labels: Mapping[str, Iterable[str]]) -> None:
        """Count one subject's labels for its group."""
        self._parts.setdefault(group, Seen()).add(labels)

    def all(self, *, but: int | None = None) -> Seen:
        """Join all groups, or all but one."""
        joined = Seen()
        for group, part in sorted(self._parts.items()):
            if group != but:
                for label, texts in part.described.items():
                    joined.described.setdefault(label, set()).update(texts)
                joined.uses.update(part.uses)
        return joined


# The candidate spaces of the six AgentEHR tasks, by role: from a store's dictionaries and its training subjects.
#
# Counts and texts from records come from training subjects only; a label that only test subjects have is
# outside the space, and the benchmark flags samples that need it as unwinnable. Training subjects come in groups, and a
# space holds itself as it is without each of them: for questions about that group's own people.


SPACES: Mapping[str, str] = {
    "diagnosis": "diagnoses",
    "procedure": "procedures",
    "order": "prescriptions",
    "lab": "labevents",
    "culture": "microbiologyevents",
    "transfer": "transfers",
}
"""The roles that answers come from, and what their spaces are called: as in the paper, by MIMIC-IV's tables."""
_DICTIONARY_KEYS = frozenset({"code", "system", "label"})
Groups = Mapping[int, int]
"""The group of each training subject."""
NO_GROUP = -1
Cells = tuple[str | None, ...]


def build_candidate_spaces(
    store: Store,
    subjects: Iterable[int] | Groups,
    user_codes: Path | None,
    wanted: Collection[str] | None = None,
) -> dict[str, CandidateSpace]:
    """Return the spaces by name: all, or those ``wanted``. A space without a table of its role and without a dictionary
    of its answers is left out.

    ``subjects`` are the training subjects, or the group of each: then a space holds itself without each group.
    ``user_codes`` is the folder of added code tables: with an ATC map in it the drugs are
    `prescriptions_atc_candidates`, without one `prescriptions_drug_candidates`.
    """
    training = subjects if isinstance(subjects, Mapping) else dict.fromkeys(map(int, subjects), NO_GROUP)
    built: dict[str, CandidateSpace] = {}
    for name in SPACES:
        role = store.spec.roles.first(name)
        if role is None:
            continue
        is_listed = role.group == "ccs" or "label" in role.dictionary  # found even if no subject has a row of it
        if role.table not in store.table_names and not is_listed:
            continue
        called = space_name(name, role, store.spec, user_codes)
        if wanted is not None and called not in wanted:
            continue
        labels = role_labels(name, role, store.spec, user_codes)
        played = _Played(store=store, name=name, role=role, labels=labels, space=called, training=training)
        space = _ccs_space(played, user_codes) if role.group == "ccs" else _named_space(played)
        if space is not None:
            built[called] = space
    return built


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """A role of a table in a store, with its labelling of rows and the name of the space of these labels."""

    store: Store
    name: str
    role: RowRole
    labels: RoleLabels
    space: str
    training: Groups


def space_name(name: str, role: RowRole, spec: SourceSpec, user_codes: Path | None) -> str:
    """Return the name of a role's answer space: by its labels, categories, official drug names or names as written."""
    base = SPACES[name]
    if name == "order":
        return f"{base}_{'atc' if drug_grouper(spec, user_codes).kind == 'atc' else 'drug'}_candidates"
    return f"{base}_ccs_candidates" if role.group == "ccs" else f"{base}_candidates"


def _ccs_space(played: _Played, user_codes: Path | None) -> CandidateSpace:
    """Return all CCS categories, described by the packaged words of code titles and by the store's own titles."""
    kind, labels, training = ccs_kind(played.name), played.labels, played.training
    described = {label: set(rows) for label, rows in load_ccs_words(kind).items()}
    for code, system, title in _listed(played, ("code", "system", "label")):
        label = labels.label(code, system)
        if label and title:
            described.setdefault(label, set()).add(title)
    seen = SeenByGroup()
    known: dict[Cells, str | None] = {}
    for group, rows_of_one in _training_subjects(played, labels.columns):
        known.update({cells: labels.label(*cells) for cells in rows_of_one - known.keys()})
        seen.add(group, {label: () for cells in rows_of_one if (label := known[cells]) is not None})
    categories = load_ccs(kind, user_codes).label_set()
    index = SpaceIndex.shared(categories, described)
    whole = CandidateSpace(name=played.space, labels=categories, index=index, uses=seen.all().uses)
    return whole.beside({group: whole.with_uses(seen.all(but=group).uses) for group in _groups(training)})


def _named_space(played: _Played) -> CandidateSpace | None:
    """Return the labels of the role's dictionary, described by the dictionary.

    Without a dictionary, return the labels of training subjects: drugs are described by the names they were ordered
    under, cultures by their specimens.
    """
    name, role, labels = played.name, played.role, played.labels
    listed: DescriptionCounts = {}
    if name == "lab":
        more = (part.strip() for part in role.dictionary.get("about", "").split(","))
        for label, *about in _listed(played, ("label", *filter(None, more))):
            listed.setdefault(label or "", set()).add(" ".join((str(label), *(text or "" for text in about))))
    columns = (*labels.columns, *filter(None, (role.specimen,)))
    seen = SeenByGroup()
    for group, rows_of_one in _training_subjects(played, columns):
        found: DescriptionCounts = {}
        for cells in rows_of_one:
            label = labels.spelling(*cells[: len(labels.columns)])
            if label:
                found.setdefault(label, set()).update(_descriptions(name, role, cells))
        seen.add(group, found)
    return seen_space(played.space, seen, played.training, listed, LABORATORY if name == "lab" else "")


def _descriptions(name: str, role: RowRole, cells: Cells) -> tuple[str, ...]:
    """Return the texts that describe a label, from the rows with the label."""
    if name == "order":
        return (cells[0],) if cells[0] else ()
    if name == "culture" and not role.asks_specimens and role.specimen:
        return (f"{cells[0]} {cells[-1] or ''}",)
    return ()


def _listed(played: _Played, keys: tuple[str, ...]) -> Iterator[Cells]:
    """Return the rows of the dictionary of a role's codes: the columns given under these keys, or with these names."""
    dictionary = played.role.dictionary
    if "label" not in dictionary:
        return
    columns = tuple(dictionary.get(key, "" if key in _DICTIONARY_KEYS else key) for key in keys)
    yield from _dictionary(played.store, dictionary["name"], columns)


def seen_space(
    name: str, seen: SeenByGroup, training: Groups, listed: DescriptionCounts | None = None, vocabulary: str = ""
) -> CandidateSpace | None:
    """Return the labels of a dictionary, else those that occur in the data; and what remains without each group. None
    without any label."""
    whole = _space(name, listed, seen.all(), vocabulary)
    if whole is None:
        return None
    parts = {group: seen.all(but=group) for group in _groups(training)}
    if listed:
        return whole.beside({group: whole.with_uses(_counted(whole.labels, part)) for group, part in parts.items()})
    made = {group: _space(name, None, part, vocabulary) for group, part in parts.items()}
    return whole.beside({group: space for group, space in made.items() if space is not None})


def _groups(training: Groups) -> set[int]:
    return set(training.values()) - {NO_GROUP}


def _space(name: str, listed: DescriptionCounts | None, seen: Seen, vocabulary: str) -> CandidateSpace | None:
    """Return one label per group of equal spellings, with the descriptions and the uses of all of them."""
    described = listed or seen.described
    labels = LabelSet(name=name, labels=distinct_labels(described))
    if not labels.labels:
        return None
    merged: DescriptionCounts = {}
    for spelling, rows in described.items():
        label = labels.resolve(spelling)
        if label is not None:
            merged.setdefault(label, set()).update(
                row for row in rows if normalise_label(row) != normalise_label(label)
            )
    uses = _counted(labels, seen)
    return CandidateSpace(name=name, labels=labels, descriptions=merged, uses=uses, vocabulary=vocabulary)


def _counted(labels: LabelSet, seen: Seen) -> dict[str, int]:
    """Return the number of subjects with a label; of several spellings the most frequent one counts."""
    counted: dict[str, int] = {}
    for spelling, count in seen.uses.items():
        label = labels.resolve(spelling)
        if label is not None:
            counted[label] = max(counted.get(label, 0), count)
    return counted


def _dictionary(store: Store, name: str, columns: tuple[str, ...]) -> Iterator[Cells]:
    """Return the rows of a dictionary as text; nothing if the store does not have the dictionary."""
    try:
        table = store.dictionary(name)
    except RecordError:
        return
    yield from _rows(table.to_pydict(), columns)


def _training_subjects(played: _Played, columns: tuple[str, ...]) -> Iterator[tuple[int, set[Cells]]]:
    """Return the group and the distinct rows, as text, of each training subject with rows of a role."""
    role, training = played.role, played.training
    if role.table not in played.store.table_names:
        return
    for subject, batch in played.store.scan(role.table):
        if subject in training:
            batch = batch.filter(pa.array(CodedRows(batch=batch).meet(role.where))) if role.where else batch
            present = [column for column in dict.fromkeys(columns) if column in batch.schema.names]
            yield training[subject], set(_rows(batch.select(present).to_pydict(), columns))


def _rows(data: Mapping[str, list[object]], columns: tuple[str, ...]) -> Iterator[Cells]:
    """Rows of the named columns; a column the data lacks is all None."""
    length = max((len(values) for values in data.values()), default=0)
    lists = [data.get(column, [None] * length) for column in columns]
    for cells in zip(*lists, strict=True):
        yield tuple(None if cell is None else str(cell) for cell in cells)
