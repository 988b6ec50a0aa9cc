"""Inducing a global protocol from training stays: what is counted, what becomes a rule, and what a model proposes."""

from __future__ import annotations

from wardround.learning.induction.coded_reflector import InductionSettings
from wardround.learning.induction.inducing import induce_protocol
from wardround.learning.induction.model_reflector import (
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
