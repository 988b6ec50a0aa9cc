"""Texts and steps of a whole store as a table: a row per bundle, beside the events and targets of ``write_bundles``."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from wardround.agents.stays.batch.steps import batch_steps
from wardround.agents.stays.coded import CodedRoles
from wardround.bundles import BundleStream, bundle_texts
from wardround.bundles.events import HOUR
from wardround.core import canonical_json

STEPS = pa.schema(
    [("subject_id", pa.int64()), ("hour", pa.timestamp("us")), ("text", pa.string()), ("step", pa.string())]
)
"""``text``: the bundle in words; ``step``: what the roles foretell after it, the rules, and the audit, as JSON."""


@dataclass(frozen=True, slots=True)
class StepsTable:
    """The table ``steps`` of a store under one protocol."""

    roles: CodedRoles
    name: str = "steps"
    schema: pa.Schema = STEPS

    def of(self, stream: BundleStream) -> pa.Table:
        """Return the rows of some subjects."""
        columns = {
            "subject_id": pa.array(stream.subjects),
            "hour": pa.array((stream.hours * HOUR).view("datetime64[us]"), pa.timestamp("us")),
            "text": pa.array(bundle_texts(stream), pa.string()),
            "step": pa.array([canonical_json(step.to_json()) for step in batch_steps(stream, self.roles)], pa.string()),
        }
        return pa.table(columns, schema=STEPS)
