"""Experiments as files: a TOML file of settings, and single settings written as ``name=value``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from wardround.core import (
    SettingField,
    UserError,
    choices_of,
    leaves,
    library_of,
    load_plugins,
    read_toml,
    refuse_unknown,
)
from wardround.core.settings import flat, merged, nested
from wardround.models import NamedModel
from wardround.runs.settings import AGENT, LIMITS, RunSettings, agent_classes, all_leaves

_PATHS = ("folder", "file", "files")
"""Units of settings whose value is a path: in a file, it begins where the file lies."""
_MODELS = "models"


def every_setting() -> list[SettingField]:
    """List every setting there is, those of all registered methods too, in the order of the tree."""
    return all_leaves(RunSettings(), agent_classes())


def read_experiment(path: Path) -> dict[str, Any]:
    """Return the nested tables of an experiment file, with its plug-ins imported. Paths in it become absolute."""
    if path.suffix != ".toml":  # what it is is not repeated: it may be a key that lost its option
        raise UserError("an experiment is a TOML file, such as experiment.toml; an option's value follows its option")
    return experiment_of(read_toml(path), path)


def experiment_of(body: dict[str, Any], path: Path, where: str = "") -> dict[str, Any]:
    """Return the nested tables of settings that stand in a file, ``where`` in it, as :func:`read_experiment` does."""
    place = f"{path}: {where}" if where else str(path)
    refuse_unknown(body, RunSettings.__dataclass_fields__, place)
    for leaf in every_setting():
        section, _, name = leaf.name.rpartition(".")
        table = body.get(section)
        if leaf.setting.unit in _PATHS and isinstance(table, dict) and table.get(name):
            table[name] = _beside(path, table[name])
    load_plugins(body.get("run", {}).get("plugins", ()))
    RunSettings.read(body, place)
    return body


def read_assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Return the nested tables of settings such as ``agent.retrosum.window=5``; UserError names the nearest name."""
    known = {leaf.name: leaf for leaf in every_setting()}
    body: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise UserError(f"{text!r} sets nothing; write --set NAME=VALUE, for example --set budget.turns=20")
        leaf = known.get(name) or _named_model(name) or _entry(name, known)
        if leaf is None and not name.startswith(f"{AGENT}."):
            refuse_unknown([name], known, "--set")
        body = merged(body, nested({name: read_value(value, leaf.kind if leaf else None, name)}))
    return body


def _named_model(name: str) -> SettingField | None:
    """``models.NAME.base_url`` and the like."""
    section, _, rest = name.partition(".")
    which, _, field = rest.rpartition(".")
    if section != _MODELS or not which:
        return None
    return next((leaf for leaf in leaves(NamedModel(name="-")) if leaf.name == field), None)


def _entry(name: str, known: Mapping[str, SettingField]) -> SettingField | None:
    """One entry of a setting that is a table of values: ``memory.banks.mem0``."""
    table = next((leaf for leaf in known.values() if name.startswith(f"{leaf.name}.") and _is_table(leaf)), None)
    return None if table is None else replace(table, name=name, kind=get_args(table.kind)[1])


def _is_table(leaf: SettingField) -> bool:
    return get_origin(leaf.kind) is Mapping


def read_value(text: str, kind: Any, name: str) -> Any:
    """Read a value as its setting asks: text as it stands, lists in brackets or with commas, the rest as TOML."""
    plain = [part for part in get_args(kind) if part is not NoneType]
    if NoneType in get_args(kind) and text == "none":
        return None
    if kind is str or choices_of(kind) or plain == [str]:
        return text.strip("\"'")
    if get_origin(kind) is tuple and not text.startswith("["):
        return [read_value(part.strip(), get_args(kind)[0], name) for part in text.split(",") if part.strip()]
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        if kind is None:
            return text
        raise UserError(f"--set {name}: {text!r} is no value for it") from None


def _beside(path: Path, value: Any) -> Any:
    if isinstance(value, list):
        return [_beside(path, one) for one in value]
    if isinstance(value, dict):
        return {name: _beside(path, one) for name, one in value.items()}
    return str((path.parent / value).resolve()) if isinstance(value, str) else value


def with_own_corpora(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the user's own folder of corpora, where it exists and no other is named."""
    library = library_of(None)
    return merged({} if library is None else {"knowledge": {"library": library}}, asked)


def refuse_other_settings(asked: Mapping[str, Any], settled: RunSettings) -> None:
    """Raise UserError where what is asked for is not what a run was begun with; plug-ins are compared by their hash,
    and limits (``run.max_cost``, ``run.executor``) may differ."""
    held = flat(settled.to_json())
    wanted = flat(RunSettings.read(merged(settled.to_json(), asked)).resolved().to_json())
    free = ("run.plugins", *LIMITS)
    other = [name for name, value in wanted.items() if held.get(name) != value and name not in free]
    if other:
        have = ", ".join(f"{name} = {held.get(name)!r}" for name in other)
        raise UserError(f"a run goes on with its own settings ({have}); leave those out, or start a new run with --out")
