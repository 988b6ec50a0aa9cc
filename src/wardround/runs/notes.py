"""What a run says of itself in words: before it begins, and when it has ended or stopped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import shorten

from wardround.agents import AgentName, get_method, kinds_read
from wardround.core import estimate_tokens
from wardround.runs.execute import episode_keys
from wardround.runs.folder import RunFolder, Spending
from wardround.runs.queue import Counts
from wardround.runs.results import evidence_cuts, finished_entries
from wardround.runs.sources import open_benchmark, open_store
from wardround.tasks.benchmarks import Benchmark
from wardround.tools import open_toolset
from wardround.tools.retrieval import described_codes

_REASON_CHARACTERS = 120
_CHARTS_LOOKED_AT = 5


def notes_on(folder: RunFolder) -> list[str]:
    """Return what these settings allow and nobody is likely to want."""
    settings = folder.settings
    lines: list[str] = []
    if settings.is_text_cases:
        return lines
    from_evidence = [name for name in settings.run.agents if get_method(settings.spelling(name)).evidence]
    with_tools = any(agent["tools"] == "all" for agent in folder.manifest["agents"])
    offered = open_toolset(settings.run.toolset).schemas if with_tools else ()
    tools = sum(estimate_tokens(schema.wire.decode()) for schema in offered)
    room = settings.budget_tokens - settings.budget.reply_tokens - tools
    if room < settings.budget_tokens // 4:
        lines.append(
            f"of {settings.budget_tokens:,} context tokens the reply ({settings.budget.reply_tokens:,}) and the tools "
            f"({tools:,}) leave {max(room, 0):,} for what was read; a smaller budget.reply_tokens leaves more"
        )
    papers = Benchmark.open(Path(settings.run.benchmark)).context_tokens
    if settings.budget_tokens < papers and from_evidence:
        lines.append(
            f"the paper of these tasks gives every method {papers:,} context tokens; with {settings.budget_tokens:,} "
            "evidence may be cut that would have fitted (the report says where)"
        )
    lines += _wordless(folder)
    for name in settings.run.agents:
        facts = folder.manifest.get("banks", {}).get(name, folder.manifest.get("bank"))
        kinds = None if facts is None else facts.get("kinds", {})
        missing = [kind for kind in kinds_read(settings.spelling(name)) if kinds is not None and not kinds.get(kind)]
        if missing:
            lines.append(f"the bank holds no {' and no '.join(missing)} experiences, so {name} is served none of these")
    withheld = (folder.manifest.get("bank") or {}).get("withheld_evaluated", 0)
    if withheld:
        lines.append(f"{withheld:,} experiences are kept back: this benchmark evaluates on patients who taught them")
    return lines


def _wordless(folder: RunFolder) -> list[str]:
    """Say that most codes have no words, where somebody searches by words."""
    spelt = {name: folder.settings.spelling(name) for name in folder.settings.run.agents}
    searching = [name for name, own in spelt.items() if get_method(own).evidence or AgentName.parse(own).additions]
    if not searching:
        return []
    words, codes = codes_with_words(folder)
    if 2 * words >= codes:
        return []
    line = (
        f"only {words:,} of {codes:,} codes of the first charts have words; {', '.join(searching)} searches by words, "
        "and finds nothing in the others: give them words with `wardround codes describe`, then ingest again"
    )
    return [line]


def notes_after(folder: RunFolder, counts: Counts, *, max_cost: float | None = None) -> list[str]:
    """Return what is to be said of the episodes run so far: evidence that was cut, a limit of cost that was met."""
    return [*_cut_evidence(folder), *_stopped_at_cost(folder, counts, max_cost)]


def _cut_evidence(folder: RunFolder) -> list[str]:
    """Say of whom evidence was cut: its figures are not those of the method but of the method in this budget."""
    lines = []
    for name, cut in evidence_cuts(folder).items():
        if cut.episodes:
            budget = folder.settings.budget_tokens
            lines.append(f"{name}: evidence was cut in {cut}; --context-tokens above {budget:,} holds more")
    return lines


def _stopped_at_cost(folder: RunFolder, counts: Counts, limit: float | None) -> list[str]:
    """Say that the cost ended the run before its last episode, and what of the cost is not known."""
    if limit is None:
        return []
    spending, lines = Spending.of(folder), []
    if counts.open and spending.reaches(limit):
        lines.append(
            f"stopped at the most it may cost: {spending.cost:.4f} US dollars of --max-cost {limit:g} are spent and "
            f"{counts.open:,} episodes wait; go on with --resume {folder.path} and a higher --max-cost"
        )
    if spending.unpriced:
        lines.append(f"{spending.unpriced:,} calls came back without counted tokens, so their cost is not in the sum")
    return lines


def failures(folder: RunFolder) -> str:
    """Say how many of the finished episodes failed, and the commonest reason; empty where none did."""
    outcomes = [entry.outcome or {} for entry in finished_entries(folder).values()]
    reasons = Counter(str(one.get("error") or "no reason") for one in outcomes if one.get("finish") == "error")
    if not reasons:
        return ""
    [(reason, count)] = reasons.most_common(1)
    return f", {reasons.total():,} of them failed (most often, {count:,}: {shorten(reason, _REASON_CHARACTERS)})"


def codes_with_words(folder: RunFolder) -> tuple[int, int]:
    """Return how many codes of a few of the run's charts have words, and how many there are: retrieval by likeness is
    blind to codes without a description."""
    store, benchmark = open_store(folder), open_benchmark(folder)
    wanted = dict.fromkeys(key.sample for key in episode_keys(folder.settings, benchmark))
    samples = [benchmark.sample(name) for name in list(wanted)[:_CHARTS_LOOKED_AT]]
    charts = (one.chart(store, benchmark.policy) for one in samples)
    return described_codes(chart.event_columns() for chart in charts)
