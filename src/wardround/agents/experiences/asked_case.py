"""What an episode asks a memory with: whose case it is, its question and what its record looks like. Sees no target."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.agents.loop.episode import Episode
from wardround.core import UserError
from wardround.memory import Findings, Key, KnownCase, RecallQuestion, Subject, known_case, text_key
from wardround.memory.reading import BankReader
from wardround.retrieval import Encoder

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
    """Read the case from its chart, or from the words that tell it. Blocks. Raises UserError without either."""
    case = case_before(episode)
    description = case.description(_CASE_TOKENS)
    text = f"{episode.history.prompt[1].content or ''}\n{description}"
    return AskedCase(
        subject=case.subject,
        findings=case.findings(),
        question=RecallQuestion(text=text, key=_key(bank, encoder, text)),
        description=description,
    )


def case_before(episode: Episode) -> KnownCase:
    """Return the case that an episode is about. UserError: there is no chart, and no words tell it."""
    case = known_case(episode.environment.chart, episode.environment.told)
    if case is None:
        raise UserError(f"agent {episode.agent.name!r} finds experiences by the chart, and this environment has none")
    return case


def _key(bank: BankReader, encoder: Encoder, text: str) -> Key | None:
    """The vector of a text, where the bank has vectors to compare it with."""
    return None if bank.encoder is None else text_key(encoder, text)
