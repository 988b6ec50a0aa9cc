"""The libraries behind this room, imported when first needed: importing wardround must not pay for them."""

from __future__ import annotations

from functools import cache
from typing import Any

from wardround.core import import_extra


def needed(module: str) -> Any:
    """Import a module of the extra [imaging]. UserError says how to get it."""
    return import_extra(module, "imaging", what="work with images")


@cache
def pydicom() -> Any:
    """Return pydicom, configured not to validate the headers of files: the headers we use are checked here."""
    module = needed("pydicom")
    module.config.settings.reading_validation_mode = module.config.IGNORE
    return module
