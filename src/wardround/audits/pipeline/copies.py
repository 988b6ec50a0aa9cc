"""Copies of raw files for a foreign pipeline (as they are, reordered, with another future, cut at each moment), and the
run of its command on one.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from wardround.audits.swap.files import files_below, link, read_records, stem, write_columns
from wardround.audits.swap.knowledge import Clockwork, KnowledgeRule, SwapTable
from wardround.audits.swap.raw_records import RawRecord
from wardround.audits.swap.write import NOWHERE, Clocks, Placement, SwapCounts, SwapSource, write_swapped
from wardround.core import UserError, WardroundError

ROWS = "(rows)"
"""Stands for a column where it is the row that comes, goes or is doubled."""
_EXAMPLES = 3
_SHORT = 3
"""A key of so few letters says nothing: 1, 2, 3 number the rows of many things."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyVariant:
    """What is otherwise in a copy. Without ``clocks`` nothing is.

    ``clocks``: facts that lie after the moment by their own event time (``certain``), or also those that were recorded
    later (``strict``). ``cut``: they are not there instead. ``order``: only the order of rows differs. ``later``: facts
    up to so long after the moment stay as they are. ``only``: by file, the columns that change (none named: all).
    """

    clocks: Clocks | None = None
    cut: bool = False
    order: bool = False
    later: timedelta = timedelta()
    only: Mapping[str, Collection[str] | None] | None = field(default=None, hash=False)


@dataclass(slots=True, kw_only=True)
class Copies:
    """Writes copies of a source's files. ``moments``: by subject, None for those that stay as they are. Of the variant
    ``kept`` the copy that is otherwise in everything stays in the folder ``there``: what differs from it in which files
    and columns change is written from it."""

    table: SwapTable
    folders: Sequence[Path]
    moments: Mapping[int, datetime | None]
    there: Path
    kept: CopyVariant | None = None
    placement: Placement = NOWHERE
    counts: SwapCounts = field(default_factory=SwapCounts)
    changed: dict[str, dict[str, int]] = field(default_factory=dict)
    """By file and column, how many cells of the kept copy are otherwise; rows under ``(rows)``."""
    examples: dict[tuple[str, str], list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]] = field(
        default_factory=dict
    )
    """Of each of those, rows before and after (None: left out or doubled)."""
    keys: set[str] = field(default_factory=set)
    """The numbers of rows and of what rows name, before and after."""
    _whole: tuple[list[Path], SwapCounts] | None = None

    def write(self, target: Path, variant: CopyVariant) -> list[Path]:
        """Write a copy into a new folder and return a folder for each of ``folders``."""
        whole = replace(variant, only=None)
        keeps = whole == self.kept
        if variant.only is None and not keeps:
            folders, self.counts = self._swapped(target, whole)
            return folders
        made = self._whole if keeps and self._whole is not None else self._swapped(self.there / target.name, whole)
        if keeps:
            self._whole = made
        folders, self.counts = made
        only = dict.fromkeys(variant.only or ()) if variant.order else variant.only
        copies = write_part(self.folders, folders, target, only, self.counts.lines)
        if not keeps:
            shutil.rmtree(self.there / target.name)
        return copies

    def forget(self) -> None:
        """Remove the kept copy."""
        shutil.rmtree(self.there, ignore_errors=True)
        self._whole = None

    def _swapped(self, target: Path, variant: CopyVariant) -> tuple[list[Path], SwapCounts]:
        moments = {
            subject: None if at is None or (variant.clocks is None and not variant.order) else at + variant.later
            for subject, at in self.moments.items()
        }
        return write_swapped(
            self.table,
            self.folders,
            target,
            moments,
            placement=self.placement,
            cut=variant.cut,
            clocks=variant.clocks or "strict",
            order=variant.order,
            note=None if variant.order else self._note if variant != self.kept else self._note_all,
        )

    def _note(self, kind: str, rule: KnowledgeRule, record: RawRecord, made: Sequence[RawRecord]) -> None:
        for path in (*rule.key, *rule.links):
            self.keys.update(text for one in (record, *made) for text in one.texts(path) if len(text) > _SHORT)

    def _note_all(self, kind: str, rule: KnowledgeRule, record: RawRecord, made: Sequence[RawRecord]) -> None:
        self._note(kind, rule, record, made)
        if len(made) != 1:
            self._note_column(kind, ROWS, record, None)
            return
        for path in record.paths() if made[0].content != record.content else ():
            if made[0].content.get(path) != record.content.get(path):
                self._note_column(kind, path, record, made[0])

    def _note_column(self, kind: str, column: str, record: RawRecord, made: RawRecord | None) -> None:
        columns = self.changed.setdefault(kind, {})
        columns[column] = columns.get(column, 0) + 1
        rows = self.examples.setdefault((kind, column), [])
        if len(rows) < _EXAMPLES:
            rows.append((dict(record.content), None if made is None else dict(made.content)))


def kept_copy(folders: Sequence[Path], target: Path) -> list[Path]:
    """Copy raw files as they are, read-only: a pipeline that writes into what it reads spoils no original."""
    copies = [target / str(place) for place in range(len(folders))]
    for folder, copy in zip(folders, copies, strict=True):
        for path in files_below(folder):
            into = copy / path.relative_to(folder)
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, into)
            into.chmod(0o444)
    return copies


def write_part(
    folders: Sequence[Path],
    whole: Sequence[Path],
    target: Path,
    only: Mapping[str, Collection[str] | None] | None,
    lines: Mapping[Path, bytearray],
) -> list[Path]:
    """Write files as they are in ``folders``, and those of ``only`` as in the folders ``whole`` of a swapped copy: all
    of it, or where columns are named these alone, in which case no row comes or goes. None: all files as in the copy.
    ``lines``: those of the copy's :class:`SwapCounts`."""
    wanted = {name.casefold(): columns for name, columns in (only or {}).items()}
    copies = [target / str(place) for place in range(len(folders))]
    for folder, changed, copy in zip(folders, whole, copies, strict=True):
        copy.mkdir(parents=True)
        for path in files_below(folder):
            relative = path.relative_to(folder)
            names = (relative.with_name(stem(path)).as_posix().casefold(), stem(path).casefold())
            name = next((each for each in names if each in wanted), None)
            columns = None if name is None else wanted[name]
            if only is not None and name is None:
                link(path, copy / relative)
            elif columns is None or changed / relative not in lines:
                link(changed / relative, copy / relative)
            else:
                write_columns(path, changed / relative, copy / relative, columns, lines[changed / relative])
    return copies


def linked_copy(folders: Sequence[Path], target: Path) -> list[Path]:
    """Give raw files another place, as they are."""
    copies = [target / str(place) for place in range(len(folders))]
    for folder, copy in zip(folders, copies, strict=True):
        for path in files_below(folder):
            link(path, copy / path.relative_to(folder))
    return copies


def unruled_files(table: SwapTable, folders: Sequence[Path]) -> list[str]:
    """Return the files that hold something of a person and have no rule: nobody can say what of them was known."""
    source, found = SwapSource(table=table), []
    for folder in folders:
        for path in files_below(folder):
            name = path.relative_to(folder).with_name(stem(path)).as_posix()
            if path.name.endswith(source.endings()) and source.covers(path, name) is False:
                first = next(read_records(path), None)
                if first is not None and first.texts(table.subject):
                    found.append(name)
    return found


_ADMITTED = datetime(2000, 1, 1)
"""Where stays in hospital begin of a source that has no dates."""


def placed(table: SwapTable, folders: Sequence[Path]) -> Placement:
    """Return where the stays of a source in minutes lie: each stay in hospital is a subject, and begins on one day.

    Of several stays of a person nobody can say which comes first, so each stands for itself.
    """
    if table.subject_by is None or table.placed_by is None:
        return NOWHERE
    (file, unit), (stay, begins) = table.subject_by, table.placed_by
    zeros: dict[str, datetime] = {}
    subjects: dict[str, int] = {}
    paths = [path for folder in folders for path in files_below(folder) if stem(path).casefold() == file]
    for record in (record for path in paths for record in read_records(path)):
        for key in record.texts(unit)[:1]:
            minutes = float("".join(record.texts(begins)[:1]) or 0)
            zeros[key] = _ADMITTED - timedelta(minutes=minutes)
            subjects[key] = int("".join(record.texts(stay)[:1]) or key)
    return Placement(zeros=zeros, subjects=subjects)


def rule_of(table: SwapTable, kind: str, record: RawRecord) -> KnowledgeRule | None:
    """Return the rule of a record."""
    return next((rule for rule in table.of(kind) or () if rule.fits(record)), None)


def keys_in(table: SwapTable, folders: Sequence[Path]) -> set[str]:
    """Return the numbers of rows and of what rows name, in the files as they are."""
    found: set[str] = set()
    for kind, record in SwapSource(table=table).records(folders):
        rule = rule_of(table, kind, record)
        for path in (*rule.key, *rule.links) if rule is not None else ():
            found.update(text for text in record.texts(path) if len(text) > _SHORT)
    return found


def anchored(table: SwapTable, folders: Sequence[Path]) -> Clockwork:
    """Return what the clocks of a source need besides the row: the moments of other rows."""
    source = SwapSource(table=table, placement=placed(table, folders))
    held: dict[str, list[RawRecord]] = {}
    for kind, record in SwapSource(table=table).records(folders, waited_for=True):
        for anchor in source.anchors(kind, record):
            held.setdefault(anchor.name, []).append(record)
    work = source.clockwork()
    source.set_anchors(work, held)
    return work


# Runs a foreign pipeline on a copy of raw files: a command without a shell, under a time limit.


RunPipeline = Callable[[Path, Path], object]
"""Takes the folder of raw files and an empty folder for results."""
_LAST_LINES = 8


class PipelineFailed(WardroundError):
    """A run of the pipeline ended otherwise than well. ``last`` is what it wrote last."""

    def __init__(self, words: str, last: str = "") -> None:
        super().__init__(words)
        self.last = last


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCommand:
    """A command line with ``{raw}`` (``{raw0}``, ``{raw1}`` of several source folders), ``{out}`` and ``{samples}``.

    It is split as a shell would split it and run without one. PipelineFailed: a status other than 0, or the time is up.
    """

    words: tuple[str, ...]
    limit_s: float = 3600.0

    @classmethod
    def parse(cls, text: str, *, limit_s: float = 3600.0) -> PipelineCommand:
        """Read a command line. UserError: it names neither ``{raw}`` nor ``{raw0}``, or has an open quote."""
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise UserError(f"--run: {error}: {text}") from error
        if not any("{raw" in word for word in words):
            raise UserError(f"--run {text}: it names no {{raw}}, so it cannot read the copies")
        return cls(words=words, limit_s=limit_s)

    def __call__(self, raws: Sequence[Path], out: Path, samples: Path) -> None:
        """Run it; its output is kept beside the results in ``run.log``."""
        places = {f"{{raw{n}}}": str(raw) for n, raw in enumerate(raws)}
        places |= {"{raw}": str(raws[0]), "{out}": str(out), "{samples}": str(samples)}
        words = []
        for word in self.words:
            for name, text in places.items():
                word = word.replace(name, text)
            words.append(word)
        log = out.with_suffix(".log")
        with log.open("wb") as stream:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, "PYTHONHASHSEED": "0"},
                )
            except OSError as error:
                raise UserError(f"--run: {words[0]}: {error.strerror or error}") from error
            try:
                status = process.wait(self.limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise PipelineFailed(f"not finished after {self.limit_s:g} s (--limit-s)", _last(log)) from None
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if status != 0:
            raise PipelineFailed(f"ended with status {status}; all it wrote: {log}", _last(log))


def _last(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(line[:300] for line in lines[-_LAST_LINES:])
