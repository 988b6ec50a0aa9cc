"""Names of settings: dotted ones into nested tables, and short ones into dotted ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from wardround.core import SettingField, UserError, leaves, refuse_unknown

AGENT = "agent"


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables with what the second says put over the first."""
    both = dict(below)
    for name, value in above.items():
        held = both.get(name)
        both[name] = merged(held, value) if isinstance(held, Mapping) and isinstance(value, Mapping) else value
    return both


def nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables of dotted names: ``{"budget.turns": 3}`` is ``{"budget": {"turns": 3}}``."""
    body: dict[str, Any] = {}
    for name, value in dotted.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        body = merged(body, value)
    return body


def flat(body: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Inverse of :func:`nested`; an empty table is left out."""
    found: dict[str, Any] = {}
    for name, value in body.items():
        inner = flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
        found |= inner
    return found


def all_leaves(tree: Any, agents: Mapping[str, type]) -> list[SettingField]:
    """List every setting there is: those of the tree's sections, and those of the methods."""
    found = [leaf for leaf in leaves(tree) if leaf.name.partition(".")[0] not in (AGENT, "models") and "." in leaf.name]
    for name, section in agents.items():
        found += leaves(section, f"{AGENT}.{name}.")
    return found


def by_short_names(named: Mapping[str, Any], tree: Any, agents: Mapping[str, type]) -> dict[str, Any]:
    """Return nested tables for settings given by the last part of their names, or by the name of a section."""
    sections = {one.name for one in fields(tree)}
    places: dict[str, list[str]] = {}
    for leaf in all_leaves(tree, agents):
        places.setdefault(leaf.name.rpartition(".")[2], []).append(leaf.name)
    refuse_unknown(named, (*places, *sections), "settings")
    body: dict[str, Any] = {}
    for name, value in named.items():
        held = _table(value)
        if name in sections and isinstance(held, Mapping):
            body = merged(body, {name: held})
        else:
            body = merged(body, nested(dict.fromkeys(_meant(name, places[name]), held)))
    return body


def _meant(name: str, places: Iterable[str]) -> list[str]:
    """Return the settings that a short name stands for: that of the run, the outermost one, or that of every method."""
    own = [place for place in places if place.startswith(f"{AGENT}.")]
    others = [place for place in places if place not in own]
    outer = [place for place in others if place.count(".") == min(other.count(".") for other in others)]
    if f"run.{name}" in outer:
        return [f"run.{name}"]
    if len(outer) > 1 or (outer and own):
        raise UserError(f"{name!r} is the name of several settings: {', '.join((*outer, *own))}; write one in full")
    return outer or own


def _table(value: Any) -> Any:
    """A section as a table, everything else as it is."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: _table(one) for name, one in value.items()}
    return value
