"""The plausibility audit: does a store show something before what it must have waited for?

It knows nothing of why a clock is what it is. It takes the moment at which each row and cell is first shown, and asks
whether care still comes after a shown death or outcome of the stay, whether a key is shown before what it names, and
whether another store of the same people shows the same thing later. What is compared: ``plausibility.toml``, by hand.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from wardround.audits.leaks import ShownTable
from wardround.audits.own import count_early_cells, known_by_roles, read_knowledge
from wardround.core import Progress, Reporter, from_microseconds, silent
from wardround.records.rules import Times
from wardround.records.shards import NEVER_TIME
from wardround.records.store import Store

_MAX_EXAMPLES, _MAX_OF_ONE = 20, 3
_SECOND, _MINUTE, _DAY = 1_000_000, 60_000_000, 86_400_000_000
Fact = tuple[str, ...]
"""Its kind, and what it is recognised by."""


@dataclass(slots=True, kw_only=True)
class PlausibilityReport:
    """What was found, in words and counts: ``what -> (cases, times looked)``; ``skipped`` could not be looked at."""

    source: str
    against: str | None = None
    subjects: int = 0
    looked: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    _given: dict[str, int] = field(default_factory=dict, repr=False)

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not any(self.found.values())

    def note(self, what: str, looked: int, found: int, example: str = "") -> None:
        """Count findings."""
        self.looked[what] = self.looked.get(what, 0) + looked
        self.found[what] = self.found.get(what, 0) + found
        if found and example and self._given.get(what, 0) < _MAX_OF_ONE and len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(example)
            self._given[what] = self._given.get(what, 0) + 1

    def as_text(self) -> str:
        """Return the report for people."""
        against = f" against {self.against!r}" if self.against else ""
        lines = [f"plausibility audit of {self.source!r}{against}: {self.subjects:,} subjects"]
        lines += [f"{found:>8,} of {self.looked[what]:>10,}  {what}" for what, found in sorted(self.found.items())]
        lines += [f"    not looked at: {what} ({why})" for what, why in sorted(self.skipped.items())]
        lines += self.examples
        lines.append("clean" if self.clean else "IMPLAUSIBLE")
        return "\n".join(lines)


class _Record:
    """One subject's tables, each read once."""

    def __init__(self, store: Store, subject: int) -> None:
        self.store, self.subject = store, subject
        self._tables: dict[str, ShownTable] = {}

    def table(self, name: str) -> ShownTable | None:
        """Return a table of the subject; None where the store has none of that name or the subject no row in it."""
        if name not in self.store.table_names:
            return None
        if name not in self._tables:
            self._tables[name] = ShownTable.of(self.store.spec.tables[name], self.store.rows(self.subject, name))
        found = self._tables[name]
        return found if found.rows.num_rows else None


def audit_plausibility(
    store: Store,
    against: Store | None = None,
    *,
    subjects: Collection[int] = (),
    knowledge: Path | None = None,
    report: Reporter = silent,
) -> PlausibilityReport:
    """Look at the whole records of subjects (default: all). ``against``: a store of the same people from another
    source; then only what this one shows earlier is looked for. ``knowledge``: a second person's answers about this
    source, compared with every row and cell. UserError: the answers are not about this source, or not complete."""
    known = _known(store)
    answers = None if knowledge is None else read_knowledge(knowledge, store.spec)
    wanted = [int(subject) for subject in store.subjects if not subjects or int(subject) in subjects]
    found = PlausibilityReport(
        source=store.spec.name, against=None if against is None else against.spec.name, subjects=len(wanted)
    )
    others: dict[str, int] | None = None
    if against is not None:
        others = {_name_of(_Record(against, int(one)), _known(against)): int(one) for one in against.subjects}
    if store.spec.name not in _content():
        found.skipped |= _not_told(known, knowledge)
    for done, subject in enumerate(wanted):
        report(Progress(label="plausibility", done=done, total=len(wanted), unit="subjects"))
        record = _Record(store, subject)
        if against is None or others is None:
            _after_deaths(found, record, known)
            _after_outcomes(found, record, known)
            _early_keys(found, record, known)
            if answers is not None:
                shown = {name: table for name in store.table_names if (table := record.table(name)) is not None}
                count_early_cells(found.note, answers, store.spec, store.subject_key(subject), shown)
        else:
            name = _name_of(record, known)
            if name in others:
                _compare(found, record, _Record(against, others[name]), known, _known(against))
            else:
                found.skipped[f"subject {name}"] = f"not in {against.spec.name!r}"
    return found


def _known(store: Store) -> Mapping[str, Any]:
    """Return what must not be seen before what: by hand of the sources that ship, by roles of any other."""
    return _content().get(store.spec.name) or known_by_roles(store.spec)


def _not_told(known: Mapping[str, Any], knowledge: Path | None) -> dict[str, str]:
    """Say what cannot be looked at of a source of one's own, and why."""
    why = {
        "deaths": "no table plays the role `death`",
        "outcomes": "no table plays the role `admission` with `ends`",
        "care": "no table plays `lab`, `vital`, `administration`, `intake` or `output`",
    }
    found = {f"{what} of the record": reason for what, reason in why.items() if not known[what]}
    if knowledge is None:
        found["what nobody could have known yet"] = "no second person was asked: wardround spec knowledge"
    return found


@cache
def _content() -> Mapping[str, Any]:
    text = resources.files("wardround.audits").joinpath("plausibility.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _after_deaths(found: PlausibilityReport, record: _Record, known: Mapping[str, Any]) -> None:
    """Count care that happens after a death is shown."""
    for name, column, word in known["deaths"]:
        table = record.table(name)
        shown = NEVER_TIME if table is None else int(_cells(table, column, word).min(initial=NEVER_TIME))
        if shown == NEVER_TIME:
            continue
        what = f"care after a death shown by {name}{'.' + column if column else ''}"
        for care in known["care"]:
            rows = record.table(care)
            if rows is not None:
                later = np.flatnonzero(_is_care(rows, known) & (_happened(rows) > shown))
                text = f"{record.subject}: {name} shows the death at {_time(shown)}, {len(later)} rows of {care} follow"
                found.note(what, rows.rows.num_rows, len(later), text)


def _happened(rows: ShownTable) -> Times:
    """Return when rows happened; one dated to a day (its last second) at the day's start."""
    return np.where(rows.event % _DAY == _DAY - _SECOND, rows.event - rows.event % _DAY, rows.event)


def _is_care(rows: ShownTable, known: Mapping[str, Any]) -> Any:
    codes = known.get("care_codes")
    if codes is None:
        return np.ones(rows.rows.num_rows, bool)
    return np.array([any(fnmatchcase(text, code) for code in codes) for text in rows.texts("code")], bool)


def _cells(table: ShownTable, column: str, words: str | Sequence[str]) -> Any:
    """Return from when on cells that read a word (any, if it is empty) are shown."""
    if not column:
        return table.row
    shown = table.cell(column)
    patterns = [words] if isinstance(words, str) else list(words)
    if patterns == [""]:
        return shown
    fits = [any(fnmatchcase(text, pattern) for pattern in patterns) for text in table.texts(column)]
    return np.where(fits, shown, NEVER_TIME)


def _after_outcomes(found: PlausibilityReport, record: _Record, known: Mapping[str, Any]) -> None:
    """Count care of a stay that happens after how it ended is shown."""
    for name, column, key, *word in known["outcomes"]:
        table = record.table(name)
        if table is None:
            continue
        ends: dict[str, int] = {}
        stays = table.texts(_stay_column(known, name, key) or key)
        for stay, shown in zip(stays, _cells(table, column, word or "").tolist(), strict=True):
            if stay:
                ends[stay] = min(shown, ends.get(stay, NEVER_TIME))
        what = f"care after {name}.{column} tells how the stay ended"
        for care in known["care"]:
            rows, care_key = record.table(care), _stay_column(known, care, key)
            if rows is None or care_key is None:
                continue
            last = np.array([ends.get(stay, NEVER_TIME) for stay in rows.texts(care_key)], np.int64)
            late = np.flatnonzero(_happened(rows) > last)
            text = f"{record.subject}: {len(late)} rows of {care} after {name}.{column} is shown"
            found.note(what, rows.rows.num_rows, len(late), text)


def _stay_column(known: Mapping[str, Any], table: str, key: str) -> str | None:
    """Return the column in which a table names the stay that outcomes name in ``key``; None where it names none."""
    if "names" in known:
        found: str | None = known["names"].get(table, {}).get(key)
        return found
    return key if known["care"].get(table) == key else None


def _early_keys(found: PlausibilityReport, record: _Record, known: Mapping[str, Any]) -> None:
    """Count keys that are shown before what they name."""
    for column, places, tables in _keys_looked_at(record.store, known):
        shown: dict[str, int] = {}
        for name, key in places:
            target = record.table(name)
            if target is not None:
                for text, at in zip(target.texts(key), target.row.tolist(), strict=True):
                    shown[text] = min(at, shown.get(text, NEVER_TIME))
        for name in tables:
            table = record.table(name)
            if table is None or column not in table.rows.schema.names or column in table.spec.hidden:
                continue
            cells, keys = table.cell(column), table.texts(column)
            early = [n for n, key in enumerate(keys) if key in shown and cells[n] < shown[key]]
            text = (
                f"{record.subject}: {name}.{column} {keys[early[0]]} is shown at {_time(int(cells[early[0]]))}"
                if early
                else ""
            )
            found.note(f"{name}.{column} before what it names", sum(map(bool, keys)), len(early), text)


def _keys_looked_at(
    store: Store, known: Mapping[str, Any]
) -> Iterator[tuple[str, Sequence[Sequence[str]], Sequence[str]]]:
    """Yield a column, the (table, column) places that it names, and the tables in which it does."""
    for name, column, other, key in known.get("key_places", ()):
        yield column, [(other, key)], [name]
    for column, named in known.get("keys", {}).items():
        places = [named] if isinstance(named[0], str) else named
        yield column, places, [name for name in store.table_names if [name, column] not in places]


def _name_of(record: _Record, known: Mapping[str, Any]) -> str:
    """Return the hospital's number of a person."""
    if "subject" in known:
        table = record.table(known["subject"][0])
        names = [] if table is None else table.texts(known["subject"][1])
        if names and names[0]:
            return names[0]
    return str(record.subject)


def _compare(
    found: PlausibilityReport, ours: _Record, theirs: _Record, known: Mapping[str, Any], other: Mapping[str, Any]
) -> None:
    """Count what is shown earlier than in the other source, by kind."""
    here, there = dict(_facts(ours, known)), dict(_facts(theirs, other))
    for fact, shown in here.items():
        if fact in there:
            early = there[fact] - shown > _MINUTE
            text = f"{ours.subject}: {' '.join(fact)} at {_time(shown)}, there at {_time(there[fact])}" if early else ""
            found.note(f"{fact[0]} known earlier", 1, int(early), text)


def _facts(record: _Record, known: Mapping[str, Any]) -> Iterator[tuple[Fact, int]]:
    """Yield what can be compared with the moment at which it is first shown."""
    first: dict[Fact, int] = {}
    for fact in known.get("facts", ()):
        table = record.table(fact["table"])
        if table is None:
            continue
        shown = _cells(table, fact.get("cell", ""), fact.get("word", ""))
        if "where" in fact:
            fits = [fnmatchcase(text, fact["where"]) for text in table.texts("code")]
            shown = np.where(fits, shown, NEVER_TIME)
        keys = list(zip(*(_keys(table, word) for word in fact.get("key", ())), strict=True)) or [()] * len(shown)
        for key, at in zip(keys, shown.tolist(), strict=True):
            if at != NEVER_TIME and all(key):
                name = (fact["kind"], *key)
                first[name] = min(at, first.get(name, NEVER_TIME))
    yield from first.items()


def _keys(table: ShownTable, word: str) -> Iterable[str]:
    """Return what a fact is recognised by: a column, its day, or the n-th part of a code."""
    first, _, rest = word.partition(" ")
    if first == "day":
        return [text[:10] for text in table.texts(rest)]
    if rest:
        place = int(rest)
        parts = [text.split("//") for text in table.texts(first)]
        return [one[place] if place < len(one) else "" for one in parts]
    return [text.strip() for text in table.texts(first)]


def _time(microseconds: int) -> str:
    return "the end of time" if microseconds == NEVER_TIME else str(from_microseconds(microseconds))
