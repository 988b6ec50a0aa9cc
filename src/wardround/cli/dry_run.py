"""``wardround run --dry-run``: what a run would take, without a call to a model and without a run folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from wardround.cli.json_output import print_json
from wardround.cli.table import print_rows
from wardround.core import UserError
from wardround.runs import RunFolder, RunSettings
from wardround.runs.forecast import Bounds, Forecast, forecast
from wardround.runs.preparing import prepare

_BUDGETS = (
    "From budgets, a range is from one call with an empty reply to the turn limit and a forced last call, each with a "
    "full context and the longest reply. Calls beside the turns (summaries, queries, reflections, further trials) and "
    "calls that are tried again come on top. --like RUN takes the means of an earlier run instead."
)
_LIKE = (
    "From an earlier run: the means of its episodes of the same agent that no error ended; other tasks, models and "
    "budgets have other means."
)


def add_dry_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    group = parser.add_argument_group("what it would take")
    group.add_argument("--dry-run", action="store_true", help="say tokens, cost and hours; no model is called")
    group.add_argument(
        "--like", type=Path, metavar="RUN", help="with --dry-run: as an earlier run of the same agents went"
    )


def dry_run(arguments: argparse.Namespace, asked: Mapping[str, Any]) -> int:
    """Forecast and print."""
    if arguments.resume:
        raise UserError("--dry-run is of a new run; leave --resume out")
    settings = RunSettings.read(asked)
    if not settings.run.benchmark:
        raise UserError("a dry run needs --benchmark, and --store where its questions are about charts")
    like = RunFolder.open(arguments.like) if arguments.like else None
    found = forecast(prepare(settings), like)
    at_once = min(arguments.workers * arguments.concurrency, sum(one.episodes for one in found))
    if arguments.json:
        print_json({"forecasts": found, "at_once": at_once, "assumes": _assumed(found)})
    else:
        _print(found, at_once)
    return 0


def _print(found: Sequence[Forecast], at_once: int) -> None:
    header = ("agent", "model", "episodes", "first prompt", "schemas", "from", "calls", "tokens in", "tokens out")
    print_rows((*header, "US dollars", "hours"), [_row(one) for one in found])
    costs, hours = [one.cost for one in found], [one.hours for one in found]
    print(
        f"all {sum(one.episodes for one in found):,} episodes: {_total(costs, 4)} US dollars, {_total(hours, 2)} hours"
    )
    samples = found[0].first_prompt.samples
    print(
        f"first prompts: mean tokens of whatever call comes first, over {samples} samples, by the loop's own estimate"
    )
    print(
        f"hours: one call after another; up to {at_once:,} episodes are played at once, so as little as 1/{at_once:,}"
    )
    if None in costs:
        print("cost: unknown without a price: --set model.price=INPUT,OUTPUT (US dollars per million tokens)")
    if None in hours:
        print("hours: unknown without an earlier run; name one with --like RUN")
    print("\n".join(_assumed(found)))


def _assumed(found: Sequence[Forecast]) -> list[str]:
    bases = {one.basis for one in found}
    return [text for basis, text in (("budgets", _BUDGETS), ("earlier run", _LIKE)) if basis in bases]


def _row(one: Forecast) -> tuple[str, ...]:
    prompts = one.first_prompt
    tokens = (f"{prompts.message_tokens:,.0f}", f"{prompts.schema_tokens:,.0f}")
    taken = (_told(one.calls, 0), _told(one.input_tokens, 0), _told(one.output_tokens, 0))
    return (
        one.agent,
        one.model,
        f"{one.episodes:,}",
        *tokens,
        one.basis,
        *taken,
        _told(one.cost, 4),
        _told(one.hours, 2),
    )


def _told(bounds: Bounds | None, digits: int) -> str:
    if bounds is None:
        return "unknown"
    least, most = f"{bounds.least:,.{digits}f}", f"{bounds.most:,.{digits}f}"
    return least if least == most else f"{least} to {most}"


def _total(some: Sequence[Bounds | None], digits: int) -> str:
    known = [one for one in some if one is not None]
    return _told(reduce(add, known) if len(known) == len(some) else None, digits)
