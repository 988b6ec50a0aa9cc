"""The candidate spaces of the six AgentEHR tasks, from a store's dictionaries and its training subjects.

Where MIMIC-III has another column (ICD-9 codes without a version, specimens without tests, units of intensive care
only) it stands in; its drugs go by name, because its NDC codes are incomplete (appendix B.1).

What is counted or collected from records comes from training subjects only; a label that only test subjects have is
outside the space, and the benchmark flags samples that need it as unwinnable. Training subjects come in groups, and a
space holds itself as it is without each of them: for questions about that group's own people.
"""

from __future__ import annotations

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
from wardround.tools.candidates.training import Described, Seen, SeenByGroup

NO_UNIT = frozenset({"", "unknown"})
MOVES = frozenset({"admit", "transfer"})
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
    """The spaces by name, all or those ``wanted``; one whose table or dictionary the store lacks is left out.

    ``subjects`` are the training subjects, or the group of each: then a space holds itself without each group.
    ``user_codes`` is the folder of added code tables: with an ATC map in it the drugs are
    `prescriptions_atc_candidates`, without one `prescriptions_drug_candidates`.
    """
    training = subjects if isinstance(subjects, Mapping) else dict.fromkeys(map(int, subjects), NO_GROUP)
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
    store: Store, kind: Literal["diagnoses", "procedures"], user_codes: Path | None, training: Groups
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
    seen = SeenByGroup()
    known: dict[Cells, str | None] = {}
    coded = ("icd_code", "icd_version", "icd9_code")
    for group, rows_of_one in _training_subjects(store, f"{kind}_icd", coded, training):
        for cells in rows_of_one - known.keys():
            code, version = (cells[2], "9") if cells[2] else cells[:2]
            category = grouper.category(code, version) if code and version in ("9", "10") else None
            known[cells] = category.label if category else None
        seen.add(group, {label: () for cells in rows_of_one if (label := known[cells]) is not None})
    name, labels = f"{kind}_ccs_candidates", grouper.label_set()
    whole = CandidateSpace(name=name, labels=labels, descriptions=described, uses=seen.all().uses)
    return whole.beside({group: whole.with_uses(seen.all(but=group).uses) for group in _groups(training)})


def _drug_space(
    store: Store, training: Groups, name: str, label: Callable[[str | None, str | None], str | None]
) -> CandidateSpace | None:
    """The labels of training prescriptions, described by the drug names they were ordered under."""
    seen = SeenByGroup()
    known: dict[Cells, str | None] = {}
    for group, rows_of_one in _training_subjects(store, "prescriptions", ("drug", "ndc"), training):
        for drug, ndc in rows_of_one - known.keys():
            known[drug, ndc] = label(drug, ndc)
        ordered: Described = {}
        for cells in rows_of_one:
            found = known[cells]
            if found:
                ordered.setdefault(found, set()).update({cells[0]} if cells[0] else ())
        seen.add(group, ordered)
    return _seen_space(name, seen, training)


def _lab_space(store: Store, training: Groups) -> CandidateSpace | None:
    """The labels of the laboratory's dictionary, described by fluid and category; without one, those of training."""
    described: Described = {}
    for label, fluid, category in _dictionary(store, "d_labitems", ("label", "fluid", "category")):
        described.setdefault(label or "", set()).add(f"{label} {fluid or ''} {category or ''}")
    seen = SeenByGroup()
    for group, rows_of_one in _training_subjects(store, "labevents", ("label",), training):
        seen.add(group, {label: () for (label,) in rows_of_one if label})
    return _seen_space("labevents_candidates", seen, training, described, LABORATORY)


def _microbiology_space(store: Store, training: Groups) -> CandidateSpace | None:
    """The test names of training subjects, described by their specimens; the specimens where there are no tests."""
    table = store.spec.tables.get("microbiologyevents")
    has_tests = table is not None and "test_name" in table.columns
    seen = SeenByGroup()
    columns = ("test_name", "spec_type_desc")
    for group, rows_of_one in _training_subjects(store, "microbiologyevents", columns, training):
        sent: Described = {}
        for test, specimen in rows_of_one:
            name = (test if has_tests else specimen) or ""
            sent.setdefault(name, set()).update({f"{test} {specimen or ''}"} if has_tests else ())
        seen.add(group, sent)
    return _seen_space("microbiologyevents_candidates", seen, training)


def _transfer_space(store: Store, training: Groups) -> CandidateSpace | None:
    """The care units that training subjects were admitted or moved to."""
    seen = SeenByGroup()
    columns = ("careunit", "curr_careunit", "eventtype")
    for group, rows_of_one in _training_subjects(store, "transfers", columns, training):
        units = {unit or icu for unit, icu, kind in rows_of_one if (kind or "").casefold() in MOVES}
        seen.add(group, {unit: () for unit in units if unit and unit.strip().casefold() not in NO_UNIT})
    return _seen_space("transfers_candidates", seen, training)


def _seen_space(
    name: str, seen: SeenByGroup, training: Groups, listed: Described | None = None, vocabulary: str = ""
) -> CandidateSpace | None:
    """The labels that a dictionary lists, else those that were seen; and what is left without each group."""
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


def _space(name: str, listed: Described | None, seen: Seen, vocabulary: str) -> CandidateSpace | None:
    """One label per spelling that compares equal, with the descriptions and the uses of all of them."""
    described = listed or seen.described
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
    uses = _counted(labels, seen)
    return CandidateSpace(name=name, labels=labels, descriptions=merged, uses=uses, vocabulary=vocabulary)


def _counted(labels: LabelSet, seen: Seen) -> dict[str, int]:
    """How many subjects have a label; of several spellings the one most in use counts."""
    counted: dict[str, int] = {}
    for spelling, count in seen.uses.items():
        label = labels.resolve(spelling)
        if label is not None:
            counted[label] = max(counted.get(label, 0), count)
    return counted


def _dictionary(store: Store, name: str, columns: tuple[str, ...]) -> Iterator[Cells]:
    """The rows of a dictionary as text; nothing if the store has none."""
    try:
        table = store.dictionary(name)
    except RecordError:
        return
    yield from _rows(table.to_pydict(), columns)


def _training_subjects(
    store: Store, table: str, columns: tuple[str, ...], training: Groups
) -> Iterator[tuple[int, set[Cells]]]:
    """The group and the distinct rows, as text, of each training subject; nothing if the store lacks the table."""
    if table not in store.table_names:
        return
    for subject, batch in store.scan(table):
        if subject in training:
            held = [column for column in columns if column in batch.schema.names]
            yield training[subject], set(_rows(batch.select(held).to_pydict(), columns))


def _rows(data: Mapping[str, list[object]], columns: tuple[str, ...]) -> Iterator[Cells]:
    """Rows of the named columns; a column the data lacks is all None."""
    length = max((len(values) for values in data.values()), default=0)
    lists = [data.get(column, [None] * length) for column in columns]
    for cells in zip(*lists, strict=True):
        yield tuple(None if cell is None else str(cell) for cell in cells)
