"""The result of a run in a sentence or two: which contenders differ, and how small a difference could be shown.

A contender is *shown* to differ on a task if the p-value corrected for all contenders and tasks is below 0.05.
Otherwise nothing is claimed about how similar they are: only which difference could have been detected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from wardround.reports.baseline_card import BEST
from wardround.reports.comparing import Comparison
from wardround.reports.summary import RunSummary, contender
from wardround.tasks.scoring.tables import ALL

SHOWN_BELOW = 0.05
"""The corrected p-value below which a difference counts as shown."""


def answer_of(summary: RunSummary) -> list[str]:
    """Return the first sentences of a report; empty if no episode is finished."""
    trivial = list(_answers(summary.against_trivial, f"the {BEST} baseline"))
    return trivial + compared_answers(summary.comparisons) or list(_scores(summary))


def compared_answers(comparisons: Iterable[Comparison]) -> list[str]:
    """Return the sentences about some comparisons, baseline by baseline."""
    return [answer for some in _by_baseline(main_differences(comparisons)) for answer in _answers(some)]


def main_differences(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Return the comparisons of each task's main figure over all strata, task by task, without the row over all
    tasks."""
    found: dict[tuple[str, str, str], Comparison] = {}
    for (
        comparison
    ) in comparisons:  # the main figure of a task comes before its further ones, the row over all strata last
        key = (comparison.contender, comparison.baseline, comparison.task)
        if comparison.task != ALL and (key not in found or found[key].metric == comparison.metric):
            found[key] = comparison
    return list(found.values())


def _by_baseline(comparisons: Sequence[Comparison]) -> Iterator[list[Comparison]]:
    ordered = sorted(comparisons, key=lambda comparison: comparison.baseline)
    return (list(some) for _, some in groupby(ordered, lambda one: one.baseline))


def _answers(comparisons: Sequence[Comparison], baseline: str | None = None) -> Iterator[str]:
    """Yield a sentence for all contenders with the same result."""
    groups: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault(comparison.contender, []).append(comparison)
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for name, some in groups.items():
        alike.setdefault((_shown(some, 1), _shown(some, -1)), []).append(name)
    for (better, worse), names in alike.items():
        against = baseline or groups[names[0]][0].baseline
        phrases = [f"better than {against} on {_listed(better)}"] if better else []
        phrases += [f"worse than {against} on {_listed(worse)}"] if worse else []
        rest = [one for name in names for one in groups[name] if one.task not in (*better, *worse)]
        tasks = list(dict.fromkeys(one.task for one in rest))
        if not phrases:
            where = f"on {tasks[0]}" if len(tasks) == 1 else f"on any of {len(tasks)} tasks"
            phrases = [f"not shown to differ from {against} {where}"]
        elif rest:
            phrases.append(f"not shown to differ on {tasks[0] if len(tasks) == 1 else f'{len(tasks)} other tasks'}")
        verb = "is" if len(names) == 1 else "are"
        yield f"{_listed(names)} {verb} {_listed(phrases)}{f'; {_could_show(rest)}' if rest else ''}."


def _shown(some: Sequence[Comparison], sign: int) -> tuple[str, ...]:
    """Return the tasks on which a difference of this sign is shown, the largest first."""
    found = [one for one in some if one.adjusted_p is not None and one.adjusted_p < SHOWN_BELOW]
    found = [one for one in found if sign * one.test.difference.estimate > 0]
    return tuple(one.task for one in sorted(found, key=lambda one: -abs(one.test.difference.estimate)))


def p_text(p_value: float | None) -> str:
    """Write a p-value; "p not known" if nothing could be tested."""
    if p_value is None:
        return "p not known"
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def p_cell(p_value: float | None) -> str | None:
    """Write a p-value for a cell of a table; None if nothing could be tested. It is never printed as 0."""
    if p_value is None:
        return None
    return "< 0.0001" if p_value < 0.0001 else f"{p_value:.4f}"


def _could_show(some: Sequence[Comparison]) -> str:
    """Return the smallest differences that these patients could show: the best task and the worst."""
    every = [one.test.difference for one in some]
    known = [(one.test.difference.detectable, one) for one in some]
    sizes = sorted(
        ((size, one.task, one.test.difference.subjects) for size, one in known if size is not None),
        key=lambda entry: entry[0],
    )
    if not sizes and not any(one.estimate or one.low or one.high for one in every):
        return "every sample has the same score in both"
    if not sizes:
        most = max(one.subjects for one in every)
        return f"{most} {'patient is' if most == 1 else 'patients are'} too few to say which difference could be shown"
    texts = list(dict.fromkeys(f"{size:.3f} ({task}, {patients} patients)" for size, task, patients in sizes))
    ends = texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"
    return f"the smallest difference that could be shown is {ends}"


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1] if texts else ""


def _scores(summary: RunSummary) -> Iterator[str]:
    """Yield the score of each contender, if nothing is compared."""
    last = {contender(row): row for row in summary.rows}  # the row over all tasks and strata comes last
    for name, row in last.items():
        tasks = (
            f" over {len({row.task for row in summary.rows} - {ALL})} tasks" if row.task == ALL else f" on {row.task}"
        )
        patients = f"{row.subjects} {'patient' if row.subjects == 1 else 'patients'}"
        score = f"{row.metric} of {row.f1.estimate:.3f} ({row.f1.as_text()})"
        yield f"{name} has a {score}{tasks}, {patients}; no baseline was scored."
