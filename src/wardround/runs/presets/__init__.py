"""Presets: what a paper publishes of its settings, as the start of a run's own. One file each, beside this one.

``wardround run --preset retrosum`` begins with them; what a person sets besides stands over them, and the manifest
names the preset, its hash and every setting that differs from it.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from wardround.core import Registry, UserError
from wardround.core.settings import merged, nested


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A paper's settings. ``body`` are nested tables of settings, ``sha256`` is of the file; ``differs`` lists what of
    the paper no setting can be set to, one thing each."""

    name: str
    title: str
    body: Mapping[str, Any]
    sha256: str
    differs: tuple[str, ...] = ()

    @classmethod
    def read(cls, name: str, text: str) -> Preset:
        """Read a preset's file: its ``title``, its settings under ``[settings...]``, names of those ``unset``, how
        it ``differs`` from the paper all the same."""
        try:
            found = tomllib.loads(text)
            title, settings = str(found["title"]), found["settings"]
            unset = nested(dict.fromkeys(found.get("unset", ())))
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise UserError(f"the preset {name!r} is no TOML with a title and [settings]: {error}") from error
        digest = hashlib.sha256(text.encode()).hexdigest()
        differs = tuple(str(one) for one in found.get("differs", ()))
        return cls(name=name, title=title, body=merged(settings, unset), sha256=digest, differs=differs)


PRESETS: Registry[Preset] = Registry("presets", one="preset", of=Preset)
"""By the names of the papers' systems."""


for _file in sorted(files(__name__).iterdir(), key=lambda file: file.name):
    if _file.name.endswith(".toml"):
        _name = _file.name.removesuffix(".toml")
        PRESETS.add(_name, Preset.read(_name, _file.read_text(encoding="utf-8")))
