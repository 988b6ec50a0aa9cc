"""The libraries behind this room, imported when first needed: importing wardround must not pay for them."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from wardround.core import UserError, how_to_install


def needed(module: str) -> Any:
    """Import a module of the extra [imaging]. UserError says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise UserError(f"images need {name}, of the extra [imaging]: {how_to_install('imaging')}") from error


@cache
def pydicom() -> Any:
    """pydicom, told not to judge the headers of foreign files: what we use of them is checked here."""
    module = needed("pydicom")
    module.config.settings.reading_validation_mode = module.config.IGNORE
    return module
