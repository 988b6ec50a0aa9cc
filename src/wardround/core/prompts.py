"""Prompt files: strict templates next to the room that uses them, named, versioned and hashed into the run.

A template's first line may be ``{# version: 3 #}``. A missing variable is an error, never an empty string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

import jinja2

from wardround.core.errors import UserError
from wardround.core.ids import content_hash

_VERSION = re.compile(r"\{#\s*version:\s*(\d+)\s*#\}")
_ENVIRONMENT = jinja2.Environment(
    undefined=jinja2.StrictUndefined,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    """One template: ``name`` (``room/file``), ``version``, ``sha256`` of its source."""

    name: str
    version: int
    sha256: str
    template: jinja2.Template = field(repr=False, compare=False)

    def render(self, **values: object) -> str:
        """Fill the template; raises jinja2.UndefinedError when a variable is missing."""
        return self.template.render(**values).strip()


_WRITTEN: dict[tuple[str, str], str] = {}


def add_prompt(package: str, name: str, source: str) -> None:
    """Make a text the template of a name, where a module has no ``prompts`` folder: a plug-in that is one file."""
    _WRITTEN[package, name] = source
    load_prompt.cache_clear()


@cache
def load_prompt(package: str, name: str) -> PromptFile:
    """Load ``prompts/<name>.jinja`` of a package, for example ``load_prompt("wardround.agents", "react_system")``.

    UserError: there is none.
    """
    source = _WRITTEN.get((package, name))
    if source is None:
        try:
            source = resources.files(package).joinpath("prompts", f"{name}.jinja").read_text(encoding="utf-8")
        except (ImportError, TypeError, OSError):  # of a module that is one file Python says TypeError
            raise UserError(
                f"{package} has no prompt {name!r}: neither a file prompts/{name}.jinja nor "
                f"add_prompt(__name__, {name!r}, ...)"
            ) from None
    version = _VERSION.search(source)
    return PromptFile(
        name=f"{package.removeprefix('wardround.')}/{name}",
        version=int(version.group(1)) if version else 1,
        sha256=content_hash(source),
        template=_ENVIRONMENT.from_string(source),
    )
