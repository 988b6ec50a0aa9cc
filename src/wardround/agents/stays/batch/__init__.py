"""TRACE's roles in code over whole stores: facts for rules after every bundle, as columns, and the resulting steps."""

from wardround.agents.stays.batch.facts import BatchFacts
from wardround.agents.stays.batch.steps import BatchSteps, StepsTable, batch_steps, holding

__all__ = [
    "BatchFacts",
    "BatchSteps",
    "StepsTable",
    "batch_steps",
    "holding",
]
