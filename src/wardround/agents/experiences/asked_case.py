"""What an episode asks a memory with: whose case it is, its question and what its record looks like. Sees no target."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.agents.loop.episode import Episode
from wardround.core import UserError
from wardround.memory import Findings, Key, RecallQuestion, Subject, findings_of_chart, text_key
from wardround.memory.reading import BankReader
from wardround.retrieval import Encoder, describe_recent_events

_CASE_TOKENS = 600
"""How much of a chart's recent events tells what case it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCase:
    """One episode's case before a bank. ``description`` is what of the record the question does not tell."""

    subject: Subject
    findings: Findings
    question: RecallQuestion
    description: str


def asked_case(episode: Episode, bank: BankReader, encoder: Encoder) -> AskedCase:
    """Read the case from its chart. Blocks. Raises UserError without one."""
    chart = getattr(episode.environment, "chart", None)
    if chart is None:
        raise UserError(f"agent {episode.agent.name!r} withholds experiences by the chart, and there is none here")
    description = describe_recent_events(chart, max_tokens=_CASE_TOKENS)
    text = f"{episode.history.prompt[1].content or ''}\n{description}"
    return AskedCase(
        subject=Subject.of_chart(chart),
        findings=findings_of_chart(chart),
        question=RecallQuestion(text=text, key=_key(bank, encoder, text)),
        description=description,
    )


def _key(bank: BankReader, encoder: Encoder, text: str) -> Key | None:
    """The vector of a text, where the bank has vectors to compare it with."""
    return None if bank.encoder is None else text_key(encoder, text)
