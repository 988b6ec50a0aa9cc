"""Names with a part that is the user's own: ``openai/qwen3-4b``, ``replay:run-1``, ``lexical/512``.

Such a name is ``<backend>``, ``<backend>/<rest>`` or ``<backend>:<rest>``; the backend is what is registered, and it
declares in ``takes`` which of these it is (``/<name>``, ``:<folder>``, nothing).
"""

from __future__ import annotations

import re
from typing import Protocol, TypeVar

from wardround.core.errors import UserError
from wardround.core.registry import Registry

_FIRST_SEPARATOR = re.compile(r"[/:]")


class Backend(Protocol):
    """What such a registry holds. ``rest_optional``: the name alone is enough."""

    @property
    def name(self) -> str:
        """The registered name."""
        ...

    @property
    def takes(self) -> str:
        """The separator and what comes after it, for people: ``/<name>``; empty where nothing comes."""
        ...

    @property
    def rest_optional(self) -> bool:
        """Whether the part after the separator may be left out."""
        ...


B = TypeVar("B", bound=Backend)


def find_backend(registry: Registry[B], text: str) -> tuple[B, str]:
    """Return what a name's backend is and the rest of the name; UserError says what is known, or how it is spelt."""
    found = _FIRST_SEPARATOR.search(text)
    name, rest = (text[: found.start()], text[found.end() :]) if found else (text, "")
    backend = registry.get(name)
    separator = found.group() if found else ""
    spelt_right = separator == backend.takes[:1] and bool(rest) if separator else backend.rest_optional
    if not spelt_right and not (text == backend.name and not backend.takes):
        raise UserError(f"the {registry.one} {text!r} is spelt {spelling(backend)}")
    return backend, rest


def spelling(backend: Backend) -> str:
    """Return how a name of this backend is written."""
    return f"{backend.name}[{backend.takes}]" if backend.rest_optional else backend.name + backend.takes
