"""The published networks that image tools work with (``known.toml``): nothing of them is shipped."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from wardround.core import UserError
from wardround.core.suggestions import unknown

ModelKind = Literal["classifier", "segmentation", "findings", "impression", "grounding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """One published network. ``labels`` are its outputs, in order; ``operating_points`` the sigmoid at which each calls
    a finding. ``architecture`` and ``size``, the side of the pictures it takes, are of those that are run here.
    ``seen`` are the collections of films it was trained on: scores on those say little."""

    name: str
    kind: ModelKind
    file: str
    published: str
    licence: str
    seen: tuple[str, ...]
    labels: tuple[str, ...]
    operating_points: tuple[float, ...] = ()
    architecture: Literal["densenet", "resnet", "pspnet", ""] = ""
    size: int = 0

    @property
    def is_graph(self) -> bool:
        """Whether it is run here, as a graph."""
        return self.kind in ("classifier", "segmentation")

    @property
    def address(self) -> str:
        """Where its file, or its folder, is published."""
        return self.published + self.file if self.is_graph else self.published


@cache
def known_models() -> Mapping[str, KnownModel]:
    """Return every published network by name, in the order to show them."""
    text = resources.files(__package__).joinpath("known.toml").read_text(encoding="utf-8")
    body = tomllib.loads(text)
    return {name: _model(name, one, body["sets"]) for name, one in body["models"].items()}


def _model(name: str, body: dict[str, object], sets: Mapping[str, str]) -> KnownModel:
    lists = {key: tuple(value) for key, value in body.items() if isinstance(value, list)}
    published = str(body["published"])
    return KnownModel(**{**body, **lists, "name": name, "published": sets.get(published, published)})  # type: ignore[arg-type]


def find_known(name: str) -> KnownModel:
    """Return a published network. UserError names the nearest."""
    known = known_models()
    if name not in known:
        raise UserError(unknown("imaging model", name, known))
    return known[name]
