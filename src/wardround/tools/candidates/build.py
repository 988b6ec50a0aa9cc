"""The candidate spaces of the six AgentEHR tasks, from a store's dictionaries and its training subjects.

Where MIMIC-III has another column (ICD-9 codes without a version, specimens without tests, units of intensive care
only) it stands in; its drugs go by name, because its NDC codes are incomplete (appendix B.1).

What is counted or collected from records comes from training subjects only; a label that only test subjects have is
outside the space, and the benchmark flags samples that need it as unwinnable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from wardround.codes import (
    DrugGrouper,
    LabelSet,
    distinct_labels,
    load_ccs,
    load_ccs_words,
    load_drugs,
    normalise_label,
)
from wardround.core import RecordError
from wardround.records import SourceSpec, Store
from wardround.tools.candidates.laboratory import LABORATORY
from wardround.tools.candidates.space import CandidateSpace

NO_UNIT = frozenset({"", "unknown"})
MOVES = frozenset({"admit", "transfer"})
Described = dict[str, set[str]]
Cells = tuple[str | None, ...]


def build_candidate_spaces(
    store: Store, subjects: Iterable[int], user_codes: Path | None, wanted: Collection[str] | None = None
) -> dict[str, CandidateSpace]:
    """The spaces by name, all or those ``wanted``; one whose table or dictionary the store lacks is left out.

    ``subjects`` are the training subjects. ``user_codes`` is the folder of added code tables: with an ATC map in it the
    drugs are `prescriptions_atc_candidates`, without one `prescriptions_drug_candidates`.
    """
    training = frozenset(int(subject) for subject in subjects)
    drugs = drug_grouper(store.spec, user_codes)
    drugs_name = f"prescriptions_{'atc' if drugs.kind == 'atc' else 'drug'}_candidates"
    makers: dict[str, Callable[[], CandidateSpace | None]] = {
        "diagnoses_ccs_candidates": lambda: _ccs_space(store, "diagnoses", user_codes, training),
        "procedures_ccs_candidates": lambda: _ccs_space(store, "procedures", user_codes, training),
        drugs_name: lambda: _drug_space(store, training, drugs_name, drugs.label),
        "labevents_candidates": lambda: _lab_space(store, training),
        "microbiologyevents_candidates": lambda: _microbiology_space(store, training),
        "transfers_candidates": lambda: _transfer_space(store, training),
    }
    built = (make() for name, make in makers.items() if wanted is None or name in wanted)
    return {space.name: space for space in built if space is not None}


def drug_grouper(spec: SourceSpec, user_codes: Path | None) -> DrugGrouper:
    """What names the drugs of a source: an added ATC map, but only where the source's spec groups its drugs by one."""
    table = spec.tables.get("prescriptions")
    by_atc = table is not None and table.group is not None and table.group.system == "atc"
    return load_drugs(user_codes if by_atc else None)


def _ccs_space(
    store: Store, kind: Literal["diagnoses", "procedures"], user_codes: Path | None, training: frozenset[int]
) -> CandidateSpace:
    """All CCS categories, described by the packaged words of code titles and by the store's own titles."""
    grouper = load_ccs(kind, user_codes)
    described = {label: set(rows) for label, rows in load_ccs_words(kind).items()}
    columns = ("icd_code", "icd_version", "long_title", "icd9_code")
    for code, version, title, code9 in _dictionary(store, f"d_icd_{kind}", columns):
        code, version = (code9, "9") if code9 else (code, version)
        category = grouper.category(code, version) if code and version in ("9", "10") else None
        if category and title:
            described.setdefault(category.label, set()).add(title)
    seen: dict[Cells, str | None] = {}
    uses: Counter[str] = Counter()
    for rows_of_one in _training_subjects(store, f"{kind}_icd", ("icd_code", "icd_version", "icd9_code"), training):
        for cells in rows_of_one - seen.keys():
            code, version = (cells[2], "9") if cells[2] else cells[:2]
            category = grouper.category(code, version) if code and version in ("9", "10") else None
            seen[cells] = category.label if category else None
        uses.update({label for cells in rows_of_one if (label := seen[cells]) is not None})
    return CandidateSpace(name=f"{kind}_ccs_candidates", labels=grouper.label_set(), descriptions=described, uses=uses)


def _drug_space(
    store: Store, training: frozenset[int], name: str, label: Callable[[str | None, str | None], str | None]
) -> CandidateSpace | None:
    """The labels of training prescriptions, described by the drug names they were ordered under."""
    described: Described = {}
    seen: dict[Cells, str | None] = {}
    uses: Counter[str] = Counter()
    for rows_of_one in _training_subjects(store, "prescriptions", ("drug", "ndc"), training):
        for drug, ndc in rows_of_one - seen.keys():
            found = seen[drug, ndc] = label(drug, ndc)
            if found and drug:
                described.setdefault(found, set()).add(drug)
        uses.update({found for cells in rows_of_one if (found := seen[cells])})
    return _space(name, described, uses)


def _lab_space(store: Store, training: frozenset[int]) -> CandidateSpace | None:
    """The labels of the laboratory's dictionary, described by fluid and category; without one, those of training."""
    described: Described = {}
    for label, fluid, category in _dictionary(store, "d_labitems", ("label", "fluid", "category")):
        described.setdefault(label or "", set()).add(f"{label} {fluid or ''} {category or ''}")
    uses = _uses(_training_subjects(store, "labevents", ("label",), training))
    return _space("labevents_candidates", described or {label: set() for label in uses}, uses, LABORATORY)


def _microbiology_space(store: Store, training: frozenset[int]) -> CandidateSpace | None:
    """The test names of training subjects, described by their specimens; the specimens where there are no tests."""
    table = store.spec.tables.get("microbiologyevents")
    has_tests = table is not None and "test_name" in table.columns
    described: Described = {}
    uses: Counter[str] = Counter()
    for rows_of_one in _training_subjects(store, "microbiologyevents", ("test_name", "spec_type_desc"), training):
        for test, specimen in rows_of_one:
            name = (test if has_tests else specimen) or ""
            described.setdefault(name, set()).update({f"{test} {specimen or ''}"} if has_tests else ())
        uses.update({(test if has_tests else specimen) or "" for test, specimen in rows_of_one})
    return _space("microbiologyevents_candidates", described, uses)


def _transfer_space(store: Store, training: frozenset[int]) -> CandidateSpace | None:
    """The care units that training subjects were admitted or moved to."""
    uses: Counter[str] = Counter()
    for rows_of_one in _training_subjects(store, "transfers", ("careunit", "curr_careunit", "eventtype"), training):
        units = {unit or icu for unit, icu, kind in rows_of_one if (kind or "").casefold() in MOVES}
        uses.update({unit for unit in units if unit and unit.strip().casefold() not in NO_UNIT})
    return _space("transfers_candidates", {unit: set() for unit in uses}, uses)


def _uses(subjects: Iterable[set[Cells]]) -> Counter[str]:
    """How many subjects have each value of a column."""
    found: Counter[str] = Counter()
    for rows_of_one in subjects:
        found.update({value for (value,) in rows_of_one if value})
    return found


def _space(name: str, described: Described, uses: Counter[str], vocabulary: str = "") -> CandidateSpace | None:
    """One label per spelling that compares equal, with the descriptions and the uses of all of them."""
    labels = LabelSet(name=name, labels=distinct_labels(described))
    if not labels.labels:
        return None
    merged: Described = {}
    for spelling, rows in described.items():
        label = labels.resolve(spelling)
        if label is not None:
            merged.setdefault(label, set()).update(
                row for row in rows if normalise_label(row) != normalise_label(label)
            )
    counted: Counter[str] = Counter()
    for spelling, count in uses.items():
        label = labels.resolve(spelling)
        if label is not None:
            counted[label] = max(counted[label], count)
    return CandidateSpace(name=name, labels=labels, descriptions=merged, uses=counted, vocabulary=vocabulary)


def _dictionary(store: Store, name: str, columns: tuple[str, ...]) -> Iterator[Cells]:
    """The rows of a dictionary as text; nothing if the store has none."""
    try:
        table = store.dictionary(name)
    except RecordError:
        return
    yield from _rows(table.to_pydict(), columns)


def _training_subjects(
    store: Store, table: str, columns: tuple[str, ...], training: frozenset[int]
) -> Iterator[set[Cells]]:
    """The distinct rows of each training subject as text; nothing if the store lacks the table."""
    if table not in store.table_names:
        return
    for subject, batch in store.scan(table):
        if subject in training:
            held = [column for column in columns if column in batch.schema.names]
            yield set(_rows(batch.select(held).to_pydict(), columns))


def _rows(data: Mapping[str, list[object]], columns: tuple[str, ...]) -> Iterator[Cells]:
    """Rows of the named columns; a column the data lacks is all None."""
    length = max((len(values) for values in data.values()), default=0)
    lists = [data.get(column, [None] * length) for column in columns]
    for cells in zip(*lists, strict=True):
        yield tuple(None if cell is None else str(cell) for cell in cells)
