"""Manifests of schema 1: the settings of a run as one flat table, read into the tree.

Such runs are still opened, reported, compared and finished; new ones are written in schema 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from wardround.retrieval import RetrievalSettings
from wardround.runs.names import nested
from wardround.runs.settings import RunSettings
from wardround.tools import AID_NAMES

_SUMMARISING = ("agent.retrosum", "agent.resum")
PLACES: Mapping[str, tuple[str, ...]] = {
    **{
        name: (f"run.{name}",)
        for name in (
            "benchmark",
            "store",
            "tasks",
            "split",
            "strata",
            "limit",
            "samples",
            "agents",
            "models",
            "epochs",
            "seed",
            "permitted_endpoints",
            "plugins",
            "tools",
            "context_policy",
        )
    },
    **{
        name: (f"model.{name}",)
        for name in ("base_url", "api_key_variable", "tool_calls", "price", "temperature", "top_p")
    },
    **{
        name: (f"budget.{name}",)
        for name in ("turns", "episode_seconds", "context_tokens", "result_tokens", "reply_tokens")
    },
    **{name: tuple(f"{section}.{name}" for section in _SUMMARISING) for name in ("window", "window_share")},
    "final_summary": tuple(f"{section}.final_summary" for section in _SUMMARISING),
    "trials": ("agent.reflexion.trials",),
    "candidates": ("agent.reflectool-cs.candidates",),
    "refinements": ("agent.reflectool-ir.refinements",),
    "bank": ("memory.bank",),
    "k": ("memory.k",),
    "advice": ("memory.advice",),
    "encoder": ("retrieval.encoder",),
    "encoder_url": ("retrieval.encoder_url",),
}
"""Where each setting of schema 1 is now; ``retrieval`` and ``aids`` are tables in both."""

_LATER = frozenset({"episode_seconds", "samples", "aids", "plugins", "tools", "context_policy"})
"""Settings that came while schema 1 was written, and mean when absent what was done before there were any."""
_RETRIEVAL_SINCE = ("encoder", "encoder_url", "candidate_encoder")


def tree_of_schema1(body: Mapping[str, Any]) -> RunSettings:
    """Return the tree that a flat table stands for. Raises UserError for a name that schema 1 did not have."""
    dotted = {
        place: value
        for name, value in body.items()
        for place in PLACES.get(name, (name,))
        if name not in ("retrieval", "aids")
    }
    dotted |= {f"retrieval.{name}": value for name, value in body.get("retrieval", {}).items()}
    said = body.get("aids", {})  # an aid that came later, or all of them, such a run went without
    dotted |= {f"aids.{name}": said.get(name, False) for name in (*AID_NAMES, *said)}
    return RunSettings.read(nested(dotted), "settings of schema 1")


def unsaid_in_schema1(body: Mapping[str, Any]) -> list[str]:
    """Name the settings that what was written does not say: today's defaults are not what such a run began with."""
    missing = sorted(set(PLACES) - set(body) - _LATER)
    wanted = {one.name for one in fields(RetrievalSettings)} - set(_RETRIEVAL_SINCE)
    inside = sorted(f"retrieval.{name}" for name in wanted - set(body.get("retrieval", {})))
    return missing or inside
