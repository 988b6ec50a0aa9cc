"""Fill the checklist of a reporting guideline with facts that a run recorded; the rest is left to the authors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.core import Registry, UserError, private_folder, read_toml, refuse_unknown, write_atomically
from wardround.core.table import Table, as_markdown

_ITEM_KEYS = ("number", "section", "asks", "facts", "author")
_HEADER = ("item", "section", "what it asks", "from the run", "left to the authors")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistItem:
    """One item: its ``number`` in the guideline, what it ``asks`` (in our words), the ``facts`` of a run that answer
    it, and what only an ``author`` can answer."""

    number: str
    section: str
    asks: str
    facts: tuple[str, ...]
    author: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checklist:
    """A guideline. ``citation``: where it was published; ``note``: a remark on its numbers."""

    title: str
    citation: str
    note: str
    items: tuple[ChecklistItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledItem:
    """An item with the run's answer and the part left to the authors; either may be empty."""

    item: ChecklistItem
    answer: str
    author: str


def _read(file: Path) -> Checklist:
    body = read_toml(file)
    items = []
    for one in body["items"]:
        refuse_unknown(one, _ITEM_KEYS, str(file))
        items.append(ChecklistItem(**one | {"facts": tuple(one["facts"])}))
    return Checklist(title=body["title"], citation=body["citation"], note=body["note"], items=tuple(items))


CHECKLISTS: Registry[Checklist] = Registry("checklists", one="checklist", of=Checklist, title=lambda one: one.title)
for _file in sorted(Path(__file__).parent.glob("*.toml")):
    CHECKLISTS.add(_file.stem, _read(_file))


def fill_checklist(checklist: Checklist, facts: Mapping[str, str]) -> list[FilledItem]:
    """Return the items with their answers. A fact that the run does not have is left to the authors by name."""
    filled = []
    for item in checklist.items:
        answer = " ".join(facts[name] for name in item.facts if name in facts)
        lacking = [name for name in item.facts if name not in facts]
        notes = [item.author] if item.author else []
        notes += [f"The run does not record: {', '.join(lacking)}."] if lacking else []
        filled.append(FilledItem(item=item, answer=answer, author=" ".join(notes)))
    return filled


def checklist_table(checklist: Checklist, filled: Sequence[FilledItem]) -> Table:
    """Return a filled checklist as a table."""
    return Table(
        header=_HEADER,
        rows=[(one.item.number, one.item.section, one.item.asks, one.answer or "–", one.author) for one in filled],
        kinds=["text" for _ in _HEADER],
        caption=checklist.title,
        note=f"{checklist.citation} {checklist.note} Filled from the run's manifest and log: check every line.",
    )


def write_checklist(name: str, facts: Mapping[str, str], folder: Path) -> tuple[Path, str]:
    """Fill a checklist and write it as ``NAME.md``; return the file, and how many items are answered.

    UserError: no such checklist.
    """
    if name not in CHECKLISTS:
        raise UserError(f"no checklist {name!r}; there are {', '.join(CHECKLISTS.names)}")
    checklist = CHECKLISTS.get(name)
    private_folder(folder)
    file = folder / f"{name}.md"
    filled = fill_checklist(checklist, facts)
    write_atomically(file, as_markdown(checklist_table(checklist, filled)), durable=False)
    answered, whole = (
        sum(map(bool, some)) for some in zip(*((one.answer, not one.author) for one in filled), strict=True)
    )
    return file, f"{answered} of {len(filled)} items answered by the run, {whole} of them completely"
