"""The settings in a run's manifest, of whatever schema it is, and what it does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wardround.runs.names import flat
from wardround.runs.schema1 import tree_of_schema1, unsaid_in_schema1
from wardround.runs.settings import LIMITS, RunSettings

SCHEMA = 2
"""What is written; 1 is read too."""
READ = (1, SCHEMA)

_LATER = frozenset(
    {
        "model.presence_penalty",
        "model.pictures",
        "model.saw_data",
        "model.parameters",
        "images.source",
        "images.longest_edge",
        "images.authorization_variable",
        "images.models",
        "images.report_model",
        "images.report_url",
        "images.grounding_model",
        "images.grounding_url",
        "budget.forced_finish",
        "budget.steps",
        "agent.trace.unsure_by_shares",
        "scoring.equivalence",
        "run.toolset",
        "retrieval.candidate_encoder",
        "knowledge.egress",
        "knowledge.hosts",
        "knowledge.kept_pages_only",
        "knowledge.library",
        "knowledge.pages",
        "knowledge.provider",
        "knowledge.provider_key_variable",
        "knowledge.provider_url",
        "knowledge.published_until",
        "memory.key_tokens",
        "memory.max_items",
        "memory.max_reasoning_items",
        "memory.max_tool_items",
        "memory.reflection_temperature",
        "memory.reflection_tokens",
        "memory.bank_revision",
        "memory.gate",
        "memory.served_tokens",
        "memory.graph.bar_above",
        "memory.graph.retriever",
        "memory.evolution.quality",
        "memory.evolution.masked_share",
        "memory.evolution.decay",
        "memory.evolution.quality_rate",
        "memory.evolution.weight_rate",
        "memory.evolution.weight_reading",
        "memory.evolution.delta_baseline",
        "memory.evolution.insert",
        "memory.evolution.retest_share",
        "memory.evolution.half_life",
        "memory.evolution.together",
        "memory.evolution.snapshots",
        "scoring.judge",
        "scoring.judge_may_play",
        "scoring.judge_protocol",
        "scoring.judge_reasoning",
    }
)
"""Settings that came while schema 2 was written, and whose defaults are what was done before there were any."""


def settings_of(manifest: Mapping[str, Any]) -> RunSettings:
    """Return the tree that a manifest holds; UserError where it cannot be read."""
    body = manifest["settings"]
    return tree_of_schema1(body) if manifest["schema"] == 1 else RunSettings.read(body)


def unsaid_settings(manifest: Mapping[str, Any]) -> list[str]:
    """Name the settings that a manifest does not say: today's defaults are not what such a run began with."""
    if manifest["schema"] == 1:
        return unsaid_in_schema1(manifest["settings"])
    missing = set(flat(settings_of(manifest).to_json())) - set(flat(manifest["settings"])) - set(LIMITS)
    unsaid = {name for name in missing if _of_all_models(name) not in _LATER}
    return sorted(name for name in unsaid if not name.startswith("predictors."))  # they have a manifest of their own


def _of_all_models(name: str) -> str:
    """The setting of all models that one of a named model stands for: ``models.fast.top_p`` is ``model.top_p``."""
    return f"model.{name.rpartition('.')[2]}" if name.startswith("models.") else name
