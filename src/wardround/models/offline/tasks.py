"""The six plans, by how the task's candidate table is called."""

from __future__ import annotations

from wardround.models.offline import diagnoses
from wardround.models.offline.journey import PROCEDURES, TRANSFERS
from wardround.models.offline.orders import LABEVENTS, MICROBIOLOGY, PRESCRIPTIONS
from wardround.models.offline.steps import Plan

PLANS = {plan.task: plan for plan in (diagnoses.PLAN, LABEVENTS, MICROBIOLOGY, PRESCRIPTIONS, PROCEDURES, TRANSFERS)}


def plan_for(space: str) -> Plan:
    """Return the plan for a candidate table; that of the diagnoses if the name is none of the six."""
    return next((plan for task, plan in PLANS.items() if space.startswith(task)), diagnoses.PLAN)
