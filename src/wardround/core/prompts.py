"""Prompt files: strict templates next to the package that uses them, named, versioned and hashed into the run.

A file's first line may be ``{# version: 3 #}``. A file is one template, or several as blocks of Jinja
(``{% block system %} ... {% endblock %}``), each named ``file.block``. A missing variable is an error, never an empty
string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
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
    """One template: ``name`` (``package/file``), ``version`` and ``sha256`` of its file, and its ``block`` in it."""

    name: str
    version: int
    sha256: str
    template: jinja2.Template = field(repr=False, compare=False)
    block: str = ""

    def render(self, **values: object) -> str:
        """Fill the template; raises jinja2.UndefinedError when a variable is missing."""
        if not self.block:
            return self.template.render(**values).strip()
        return "".join(self.template.blocks[self.block](self.template.new_context(values))).strip()


_WRITTEN: dict[tuple[str, str], str] = {}


def add_prompt(package: str, name: str, source: str) -> None:
    """Make a text the template of a name, where a module has no ``prompts`` folder: a plug-in that is one file."""
    _WRITTEN[package, name] = source
    load_prompt.cache_clear()


@cache
def load_prompt(package: str, name: str) -> PromptFile:
    """Load ``prompts/<name>.jinja`` of a package, ``load_prompt("wardround.agents", "react")``, or a block of the file:
    ``"reflexion.criticise"``.

    UserError: there is none.
    """
    file, _, block = name.partition(".")
    if block:
        prompt = load_prompt(package, file)
        if block not in prompt.template.blocks:
            raise UserError(f"{prompt.name}.jinja has no block {block!r}; it has {', '.join(prompt.template.blocks)}")
        return replace(prompt, block=block)
    source = _WRITTEN.get((package, file))
    if source is None:
        try:
            source = resources.files(package).joinpath("prompts", f"{file}.jinja").read_text(encoding="utf-8")
        except (ImportError, TypeError, OSError):  # of a module that is one file Python says TypeError
            raise UserError(
                f"{package} has no prompt {file!r}: neither a file prompts/{file}.jinja nor "
                f"add_prompt(__name__, {file!r}, ...)"
            ) from None
    version = _VERSION.search(source)
    return PromptFile(
        name=f"{package.removeprefix('wardround.')}/{file}",
        version=int(version.group(1)) if version else 1,
        sha256=content_hash(source),
        template=_ENVIRONMENT.from_string(source),
    )
