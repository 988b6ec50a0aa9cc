"""Draft a source spec: tables, clocks and roles as guesses a person confirms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.core import UserError
from wardround.records.drafts.guesses import Guesses
from wardround.records.drafts.look import (
    ROWS_READ,
    ColumnLook,
    FileLook,
    TableFiles,
    TimeFormats,
    grouped_files,
    look_at,
    plain_name,
    spelt,
)
from wardround.records.specs.roles import ROLES

# Roles that tables of the draft may have, as commented lines; a person removes the comment sign from the right ones.


_WORDS = {
    "lab": ("lab", "biolog", "result", "wert", "analys", "befund"),
    "vital": ("vital", "puls", "constante", "signes", "bedside"),
    "order": ("order", "prescri", "medi", "verordn", "anordn", "drug", "arznei", "rezept"),
    "administration": ("administr", "gabe", "emar", "verabreich"),
    "intake": ("intake", "infus", "drip", "perfus", "tropf", "einfuhr"),
    "output": ("output", "ausfuhr", "urin", "drain"),
    "diagnosis": ("diag", "icd"),
    "procedure": ("proc", "ops", "operation", "eingriff"),
    "culture": ("micro", "mikro", "cultur", "kultur"),
    "transfer": ("transfer", "verleg", "beweg", "ward", "station"),
    "note": ("note", "letter", "brief", "bericht", "arztbrief", "report", "text", "document", "dokument"),
}
_STOP = re.compile(r"stop|end|until|bis|fin|abgesetzt|cancel|discontinu")
_DEATH = ("death", "died", "deceased", "dod", "verstorb", "tod", "deces", "muerte")


def role_lines(guesses: Guesses) -> Iterator[str]:
    """Yield the lines of possible roles, commented out."""
    yield "# Roles: what tasks use a table for (docs/roles.md). Guessed by name: remove the # where one is right."
    stays = guesses.stays
    if stays is not None:
        yield from _commented("admission", _admission(stays, guesses.keys[stays.name]))
    for role, words in _WORDS.items():
        fit = [look for look in guesses.tables if any(word in look.name for word in words) and look is not stays]
        if fit:
            yield from _commented(role, _role(role, fit[0], guesses))
    died = [(look, time) for look in guesses.tables for time in look.times if any(word in time for word in _DEATH)]
    if died:
        yield from _commented("death", [f'table = "{died[0][0].name}"', f'time = "{died[0][1]}"'])


def _commented(role: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"# [roles.{role}]   # {ROLES[role]}"
    yield from (f"# {line}" for line in lines)


def _admission(look: FileLook, key: str) -> Iterator[str]:
    yield f'table = "{look.name}"'
    yield f'id = "{key}"'
    yield from (f'start = "{name}"' for name in look.times[:1])
    yield from (f'ends = ["{name}"]' for name in look.times[1:2])
    if len(look.times) < 2:
        yield "(no column here is the end; ends that are rows of a table: table, code, starts, stops: docs/roles.md)"


def _role(role: str, look: FileLook, guesses: Guesses) -> Iterator[str]:
    yield f'table = "{look.name}"'
    keys = {guesses.subject_in(look), *guesses.parents(look), *guesses.keys.values()}
    names = [column.name for column in look.columns if column.name not in keys and _may_name(column)]
    numbers = [c.name for c in look.columns if c.kind in ("int", "float") and c.name not in keys]
    if role == "vital" and not names:
        yield from (f'time = "{name}"' for name in look.times[:1])
        measures = ", ".join(f'{name} = "{name}"' for name in numbers)
        yield f"measures = {{ {measures} }}"
        return
    yield f'label = "{names[0] if names else "COLUMN"}"'
    yield from (f'time = "{name}"' for name in look.times[:1])
    if role in ("order", "intake"):
        yield from (f'stop = "{name}"' for name in [time for time in look.times[1:] if _STOP.search(time)][:1])
    if role == "note":
        texts = [column for column in look.columns if column.kind == "text" and column.cells]
        longest = sorted(texts, key=lambda column: -max(map(len, column.cells)))
        yield from (f'text = "{column.name}"' for column in longest[:1])
    if role in ("lab", "vital", "intake", "output"):
        floats = [column.name for column in look.columns if column.kind == "float"]
        yield from (f'value = "{name}"' for name in floats[:1])
        yield from (f'unit = "{name}"' for name in names[1:2])


def _may_name(column: ColumnLook) -> bool:
    """Whether a column may name what a row is about: its words are repeated."""
    return column.kind == "text" and not column.is_unique and any(cell[:1].isalpha() for cell in column.cells)


# A draft of a source spec from the first rows of its files. Guesses are marked; what only a person can know is a TODO;
# a spec with a TODO is refused. No clock is guessed: no file says when a row became known. A cell that may have been
# filled in later is drafted as late, until a person changes that.


_BIRTH = re.compile(r"birth|geburt|geb_|dob|naissance|nacim")
NOT_TAKEN = "# not used: "
"""Start of the lines of a draft that name files without a table."""
_LOCAL = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S.%f",
    "%Y-%m-%dT%H:%M",
)
_ISO = (*_LOCAL, *(f"{written}%z" for written in _LOCAL[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Guesses about the files of a folder."""

    name: str
    guesses: Guesses
    notes: Mapping[str, str]
    """By table, what a person should check."""

    @property
    def tables(self) -> tuple[FileLook, ...]:
        """The first rows of each table."""
        return self.guesses.tables

    @property
    def delimiter(self) -> str:
        """The most frequent delimiter."""
        return _most(look.delimiter for look in self.tables if look.delimiter)

    @property
    def encoding(self) -> str:
        """The most frequent encoding of files that have more than ASCII."""
        return _most((look.encoding for look in self.tables if look.encoding), default="utf-8")

    @property
    def decimal(self) -> str:
        """The most frequent decimal sign of the files whose sign can be determined."""
        alike = (look for look in self.tables if look.delimiter in ("", self.delimiter))
        return _most((look.decimal for look in alike if look.decimal in (".", ",")), default=".")

    def decimal_of(self, table: FileLook) -> str:
        """Return a table's decimal sign; a point if no number shows it and the usual sign is the table's delimiter."""
        return table.decimal or ("." if table.delimiter == self.decimal else "")


def draft_spec(folder: Path) -> str:
    """Return the TOML text of a draft for the files of a folder. UserError: no file can be read."""
    groups, left_out = grouped_files(folder)
    if not groups:
        raise UserError(f"{folder}: there is no .csv, .tsv, .parquet or .jsonl file (text files may be gzipped)")
    named = list(zip(groups, _names(groups), strict=True))
    looks = [look_at(group.files, group.path, group.shown, name) for group, name in named]
    draft = Draft(
        name=spelt(folder.resolve().name),
        guesses=Guesses.of(looks),
        notes={name: group.note for group, name in named if group.note},
    )
    return "\n".join(
        (
            *_head(draft, folder, left_out),
            *(line for look in draft.tables for line in _table(draft, look)),
            *role_lines(draft.guesses),
        )
    )


def _names(groups: Sequence[TableFiles]) -> list[str]:
    """Return a name for each table: its file's name, with a number if two would be the same."""
    last = [spelt(plain_name(group.path.rpartition("/")[2]) or plain_name(group.path)) for group in groups]
    names = [
        spelt(plain_name(group.path)) if last.count(name) > 1 else name
        for group, name in zip(groups, last, strict=True)
    ]
    return [name if names.index(name) == n else f"{name}_{n}" for n, name in enumerate(names)]


def _head(draft: Draft, folder: Path, left_out: Mapping[str, str]) -> Iterator[str]:
    yield f"# A draft, guessed from the first {ROWS_READ:,} rows of each table in {folder.name}."
    yield "# Check every line with `guessed`. Every TODO is a question that only a person can answer: replace"
    yield "# the text or delete the line. `wardround spec check` and `wardround ingest` refuse a file with a TODO."
    yield "# Lines with `drafted` are cautious: a chart shows a time once it has passed, and other cells once all times"
    yield "# of the row have passed (never, if the row has only one time). Remove the names of columns that are written"
    yield "# together with the row; for the others write when they are filled in."
    yield "# What every key means: docs/extend/source-spec.md."
    yield from (f"{NOT_TAKEN}{name} ({why})" for name, why in sorted(left_out.items()))
    yield ""
    yield "[source]"
    yield f'name = "{draft.name}"'
    yield f'title = "{draft.name}"'
    yield '# sensitivity = "credentialed"   # the strictest value, and the default'
    yield from _merged(draft.guesses)
    yield ""
    yield "[source.files]"
    yield from _format(draft)
    yield ""


def _merged(guesses: Guesses) -> Iterator[str]:
    found = ", ".join(guesses.merged)
    hint = (
        f"Columns that may contain it: {found}"
        if found
        else "No column looks like it; ask whoever runs the patient index"
    )
    yield (
        'person = "TODO: are patients merged, so that one person has several numbers? Write '
        "TABLE.COLUMN: a text column with the person's number of today, in a table whose subject is the number that is "
        f'no longer used; delete the line if nobody is merged. {hint}"'
    )


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
        kept = [written for written in formats if written not in both]
        beside = f", beside {', '.join(kept)}" if kept else ""
        yield (
            'times = ["TODO: the rows that were read do not show which number is the day and which the month: one of '
            f'{", ".join(both)}{beside}"]'
        )
    elif set(formats) - set(_ISO):
        yield f"times = {_list(sorted(formats, key=len, reverse=True))}   # guessed"
    if any("%z" in written for written in formats):
        yield 'time_zone = "TODO: the time zone of the hospital, such as Europe/Berlin: some times have a UTC offset"'
    bare = [column.name for look in looks for column in look.columns if column.has_bare_dates]
    if bare:
        yield (
            f'bare_dates = "TODO: {", ".join(dict.fromkeys(bare))}: some cells are dates without a time of day; '
            'refuse (set such rows aside) or end_of_day (known at 23:59:59)?"'
        )


def _decided(formats: TimeFormats, all_of_them: Iterable[TimeFormats]) -> bool:
    """Whether another column has days above 12, which shows which number is the day."""
    return any(each.formats == formats.formats and not each.others for each in all_of_them)


def _table(draft: Draft, look: FileLook) -> Iterator[str]:
    guesses = draft.guesses
    times = ", ".join(look.times) or "none found"
    yield f"[tables.{look.name}]   # {look.shown}: {look.rows:,} rows read"
    if look.name in draft.notes:
        yield f"# {draft.notes[look.name]}"
    if not look.rows:
        yield "# A header and no row: type, key and time are not guessed. Delete the table if it is not used."
    guess = "   # guessed: these files are one table; if not, declare a table for each" if "*" in look.path else ""
    yield f"path = {_quoted(look.path)}{guess}"
    yield 'description = "TODO: what a row is, in one line for people and models"'
    key = guesses.keys.get(look.name)
    if key is not None:
        yield f'key = ["{key}"]   # guessed: filled and different in all rows that were read'
    owner = guesses.owner(look)
    if (subject := guesses.subject_in(look)) is not None and look.column(subject):
        yield f'subject = "{subject}"   # guessed: the patient of the row'
    elif owner is not None:
        yield f'subject_from = {{ key = "{owner[0]}", table = "{owner[1]}" }}   # guessed: the patient of the row'
    else:
        yield 'subject = "TODO: the column of the patient; or subject_from = { key = COLUMN, table = TABLE }"'
    encounter = guesses.encounter(look)
    if encounter is not None:
        yield f'encounter = "{encounter}"   # guessed: the stay of the row'
    yield from _versions(guesses, look)
    yield f'event_time = "TODO: when it happened. Time columns: {times}; write always if it has no time"'
    yield (
        f'available_at = "TODO: since when somebody could read the row. Time columns: {times}. '
        'A result is known when it is written, not when it is drawn; a diagnosis when it is coded"'
    )
    yield f"[tables.{look.name}.columns]"
    yield from (f'{column.name} = "{column.kind}"' for column in look.columns)
    yield from _files(draft, look)
    yield from _late(guesses, look)
    yield ""


def _versions(guesses: Guesses, look: FileLook) -> Iterator[str]:
    found = guesses.versions(look)
    if found is not None:
        yield f"# {found.status} has words for corrections. If several rows are versions of one row, remove the #."
        row = "" if found.row is None else f', row = "{found.row}"'
        yield f'# amended = {{ status = "{found.status}", withdrawn = {_list(found.withdrawn)}{row} }}'
        yield f'# version = "{found.since or "COLUMN"}"   # since when this version is valid'


def _files(draft: Draft, look: FileLook) -> Iterator[str]:
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


def _late(guesses: Guesses, look: FileLook) -> Iterator[str]:
    """Yield cautious rules for late cells: a time is known once it has passed, other cells once all times of their row
    have. A single time does not show what was filled in after it, so the rule is never."""
    yield f"[tables.{look.name}.late]"
    parents, subject = guesses.parents(look), guesses.subject_in(look)
    owner = guesses.owner(look) if subject is None or not look.column(subject) else None
    known_early = {guesses.keys.get(look.name), subject, *parents, owner[0] if owner else None}
    for column, parent in parents.items():
        if owner is None or column != owner[0]:
            yield f'{column} = "known({column}, {parent})"   # guessed: a key shows that the row it refers to exists'
    yield from (f'{time} = "{time}"   # drafted' for time in look.times if time not in known_early)
    others = [column.name for column in look.columns if column.name not in (*known_early, *look.times)]
    if others:
        clocks = [time for time in look.times if not _BIRTH.search(time)]
        last = f"max({', '.join(clocks)})" if len(clocks) > 1 else "never"
        yield f'"{", ".join(others)}" = "{last}"   # drafted'


def _most(values: Iterable[str], default: str = "") -> str:
    found = list(values)
    return max(dict.fromkeys(found), key=found.count, default=default)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"
