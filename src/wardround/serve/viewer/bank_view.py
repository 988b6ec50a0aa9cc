"""What the pages of a bank show: its graph, its experiences page by page, and one experience with its past."""

from __future__ import annotations

from collections import Counter
from typing import Any

from wardround.memory.edges import RELATIONS
from wardround.runs.pages import episode_page
from wardround.runs.summary import contender
from wardround.serve.viewer.bank_drawing import SIZE, draw_bank, draw_neighbours
from wardround.serve.viewer.episode_view import bank_or_reason
from wardround.serve.viewer.viewed_bank import ViewedBank
from wardround.serve.viewer.viewed_run import NotThere, ViewedRun

ROWS = 100
"""Experiences of one page, and the most feedback, neighbours and episodes that the page of one lists."""


def bank_of(run: ViewedRun) -> ViewedBank:
    """Return the bank of a run. NotThere: it had none, or its file is gone."""
    bank = bank_or_reason(run)
    if not isinstance(bank, ViewedBank):
        raise NotThere(bank or f"the run {run.name!r} read no bank")
    return bank


def bank_pages(bank: ViewedBank) -> int:
    """How many pages list a bank's experiences, at least one."""
    return max(1, -(-len(bank.experiences) // ROWS))


def bank_view(run: ViewedRun, number: int) -> dict[str, Any]:
    """Return what a page of the bank shows, from 1; the graph stands on the first. NotThere: no such page."""
    bank = bank_of(run)
    pages = bank_pages(bank)
    if not 1 <= number <= pages:
        raise NotThere(f"the bank has {pages} pages, not {number}")
    ranked = sorted(bank.experiences, key=lambda name: (name not in bank.live, -(bank.qualities[name] or 0.0), name))
    relations = Counter(edge.relation for edge in bank.edges)
    return {
        "run": run,
        "bank": bank,
        "graph": draw_bank(bank) if number == 1 and bank.edges else None,
        "side": SIZE,
        "relations": {name: relations[name] for name in RELATIONS},
        "kinds": Counter(one.kind for one in bank.experiences.values()),
        "rows": [bank.experiences[name] for name in ranked[(number - 1) * ROWS : number * ROWS]],
        "number": number,
        "pager": [(str(n), "index.html" if n == 1 else f"index-{n}.html") for n in range(1, pages + 1)],
    }


def experience_view(run: ViewedRun, name: str) -> dict[str, Any]:
    """Return what the page of an experience shows. NotThere: the bank has none of that id."""
    bank = bank_of(run)
    if name not in bank.experiences:
        raise NotThere(f"the bank has no experience {name!r}")
    served = run.served_in.get(name, ())
    edges = bank.edges_of[name]
    return {
        "run": run,
        "bank": bank,
        "one": bank.experiences[name],
        "past": bank.past(name),
        "graph": draw_neighbours(bank, name) if edges else None,
        "side": SIZE,
        "edges": edges[:ROWS],
        "served": [(run.by_episode[key], one) for key, one in served[:ROWS] if key in run.by_episode],
        "served_in_all": len(served),
        "page": episode_page,
        "contender": contender,
        "rows": ROWS,
    }
