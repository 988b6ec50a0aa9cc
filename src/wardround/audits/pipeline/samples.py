"""Samples of a foreign pipeline: whose features, and the moment at which they claim to be known."""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from wardround.audits.pipeline.copies import anchored, placed, rule_of
from wardround.audits.swap.knowledge import SwapTable, latest
from wardround.audits.swap.write import Placement, SwapSource, bare_key
from wardround.core import UserError, parse_time

_DRAW = re.compile(r"(\w+?)(?:(:end)|\+(\d+)(min|h|d))?")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_CONTROLS = 8
"""One subject in so many keeps its own future in every copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSample:
    """One thing that a pipeline makes features of.

    ``subject`` is the person's key as the source writes it; ``keys`` are all columns of the sample (``stay_id``,
    ``hadm_id``), by which a reader finds its features; ``label`` is what a model would be trained to foretell.
    """

    subject: str
    time: datetime
    keys: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    label: str | None = field(default=None, compare=False)
    is_control: bool = field(default=False, compare=False)
    """Whether this subject's files stay as they are in every copy: what differs of it comes from other people."""

    def __str__(self) -> str:
        keys = [f"{name} {text}" for name, text in self.keys.items() if name.endswith("_id") and text != self.subject]
        return f"{' '.join([f'subject {self.subject}', *keys])} at {self.time:%Y-%m-%d %H:%M}"


def with_controls(samples: Iterable[PipelineSample]) -> list[PipelineSample]:
    """Return samples by subject and time, one subject in eight a control; of fewer than four subjects none is."""
    ordered = sorted(set(samples), key=lambda one: (one.subject, one.time))
    subjects = sorted({one.subject for one in ordered}, key=lambda subject: zlib.crc32(subject.encode()))
    controls = frozenset(subjects[::_CONTROLS] if len(subjects) >= _CONTROLS // 2 else ())
    return [replace(one, is_control=one.subject in controls) for one in ordered]


def read_samples(
    file: Path | str,
    *,
    subject: str = "subject_id",
    time: str = "time",
    table: SwapTable | None = None,
    folders: Sequence[Path] = (),
) -> list[PipelineSample]:
    """Read samples from a CSV file with a header; a column ``label`` holds what a model would foretell.

    With ``table`` and ``folders`` of a source in minutes, as eICU, the file has columns ``patientunitstayid`` and
    ``minutes`` (since the unit's admission) instead. UserError: a column is missing, a time cannot be read, or no such
    stay is in the source.
    """
    if table is not None and table.subject_by is not None:
        return _read_minutes(Path(file), table, placed(table, folders))
    with Path(file).open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        missing = [name for name in (subject, time) if name not in (reader.fieldnames or ())]
        if missing:
            raise UserError(
                f"{file}: no column {', '.join(missing)}; it needs {subject} and {time} (as YYYY-MM-DD HH:MM)"
            )
        made = []
        for number, row in enumerate(reader, start=2):
            try:
                moment = parse_time(row[time])
            except ValueError as error:
                raise UserError(f"{file}, line {number}: {row[time]!r} is no time (YYYY-MM-DD HH:MM)") from error
            made.append(PipelineSample(subject=row[subject], time=moment, keys=row, label=row.get("label") or None))
    if not made:
        raise UserError(f"{file}: no sample")
    return made


def _read_minutes(file: Path, table: SwapTable, placement: Placement) -> list[PipelineSample]:
    """Read samples of a source in minutes: the key of a stay, and how many minutes after its zero."""
    made = []
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        if missing := {table.subject, "minutes"} - set(reader.fieldnames or ()):
            raise UserError(
                f"{file}: no column {', '.join(sorted(missing))}; of source {table.name} it needs {table.subject} and "
                "minutes (since the unit's admission)"
            )
        for number, row in enumerate(reader, start=2):
            key = row[table.subject].strip()
            if key not in placement.zeros:
                raise UserError(f"{file}, line {number}: no {table.subject} {key!r} in the raw files")
            try:
                moment = placement.zeros[key] + timedelta(minutes=float(row["minutes"]))
            except ValueError as error:
                raise UserError(f"{file}, line {number}: {row['minutes']!r} is no number of minutes") from error
            made.append(_sample(table, placement, {**row, table.subject: key}, moment))
    if not made:
        raise UserError(f"{file}: no sample")
    return made


def draw_samples(
    table: SwapTable, folders: Sequence[Path], how: str, *, count: int = 200, seed: int = 0
) -> list[PipelineSample]:
    """Draw samples from the raw files, at most one a subject: a copy of the files has one moment for each.

    ``how``: ``icu+24h`` (24 hours after the beginning of a stay that is still going on then), ``admission``,
    ``discharge`` or ``icu:end`` (the end of a stay), ``random`` (any moment of any stay), ``hunt`` (between the time
    that a row bears and the time at which it could be known). Of a source in minutes, as eICU, a subject is a stay in
    hospital that begins on 2000-01-01, and ``unit+24h`` counts from the unit's admission; no ``hunt``. UserError: the
    source has no such stay.
    """
    dice = Random(f"{how} {seed}")
    if how == "hunt" and table.subject_by is not None:
        raise UserError(f"--draw hunt: source {table.name} counts in minutes; draw unit+24h, unit:end or random")
    if how == "hunt":
        found = list(_hunted(table, folders, dice))
    else:
        found = list(_of_stays(table, folders, how, dice))
        dice.shuffle(found)
    first: dict[str, PipelineSample] = {}
    for sample in found:
        first.setdefault(sample.subject, sample)
    if not first:
        raise UserError(f"--draw {how}: no such moment in {', '.join(map(str, folders))}")
    return sorted(list(first.values())[:count], key=lambda one: one.subject)


def write_samples(samples: Iterable[PipelineSample], file: Path) -> None:
    """Write samples as :func:`read_samples` reads them, for the pipeline's own use."""
    samples = list(samples)
    labelled = ["label"] if any(one.label is not None for one in samples) else []
    names = list(dict.fromkeys(("subject_id", "time", *(name for one in samples for name in one.keys), *labelled)))
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, names, restval="", lineterminator="\n")
        writer.writeheader()
        for one in samples:
            row = {**one.keys, "subject_id": one.subject, "time": f"{one.time:%Y-%m-%d %H:%M:%S}"}
            writer.writerow(row if one.label is None else {**row, "label": one.label})


def _of_stays(table: SwapTable, folders: Sequence[Path], how: str, dice: Random) -> Iterator[PipelineSample]:
    name, end, after = None, None, timedelta()
    placement = placed(table, folders)
    work = SwapSource(table=table, placement=placement).clockwork()
    if how != "random":
        found = _DRAW.fullmatch("admission:end" if how == "discharge" else how)
        if found is None:
            raise UserError(f"--draw {how}: write icu+24h, admission, discharge, icu:end, random or hunt")
        name, end = found[1], found[2]
        after = int(found[3] or 0) * _UNITS[found[4] or "h"]
    spans = {key: span for key, span in table.spans.items() if name in (None, key)}
    if not spans:
        there = ", ".join(table.spans) or "none"
        raise UserError(f"--draw {how}: source {table.name} has no such stay (it has: {there}); give --samples FILE")
    for kind, record in SwapSource(table=table).records(folders):
        for span in spans.values():
            if kind.casefold() != span.file:
                continue
            begins, ends = latest(span.start, record, work), latest(span.end, record, work)
            keys = {path: record.texts(path)[0] for path in (table.subject, *span.keys) if record.texts(path)}
            if begins is None or table.subject not in keys:
                continue
            if how == "random":
                last = ends or begins + timedelta(days=2)
                time = begins + timedelta(minutes=dice.randrange(max(1, int((last - begins).total_seconds() // 60))))
            elif end:
                if ends is None:
                    continue
                time = ends
            else:
                time = begins + after
                if ends is not None and time > ends:
                    continue
            yield _sample(table, placement, keys, time)


def _sample(table: SwapTable, placement: Placement, keys: dict[str, str], time: datetime) -> PipelineSample:
    """Return a sample; of a source in minutes its subject is the stay in hospital, and ``minutes`` says when."""
    key = keys[table.subject]
    if table.subject_by is None:
        return PipelineSample(subject=bare_key(key), time=time, keys=keys)
    minutes = (time - placement.zeros[key]).total_seconds() / 60
    return PipelineSample(
        subject=f"{placement.subjects[key]}",
        time=time,
        keys={**keys, "minutes": f"{minutes:.0f}"},
        label=keys.get("label") or None,
    )


def _hunted(table: SwapTable, folders: Sequence[Path], dice: Random) -> Iterator[PipelineSample]:
    """Moments after the time that a row bears and before it could be known, as many of each file and kind of cell."""
    work = anchored(table, folders)
    found: dict[tuple[str, str], list[PipelineSample]] = {}
    for kind, record in SwapSource(table=table).records(folders):
        texts = record.texts(table.subject)
        rule = rule_of(table, kind, record)
        if not texts or rule is None:
            continue
        times = [at for path in record.paths() for text in record.texts(path) if (at := work.read(record, path, text))]
        row = latest(rule.row, record, work)
        begins = min((at for at in times if at.year > 1902), default=None)
        if row is None or begins is None:
            continue
        for what, known in [("row", row), *((cell.paths[0], latest(cell.known, record, work)) for cell in rule.cells)]:
            start = begins if what == "row" else max(begins, row)
            if known is None or known.year > 2900 or known - start < timedelta(minutes=2):
                continue
            time = start + timedelta(minutes=dice.randrange(1, int((known - start).total_seconds() // 60)))
            keys = {path: record.texts(path)[0] for path in (table.subject, *sorted(rule.links)) if record.texts(path)}
            place = found.setdefault((kind, what), [])
            sample = PipelineSample(subject=bare_key(texts[0]), time=time, keys=keys)
            if len(place) < 50:
                place.append(sample)
            elif dice.random() < 0.02:
                place[dice.randrange(50)] = sample
    for place in found.values():
        dice.shuffle(place)
    for turn in range(50):
        yield from (place[turn] for place in found.values() if turn < len(place))
