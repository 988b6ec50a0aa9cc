"""Dual-path evidence and reasoning (EHR-RAG, eq. 6-8): the case for an outcome and the case against it, then both.

Each side retrieves with its own query and argues from its own evidence and the numbers both share; the actor then
decides on the evidence of both with both arguments before it. The negative label is the question's first one; where
there are more than two, the positive side argues for any of the others and says for which.
"""

from __future__ import annotations

from dataclasses import dataclass

from wardround.agents.evidence.chart_search import ChartSearch
from wardround.agents.evidence.evidence import Evidence
from wardround.agents.loop.reductions import cut_notice, cut_text
from wardround.agents.loop.side_reader import prompt_text, too_short
from wardround.answers import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two cases. ``label`` says for which label it stands, in words; ``choice``: for one of several."""

    purpose: str
    query: str
    label: str
    path: str
    choice: bool = False


def sides(question: Question) -> tuple[Side, Side]:
    """Return the case for the outcome and the case against it."""
    negative, *positive = (
        f"{value} ({name})" for value, name in zip(question.label_values, question.label_names, strict=True)
    )
    return (
        Side(
            purpose="argue_for",
            query=question.factual_query,
            label=positive[0] if len(positive) == 1 else "one of " + ", ".join(positive),
            path="for the outcome",
            choice=len(positive) > 1,
        ),
        Side(
            purpose="argue_against",
            query=question.counterfactual_query,
            label=negative,
            path="against the outcome",
        ),
    )


async def argue(search: ChartSearch, side: Side, evidence: Evidence) -> str:
    """Return one side's argument from its evidence; empty where the call fails, which is noted."""
    instruction = prompt_text("argue", label=side.label, supports=side.purpose == "argue_for", choice=side.choice)
    written = await search.ask(instruction, purpose=side.purpose, evidence=evidence, flaw=_no_case)
    shown = cut_text(written.text, search.episode.counter, search.argument_tokens(), notice=cut_notice)
    failed = {} if written.problem is None else {"failed": written.problem}
    search.note("argument", side=side.purpose, cut=written.cut or shown != written.text, **failed)
    return shown


def _no_case(text: str) -> str:
    """A case is more than a few words, but that it is weak is said in few."""
    return "" if "weak" in text.casefold() else too_short(text)


def decision_text(question: Question, case_for: str, case_against: str) -> str:
    """Return what puts both cases before the actor and says how to weigh them."""
    first, second = sides(question)
    return prompt_text(
        "weigh",
        case_for=case_for,
        case_against=case_against,
        positive=first.label,
        negative=second.label,
        default=question.label_values[0],
        instructions=question.instructions,
    )
