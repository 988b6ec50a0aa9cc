"""A draft of a source spec from a look at its files: guesses are marked as guesses, and what only a person can know is
a TODO that no reader of specs accepts. Above all no clock is guessed: when a row became known stands in no file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wardround.core import UserError
from wardround.records.drafts.draft_roles import role_lines
from wardround.records.drafts.file_look import ROWS_READ, ColumnLook, FileLook, look_at, spelt
from wardround.records.drafts.time_formats import TimeFormats
from wardround.records.reading.source_files import table_files

_SUBJECT_WORDS = ("patient", "subject", "person", "mrn", "pid", "pat_")
_LATE = (
    "TODO: of these keep the columns that are filled in after available_at, and write when (an end, an outcome, "
    "a code); delete the line if there is none"
)
_ISO = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S.%f",
    "%Y-%m-%dT%H:%M",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What was guessed of a folder's files."""

    name: str
    tables: tuple[FileLook, ...]
    subject: str | None
    keys: Mapping[str, str]
    """By table the column that is filled and different in all rows read."""

    @property
    def delimiter(self) -> str:
        """The one of most files."""
        return _most(look.delimiter for look in self.tables)

    @property
    def encoding(self) -> str:
        """The one of most files that have more than ASCII."""
        return _most((look.encoding for look in self.tables if look.encoding), default="utf-8")

    @property
    def decimal(self) -> str:
        """The decimal sign of most files that can be told to have one."""
        alike = (look for look in self.tables if look.delimiter in ("", self.delimiter))
        return _most((look.decimal for look in alike if look.decimal in (".", ",")), default=".")

    def decimal_of(self, table: FileLook) -> str:
        """A table's own; a point where it has no number to tell by and the common sign parts its cells."""
        return table.decimal or ("." if table.delimiter == self.decimal else "")

    def parents(self, table: FileLook) -> dict[str, str]:
        """Return the columns of a table that are the key of another, with that table."""
        others = {key: name for name, key in self.keys.items() if name != table.name and key != self.subject}
        own = self.keys.get(table.name)
        return {
            column.name: others[column.name] for column in table.columns if column.name in others and column.name != own
        }


def draft_spec(folder: Path) -> str:
    """Return the TOML text of a draft for the files of a folder. UserError: there is none that can be read."""
    files = table_files(folder)
    if not files:
        raise UserError(f"{folder}: no .csv, .csv.gz or .parquet file is there")
    looks = _agreed([look_at(paths[0], path, shown) for path, shown, paths in files])
    names = [look.name for look in looks]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise UserError(f"{folder}: two files would both be the table {double[0]!r}; rename one")
    subject = _subject(looks)
    keys = {look.name: key for look in looks if (key := _key(look, subject)) is not None}
    draft = Draft(name=spelt(folder.resolve().name), tables=tuple(looks), subject=subject, keys=keys)
    return "\n".join(
        (
            *_head(draft, folder),
            *(line for look in looks for line in _table(draft, look)),
            *role_lines(looks, {subject, *keys.values()}),
        )
    )


def _agreed(looks: Sequence[FileLook]) -> list[FileLook]:
    """Return the looks with one type for all columns of a name: a key that is text in one file is text in all."""
    texts = {column.name for look in looks for column in look.columns if column.kind == "text" and column.cells}
    return [
        replace(
            look,
            columns=tuple(replace(c, kind="text") if c.kind == "int" and c.name in texts else c for c in look.columns),
        )
        for look in looks
    ]


def _subject(looks: Sequence[FileLook]) -> str | None:
    """Return the column that most files share and that names the fewest things; one called a patient comes first."""
    held: dict[str, list[ColumnLook]] = {}
    for look in looks:
        for column in look.columns:
            if column.kind in ("int", "text"):
                held.setdefault(column.name, []).append(column)

    def rank(name: str) -> tuple[bool, int, int]:
        called = any(word in name for word in _SUBJECT_WORDS)
        return called, len(held[name]), -len(frozenset().union(*(column.cells for column in held[name])))

    shared = [
        name for name, columns in held.items() if len(columns) > 1 or any(word in name for word in _SUBJECT_WORDS)
    ]
    return max(shared, key=rank, default=None)


def _key(look: FileLook, subject: str | None) -> str | None:
    fit = (c.name for c in look.columns if c.is_full and c.is_unique and c.kind in ("int", "text"))
    found = list(fit)
    return next((name for name in found if name != subject), found[0] if found else None)


def _head(draft: Draft, folder: Path) -> Iterator[str]:
    yield f"# A draft, guessed from the first {ROWS_READ:,} rows of each file in {folder.name}."
    yield "# Whatever says `guessed` is worth a look. Every TODO is a question that only a person can answer: replace"
    yield "# the text or delete the line. `wardround spec check` and `wardround ingest` refuse a file with any left."
    yield "# What every key means: docs/extend/source-spec.md."
    yield ""
    yield "[source]"
    yield f'name = "{draft.name}"'
    yield f'title = "{draft.name}"'
    yield '# sensitivity = "credentialed"   # the strictest word and the default'
    yield ""
    yield "[source.files]"
    yield from _format(draft)
    yield ""


def _format(draft: Draft) -> Iterator[str]:
    looks = draft.tables
    yield f"delimiter = {_quoted(draft.delimiter)}   # guessed"
    yield f"encoding = {_quoted(draft.encoding)}   # guessed"
    yield f"decimal = {_quoted(draft.decimal)}   # guessed"
    words = sorted(frozenset().union(*(look.empty for look in looks)))
    if words:
        yield f"empty = {_list(words)}   # guessed: words that stand for an empty cell"
    times = [column.times for look in looks for column in look.columns if column.times]
    formats = dict.fromkeys(written for each in times for written in each.formats)
    undecided = [each for each in times if each.others and not _decided(each, times)]
    if undecided:
        both = dict.fromkeys(written for each in undecided for written in (*each.formats, *each.others))
        yield f'times = ["TODO: days and months cannot be told apart in what was read: one of {", ".join(both)}"]'
    elif set(formats) - set(_ISO):
        yield f"times = {_list(sorted(formats, key=len, reverse=True))}   # guessed"
    bare = [column.name for look in looks for column in look.columns if column.has_bare_dates]
    if bare:
        yield (
            f'bare_dates = "TODO: {", ".join(dict.fromkeys(bare))}: dates without a time stand among the times; '
            'refuse (set such rows aside) or end_of_day (known at 23:59:59)?"'
        )


def _decided(formats: TimeFormats, all_of_them: Iterable[TimeFormats]) -> bool:
    """Whether another column, whose days go beyond the twelfth, says which is the day."""
    return any(each.formats == formats.formats and not each.others for each in all_of_them)


def _table(draft: Draft, look: FileLook) -> Iterator[str]:
    times = ", ".join(look.times) or "none was found"
    yield f"[tables.{look.name}]   # {look.shown}: {look.rows:,} rows read"
    if not look.rows:
        yield "# A header and no row: no type, key or time could be guessed. Take the table away if it is not used."
    yield f'path = "{look.path}"'
    yield 'description = "TODO: what a row is, in a line for people and models"'
    key = draft.keys.get(look.name)
    if key is not None:
        yield f'key = ["{key}"]   # guessed: filled and different in all rows read'
    if draft.subject is not None and look.column(draft.subject):
        yield f'subject = "{draft.subject}"   # guessed: whose row it is'
    else:
        yield 'subject = "TODO: the column of whose row it is; or subject_from = { key = COLUMN, table = TABLE }"'
    yield f'event_time = "TODO: when it happened. Time columns: {times}; always, if it has no time"'
    yield (
        f'available_at = "TODO: from when on somebody could read the row. Time columns: {times}. '
        'A result is known when it is written, not when it is drawn; a diagnosis when it is coded"'
    )
    yield f"[tables.{look.name}.columns]"
    yield from (f'{column.name} = "{column.kind}"' for column in look.columns)
    renamed = {column.header: column.name for column in look.columns if column.header != column.name}
    own = {
        name: value
        for name, value, common in (
            ("delimiter", look.delimiter, draft.delimiter),
            ("encoding", look.encoding, draft.encoding),
            ("decimal", draft.decimal_of(look), draft.decimal),
        )
        if value not in ("", common)
    }
    if renamed or own:
        yield f"[tables.{look.name}.files]"
        yield from (f"{name} = {_quoted(value)}   # guessed" for name, value in own.items())
    if renamed:
        yield f"headers = {{ {', '.join(f'{_quoted(old)} = {_quoted(new)}' for old, new in renamed.items())} }}"
    yield f"[tables.{look.name}.late]"
    parents = draft.parents(look)
    for column, parent in parents.items():
        yield f'{column} = "known({column}, {parent})"   # guessed: a key tells that the row it names is there'
    others = [column.name for column in look.columns if column.name not in (key, draft.subject, *parents)]
    yield f'"{", ".join(others)}" = "{_LATE}"'
    yield ""


def _most(values: Iterable[str], default: str = "") -> str:
    found = list(values)
    return max(dict.fromkeys(found), key=found.count, default=default)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"
