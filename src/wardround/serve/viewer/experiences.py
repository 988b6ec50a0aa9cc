"""The experiences that an episode was served and why, as its runtime noted them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.log import Note

Title = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedExperience:
    """One experience: its name, why it came, and what became of it (shown, masked by a coin, kept back, no room)."""

    id: str
    kind: str
    title: str
    why: str
    became: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """All of an episode, and how many were kept back by the bank's guards, by reason."""

    served: tuple[ServedExperience, ...]
    withheld: Mapping[str, int]
    revision: int | None


def serving_of(notes: Sequence[Note], title: Title) -> Serving | None:
    """Return what an episode was served; None where it asked no bank."""
    asked = [note.detail for note in notes if note.kind == "experiences"]
    if not asked:
        return None
    no_room = {name for note in notes if note.kind == "experiences_left_out" for name in note.detail["left_out"]}
    withheld: dict[str, int] = {}
    for detail in asked:
        for reason, number in detail.get("withheld", {}).items():
            withheld[reason] = withheld.get(reason, 0) + number
    return Serving(
        served=tuple(one for detail in asked for one in served_by(detail, no_room, title)),
        withheld={reason: number for reason, number in withheld.items() if number},
        revision=next((detail["bank_revision"] for detail in asked if "bank_revision" in detail), None),
    )


def served_by(
    detail: Mapping[str, Any], no_room: Collection[str] = (), title: Title = str
) -> Iterator[ServedExperience]:
    """Yield the experiences of one note: those served, those masked by a coin, those that the case kept back."""
    kind = str(detail.get("kind", ""))
    for one in detail.get("served", ()):
        name = str(one["id"])
        became = "no room in the prompt" if name in no_room else "shown"
        yield _served(name, str(one.get("kind", kind)), title, became, _why(one))
    for name in detail.get("masked", ()):
        yield _served(name, kind, title, "masked by a coin")
    for name, reason in detail.get("barred", {}).items():
        yield _served(name, "", title, "kept back", str(reason))


def _served(name: str, kind: str, title: Title, became: str, why: str = "") -> ServedExperience:
    return ServedExperience(id=name, kind=kind, title=title(name) or name, why=why, became=became)


def _why(one: Mapping[str, Any]) -> str:
    """Why it came: in words where there are any, with what stood against it or could not be checked."""
    parts = [str(one["why"])] if one.get("why") else []
    if one.get("similarity") is not None:
        parts.append(f"similarity {one['similarity']:.3f}")
    for name, said in (("conflicts", "conflicts with"), ("unchecked", "not checked on the chart:")):
        if one.get(name):
            parts.append(f"{said} {', '.join(map(str, one[name]))}")
    return "; ".join(parts)
