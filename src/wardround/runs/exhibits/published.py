"""The figures that the papers print, read off them: facts for comparison, never a target of a test."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def _printed() -> tuple[dict[str, str], ...]:
    text = files("wardround.runs.exhibits").joinpath("published.tsv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def published_figures(exhibit: str, model: str) -> Mapping[tuple[str, str, str], str]:
    """Return what a paper prints of one of its models, by agent, task (``all``: its average) and metric.

    The text is as printed: F1 of AgentEHR's tasks in 0..1, figures of classes in per cent.
    """
    return {
        (row["agent"], row["task"], row["metric"]): row["value"]
        for row in _printed()
        if row["exhibit"] == exhibit and row["model"] == model
    }


def published_models(exhibit: str) -> tuple[str, ...]:
    """Return the models of which a paper prints figures in a table."""
    return tuple(dict.fromkeys(row["model"] for row in _printed() if row["exhibit"] == exhibit))
