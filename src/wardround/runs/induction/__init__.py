"""Inducing a global protocol from training stays: what is counted, what becomes a rule, and what was planted."""

from wardround.runs.induction.growing import InductionSettings
from wardround.runs.induction.inducing import induce_protocol

__all__ = ["InductionSettings", "induce_protocol"]
