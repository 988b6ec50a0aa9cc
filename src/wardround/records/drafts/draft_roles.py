"""Which roles the tables of a draft may play, as lines that a person takes the comment sign from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wardround.records.drafts.file_look import ColumnLook, FileLook
from wardround.records.drafts.guesses import Guesses
from wardround.records.specs.roles import ROLES

_WORDS = {
    "lab": ("lab", "biolog", "result", "wert", "analys", "befund"),
    "vital": ("vital", "puls", "constante", "signes", "bedside"),
    "order": ("order", "prescri", "medi", "verordn", "anordn", "drug", "arznei", "rezept"),
    "administration": ("administr", "gabe", "emar", "verabreich"),
    "diagnosis": ("diag", "icd"),
    "procedure": ("proc", "ops", "operation", "eingriff"),
    "culture": ("micro", "mikro", "cultur", "kultur"),
    "transfer": ("transfer", "verleg", "beweg", "ward", "station"),
    "note": ("note", "letter", "brief", "bericht", "arztbrief", "report", "text"),
}
_DEATH = ("death", "died", "deceased", "dod", "verstorb", "tod", "deces", "muerte")


def role_lines(guesses: Guesses) -> Iterator[str]:
    """Yield the candidates' lines, commented out."""
    yield "# Roles: what tasks ask by (docs/roles.md). Candidates by name; take the # away where one is right."
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
        yield "(no end is in this table: where ends are rows of another say table, code, starts, stops: docs/roles.md)"


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
    if role == "order":
        yield from (f'stop = "{name}"' for name in look.times[1:2])
    if role == "note":
        texts = [column for column in look.columns if column.kind == "text" and column.cells]
        longest = sorted(texts, key=lambda column: -max(map(len, column.cells)))
        yield from (f'text = "{column.name}"' for column in longest[:1])
    if role in ("lab", "vital"):
        floats = [column.name for column in look.columns if column.kind == "float"]
        yield from (f'value = "{name}"' for name in floats[:1])
        yield from (f'unit = "{name}"' for name in names[1:2])


def _may_name(column: ColumnLook) -> bool:
    """Whether a column may name what a row says: words that come again."""
    return column.kind == "text" and not column.is_unique and any(cell[:1].isalpha() for cell in column.cells)
