"""Bundles: what became known of a subject hour by hour, the decisions to predict, and the state after each (TRACE).

Computed from a chart or a store alone (section 4 of the paper), without a model.
"""

from __future__ import annotations

from wardround.clinical.bundles.batch import BatchStates, batch_states, bundle_texts, encounters
from wardround.clinical.bundles.events import (
    ActionType,
    Bundle,
    BundleEvent,
    BundleEvents,
    BundleStream,
    EventKind,
    ValueLevel,
)
from wardround.clinical.bundles.files import bundles_of, store_bundles, subject_bundles
from wardround.clinical.bundles.fold import fold, states
from wardround.clinical.bundles.reading import NOTHING_KNOWN, Carried, carried_by
from wardround.clinical.bundles.state import (
    ActiveMedication,
    ActiveProblem,
    DoneAction,
    KnownAllergy,
    PatientState,
    StateChange,
    StateEncounter,
    StateLimits,
    Trend,
    TrendReading,
    event_of,
    stream_of,
)
from wardround.clinical.bundles.targets import StepTargets, Targets, step_targets, untimed_types
from wardround.clinical.bundles.text import BASELINE_RISE, bundle_text, event_text

__all__ = [
    "BASELINE_RISE",
    "NOTHING_KNOWN",
    "ActionType",
    "ActiveMedication",
    "ActiveProblem",
    "BatchStates",
    "Bundle",
    "BundleEvent",
    "BundleEvents",
    "BundleStream",
    "Carried",
    "DoneAction",
    "EventKind",
    "KnownAllergy",
    "PatientState",
    "StateChange",
    "StateEncounter",
    "StateLimits",
    "StepTargets",
    "Targets",
    "Trend",
    "TrendReading",
    "ValueLevel",
    "batch_states",
    "bundle_text",
    "bundle_texts",
    "bundles_of",
    "carried_by",
    "encounters",
    "event_of",
    "event_text",
    "fold",
    "states",
    "step_targets",
    "store_bundles",
    "stream_of",
    "subject_bundles",
    "untimed_types",
]
