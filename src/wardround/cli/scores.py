"""Scores on the terminal: baseline card, comparisons, arms, judge notes, subgroups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from textwrap import fill

from wardround.core.table import as_text, columns_of, table_of
from wardround.learning import stages
from wardround.reports import Comparison, arm_table, subgroup_table
from wardround.reports.baseline_card import CardRow, card_table, figure_text
from wardround.reports.run_tables import DIFFERENCE_COLUMNS
from wardround.runs import RunFolder, open_benchmark
from wardround.runs.judging import JUDGEMENTS, unjudged
from wardround.tasks.scoring import ArmRow, SummaryRow
from wardround.tasks.scoring.judging import WORDS
from wardround.tasks.scoring.tables import ALL

# The baseline card in a terminal.


def print_card(rows: Sequence[CardRow], *, is_wide: bool = False) -> None:
    """Print the scores of trivial baselines, a row per task, the best of each marked.

    ``is_wide``: the best five existence baselines instead of one.
    """
    print("\nbaseline card: scores of trivial baselines on these samples (* the best of a task)")
    print(as_text(card_table(rows, "terminal")))
    for reason, names in _reasons(rows).items():
        print(fill(f"–: {reason} ({', '.join(names)})", 100))
    by_moment = [row for row in rows if row.by_moment]
    if by_moment:
        print("\nwithout reading: answers from the time of the question alone, or from which rows exist (over")
        print("the whole benchmark, fitted on training people; AUC, or F1 and its difference to the prior)")
    for row in by_moment:
        moment = f"{row.task}: the moment alone {figure_text(row.by_moment)}, mostly by {row.by_moment['most_by']}"
        best = sorted(row.by_existence, key=lambda baseline: -float(baseline["low"]))[: 5 if is_wide else 1]
        existence = [f"    '{baseline['what']}' alone {figure_text(baseline)}" for baseline in best]
        for line in (moment, *existence):
            print(fill(line, 100, subsequent_indent="    "))
    untold = [row.task for row in rows if not row.by_moment]
    if untold:
        print(
            fill(
                f"–: no figures without reading (too few people, a stay by steps, other clocks): {', '.join(untold)}",
                100,
            )
        )


def print_warnings(rows: Sequence[CardRow]) -> None:
    """Print which tasks can be answered by the time of the question or by which rows exist."""
    for row in rows:
        if row.warning is not None:
            print(fill(f"! {row.warning}", 100, subsequent_indent="    "))


def _reasons(rows: Sequence[CardRow]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, reason in row.unavailable.items():
            found.setdefault(reason, []).append(f"{name} of {row.task}")
    return found


# Paired comparisons.


def print_comparisons(comparisons: Sequence[Comparison], *, is_wide: bool) -> None:
    """Print a table per metric and baseline: a row per task and contender; ``is_wide``: strata too."""
    some = [row for row in comparisons if is_wide or row.stratum == ALL]
    columns = columns_of(DIFFERENCE_COLUMNS, "terminal" if is_wide else "narrow")
    for metric, baseline in dict.fromkeys((row.metric, row.baseline) for row in some):
        rows = [row for row in some if (row.metric, row.baseline) == (metric, baseline)]
        print(f"\n{metric} less that of {baseline}")
        print(as_text(table_of(rows, columns)))
    if some:
        print("p (max-T): permutation test over patients, corrected for contenders and tasks; detectable: the")
        print("smallest difference that so many patients would show in four of five studies (p < 0.05)")


def print_no_difference(comparisons: Sequence[Comparison], folders: Sequence[RunFolder]) -> None:
    """Explain differences of exactly 0: all samples have equal scores, as under the offline policy."""
    found = [(row, row.test.difference) for row in comparisons]
    same = [row for row, difference in found if not difference.estimate and not difference.low and not difference.high]
    if not same:
        return
    of_rules = any("offline" in folder.settings.run.models for folder in folders)
    why = ": the offline policy is a rule and does not read what a memory serves" if of_rules else ""
    line = f"+0.000 in {len(same)} of {len(comparisons)} comparisons: the scores of every sample are the same{why}"
    print(fill(line, 100, subsequent_indent="    "))


# Curated input against evidence seeking, on the terminal.


def print_arms(rows: Sequence[ArmRow]) -> None:
    """Print both arms of every model and group; nothing if the run has one arm only."""
    if rows:
        print(
            "\ncurated input against evidence seeking (F1 in per cent; tokens in + out, a mean per episode; "
            "how many packages left events out, and the hours shown; ceilings: per cent of targets within reach)"
        )
        print(as_text(arm_table(rows)))


# Calls of a run's judge, and answers not judged yet, for ``wardround report``.


def print_judge(folder: RunFolder) -> None:
    """Print the judge's calls and tokens; on stderr, how many answers are not judged yet."""
    judge = folder.settings.scoring.judge
    if judge is None:
        return
    protocol = "" if judge == WORDS else f" by the protocol {folder.settings.scoring.judge_protocol}"
    judgements = stages(folder, JUDGEMENTS)
    read = sum(stage.usage.input_tokens for stage in judgements)
    written = sum(stage.usage.output_tokens for stage in judgements)
    calls = sum(stage.calls for stage in judgements)
    print(f"judge: {calls:,} calls of {judge}{protocol}, {read:,} tokens in, {written:,} out")
    waiting = unjudged(folder, open_benchmark(folder))
    if waiting:
        print(
            f"wardround: note: {len(waiting):,} answers were not judged yet and are in no table; "
            f"go on with: wardround run --resume {folder.path}",
            file=sys.stderr,
        )


# The terminal's table of results by subgroup.


def print_subgroups(rows: Sequence[SummaryRow], by: str) -> None:
    """Print a row per contender, task and subgroup (column ``stratum``); few patients have no interval."""
    print(f"\nby {by}, from the chart at the time of the question")
    print(as_text(subgroup_table(rows, by)))
