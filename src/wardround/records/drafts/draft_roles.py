"""Which roles the tables of a draft may play, as lines that a person takes the comment sign from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from wardround.records.drafts.file_look import ColumnLook, FileLook
from wardround.records.specs.roles import ROLES

_WORDS = {
    "admission": ("admission", "aufenthalt", "aufnahm", "stay", "fall", "encounter", "visit", "sejour", "ingreso"),
    "lab": ("lab", "result", "wert", "analys", "befund"),
    "order": ("order", "prescri", "medi", "verordn", "drug", "arznei", "rezept"),
    "diagnosis": ("diag", "icd"),
    "procedure": ("proc", "ops", "operation", "eingriff"),
    "culture": ("micro", "mikro", "cultur", "kultur"),
    "transfer": ("transfer", "verleg", "ward", "station"),
    "note": ("note", "letter", "brief", "arztbrief", "report", "text"),
}


def role_lines(looks: Sequence[FileLook], keys: Collection[str | None]) -> Iterator[str]:
    """Yield the candidates' lines, commented out."""
    yield "# Roles: what tasks ask by (docs/roles.md). Candidates by name; take the # away where one is right."
    for role, words in _WORDS.items():
        fit = [look for look in looks if any(word in look.name for word in words)]
        if fit:
            yield f"# [roles.{role}]   # {ROLES[role]}"
            yield from (f"# {line}" for line in _role(role, fit[0], keys))


def _role(role: str, look: FileLook, keys: Collection[str | None]) -> Iterator[str]:
    yield f'table = "{look.name}"'
    if role == "admission":
        yield f'id = "{look.columns[0].name}"'
        yield from (f'start = "{name}"' for name in look.times[:1])
        yield from (f'ends = ["{name}"]' for name in look.times[1:2])
        return
    names = [column.name for column in look.columns if column.name not in keys and _may_name(column)]
    yield f'label = "{names[0] if names else "COLUMN"}"'
    yield from (f'time = "{name}"' for name in look.times[:1])
    numbers = [column.name for column in look.columns if column.kind == "float"]
    if role == "lab":
        yield from (f'value = "{name}"' for name in numbers[:1])
        yield from (f'unit = "{name}"' for name in names[1:2])


def _may_name(column: ColumnLook) -> bool:
    """Whether a column may name what a row says: words that come again."""
    return column.kind == "text" and not column.is_unique and any(cell[:1].isalpha() for cell in column.cells)
