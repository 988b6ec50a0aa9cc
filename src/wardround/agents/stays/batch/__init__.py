"""TRACE's roles in code over whole stores: what rules ask of every bundle, as columns, and the steps they come to."""

from wardround.agents.stays.batch.steps import BatchSteps, StepsTable, batch_steps

__all__ = ["BatchSteps", "StepsTable", "batch_steps"]
