"""TRACE's roles in code over whole stores: what rules ask of every bundle, as columns, and the steps they come to."""

from wardround.agents.stays.batch.facts import BatchFacts
from wardround.agents.stays.batch.steps import BatchSteps, StepsTable, batch_steps, holding

__all__ = [
    "BatchFacts",
    "BatchSteps",
    "StepsTable",
    "batch_steps",
    "holding",
]
