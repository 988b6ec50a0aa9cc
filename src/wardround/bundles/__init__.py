"""Bundles: what became known of a subject, hour by hour, the decisions to foretell, and the state that follows (TRACE).

A deterministic map from a chart or a store (section 4 of the paper). Nothing here reads a model.
"""

from wardround.bundles.batch import BatchStates, batch_states, encounters
from wardround.bundles.batch_text import bundle_texts
from wardround.bundles.building import event_of, stream_of
from wardround.bundles.bundling import bundles_of, store_bundles, subject_bundles
from wardround.bundles.carried import NOTHING_KNOWN, Carried, carried_by
from wardround.bundles.events import Bundle, BundleEvent, BundleEvents, BundleStream
from wardround.bundles.fold import fold, states
from wardround.bundles.kinds import ActionType, EventKind, ValueLevel
from wardround.bundles.levels import BASELINE_RISE
from wardround.bundles.state import (
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
)
from wardround.bundles.targets import StepTargets, Targets, step_targets, untimed_types
from wardround.bundles.text import bundle_text, event_text

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
