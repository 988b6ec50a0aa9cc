"""Is a swapped copy right with itself? By the table's own clocks it shows at each moment what the original shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from wardround.audits.swap.change import Future
from wardround.audits.swap.files import files_below, read_records, stem
from wardround.audits.swap.knowledge import Clockwork, KnowledgeRule, SwapTable
from wardround.audits.swap.raw_records import RawRecord
from wardround.audits.swap.write import NOWHERE, Placement, SwapSource

_SHOWN = 20
"""So many sentences; the last one says how many there would be."""


def self_check(
    table: SwapTable,
    folders: Sequence[Path],
    copies: Sequence[Path],
    moments: Mapping[int, datetime | None],
    *,
    placement: Placement = NOWHERE,
) -> list[str]:
    """Compare what each subject's files and their swapped copies hold that is known at the subject's moment: rows and
    cells, by the clocks of the table, each side with its own. Return a sentence for each row that one side alone has,
    at most 21; none: the copy is right."""
    source = SwapSource(table=table, placement=placement)
    sides = [_known(source, side, moments) for side in (folders, copies)]
    found = [
        f"{subject} as of {moments[subject]}: {where} of {kind}: {content[:300]}"
        for ours, other, where in (
            (sides[0], sides[1], "only in the original"),
            (sides[1], sides[0], "only in the copy"),
        )
        for (kind, subject, content), count in ours.items()
        if count > other[kind, subject, content]
    ]
    rest = [f"and {len(found) - _SHOWN:,} more"] if len(found) > _SHOWN else []
    return found[:_SHOWN] + rest


def _known(
    source: SwapSource, folders: Sequence[Path], moments: Mapping[int, datetime | None]
) -> Counter[tuple[str, int, str]]:
    """Count what is known of every subject's rows, by kind of file."""
    held: dict[str, list[RawRecord]] = {}
    for _, kind, record in _held(source, folders, moments, waited_for=True):
        for anchor in source.anchors(kind, record):
            held.setdefault(anchor.name, []).append(record)
    work = source.clockwork()
    source.set_anchors(work, held)
    found: Counter[tuple[str, int, str]] = Counter()
    futures = {
        subject: Future(as_of=as_of, work=work, stretch=1.0, subject=source.table.subject)
        for subject, as_of in moments.items()
        if as_of is not None
    }
    for subject, kind, record in _held(source, folders, moments):
        rules, place = source.table.of(kind) or (), source.place(kind, record)
        if place == len(rules) or futures[subject].is_unknown(record, rules[place]):
            continue
        shown = known_part(futures[subject], record, rules[place])
        repeat = rules[place].repeat
        if repeat is not None and futures[subject].is_late(record, repeat.known):
            group = " ".join(text for path in repeat.group for text in record.texts(path) or ("",))
            found[kind, subject, f"rows of {group}"] = 1  # how many there are is not known
        else:
            found[kind, subject, json.dumps(shown.content, sort_keys=True)] += 1
    return found


def _held(
    source: SwapSource, folders: Sequence[Path], moments: Mapping[int, datetime | None], *, waited_for: bool = False
) -> Iterator[tuple[int, str, RawRecord]]:
    for folder in folders:
        for path in files_below(folder):
            name = path.relative_to(folder).with_name(stem(path)).as_posix()
            if not path.name.endswith(source.endings()) or not source.covers(path, name):
                continue
            if waited_for and not source.is_waited_for(path, name):
                continue
            for record in read_records(path):
                subject = source.subject(record)
                if subject is not None and moments.get(subject) is not None:
                    yield subject, source.kind(record, name, path), record


def known_part(future: Future, record: RawRecord, rule: KnowledgeRule) -> RawRecord:
    """Return a known row without what of it was not known: late cells, late parts of lists, and of others their late
    times."""
    shown = record.copy()
    for cell in rule.cells:
        if future.is_late(record, cell.known):
            for path in cell.paths:
                if not cell.values or set(record.texts(path)) & {*cell.values, *cell.to} or path in rule.exchange:
                    shown.blank(path)
    for path, clocks in rule.items.items():
        for item in shown.items(path):
            if future.is_later_part(item, clocks):
                shown.remove(path, item)
                continue
            for part in item.paths():
                item.change(part, partial(_without_later, future.work, item, part, future.as_of))
    return shown


def _without_later(work: Clockwork, item: RawRecord, path: str, as_of: datetime, text: str) -> Any:
    at = work.read(item, path, text)
    return "later" if at is not None and at > as_of else text
