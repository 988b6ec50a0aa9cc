"""Chat templates for training, and the same text for serving: servers do not know the marks of what is learnt."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from wardround.core import UserError

_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
_VERSION = re.compile(r"\A\{#\s*version:\s*\d+\s*#\}\n")
OURS = ("wardround_compact",)
"""Templates that come with wardround: ``wardround_compact`` lists a tool in one line, for small windows."""


def training_template(name: str) -> str:
    """Return the source of one of our templates by its name, or of a file; UserError where it marks nothing."""
    text = _source(name)
    if not _GENERATION.search(text):
        raise UserError(f"the template {name!r} has no {{% generation %}}: nothing says what the model is to learn")
    return text


def serving_template(text: str) -> str:
    """Return a training template without its marks: the same text of the same messages.

    >>> serving_template("a{%- generation %}b{% endgeneration -%} c")
    'a{%- if true %}b{% endif -%} c'
    """
    return _GENERATION.sub(_as_condition, text)


def _as_condition(mark: re.Match[str]) -> str:
    """A condition that always holds, so that white space is trimmed as it was."""
    return mark.group().replace("endgeneration", "endif").replace("generation", "if true")


def _source(name: str) -> str:
    if name in OURS:
        return _VERSION.sub("", resources.files("wardround.training").joinpath("prompts", f"{name}.jinja").read_text())
    if not Path(name).is_file():
        raise UserError(f"there is no template {name!r}; ours: {', '.join(OURS)}; or give a file")
    return Path(name).read_text(encoding="utf-8")
