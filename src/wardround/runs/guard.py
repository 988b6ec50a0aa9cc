"""The data-use guard of a run: which endpoints its store's records may be sent to."""

from __future__ import annotations

from wardround.models import DataUseGuard
from wardround.records import Store
from wardround.runs.settings import RunSettings


def data_use_guard(settings: RunSettings, store: Store) -> DataUseGuard:
    """Return the guard for everything a run sends anywhere: prompts to models, chart texts to encoders."""
    return DataUseGuard(sensitivity=store.spec.sensitivity, permitted=settings.run.permitted_endpoints)
