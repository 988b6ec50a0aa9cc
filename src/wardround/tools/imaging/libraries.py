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
    """pydicom, told not to judge the headers of foreign files: what we use of them is checked here."""
    module = needed("pydicom")
    module.config.settings.reading_validation_mode = module.config.IGNORE
    return module
