"""The optional packages, imported when first used; a missing one is one clear line."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any

from wardround.core import import_extra

_PACKAGES = ("scikit-learn", "lightgbm", "scipy", "numpy")


def optional(module: str) -> Any:
    """Import a module of the extra [predictors]."""
    return import_extra(module, "predictors", what="a predictor")


def missing_packages() -> tuple[str, ...]:
    """Which packages of the extra [predictors] are not installed; nothing is imported."""
    modules = {"scikit-learn": "sklearn", "lightgbm": "lightgbm"}
    return tuple(package for package, module in modules.items() if importlib.util.find_spec(module) is None)


def package_versions() -> dict[str, str]:
    """Versions of what the fitted numbers depend on, for the manifest."""
    for module in ("sklearn", "lightgbm"):
        optional(module)
    return {name: importlib.metadata.version(name) for name in _PACKAGES}
