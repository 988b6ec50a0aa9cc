"""Inducing a global protocol from training stays: what is counted, what becomes a rule, and what a model proposes."""

from wardround.runs.induction.growing import InductionSettings
from wardround.runs.induction.inducing import induce_protocol
from wardround.runs.induction.model_reflector import (
    CALLS,
    INDUCTION,
    Reflection,
    ReflectionSettings,
    reflect_by_model,
)

__all__ = [
    "CALLS",
    "INDUCTION",
    "InductionSettings",
    "Reflection",
    "ReflectionSettings",
    "induce_protocol",
    "reflect_by_model",
]
