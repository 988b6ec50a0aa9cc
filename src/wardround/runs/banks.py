"""The bank of a run: opened for reading, at the revision it had when the run was made.

So a run that is resumed later serves what it served at first, whatever was added to the bank since.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from wardround.agents import Memory, kinds_read
from wardround.core import UserError, refuse_unknown
from wardround.memory import Bank, KeyEncoder, PinnedBank, Subject
from wardround.memory.rows import UNJUDGED, GateRecord
from wardround.records import Store
from wardround.runs.evolution_record import RECORD
from wardround.runs.folder import RunFolder
from wardround.runs.models import data_use_guard
from wardround.runs.settings import RunSettings
from wardround.runs.sources import open_records
from wardround.tasks.benchmarks import Benchmark
from wardround.tools.retrieval import Encoder, EncoderConfig, VectorCache, open_encoder
from wardround.tools.retrieval.recent import MAX_TOKENS

TRAINING_SPLIT = "train"

VECTORS = "vectors.sqlite"


def bank_facts(settings: RunSettings) -> dict[str, Any] | None:
    """Return what the manifest says of the bank (revision, hash of what it serves), or None without one.

    Raises UserError for an empty one, except where it is about to be filled: methods would play as if they had none.
    """
    if settings.memory.bank is None:
        return None
    with PinnedBank.open(Path(settings.memory.bank), revision=settings.memory.bank_revision) as bank:
        if not len(bank) and settings.run.split != TRAINING_SPLIT:
            raise UserError(
                f"the bank {settings.memory.bank!r} holds no experience; fill it with `wardround memory evolve`"
            )
        withheld = withhold_evaluated(bank, settings)
        if withheld and settings.is_text_cases and settings.run.split != TRAINING_SPLIT:
            raise UserError(
                f"{withheld:,} experiences of the bank {settings.memory.bank!r} came from reports or questions that "
                "this benchmark tests on: build it from others, or take them out with `wardround memory withdraw`"
            )
        return {
            "revision": bank.revision,
            "sha256": bank.content_hash(),
            "experiences": len(bank),
            "kinds": dict(sorted(Counter(one.kind for one in bank.experiences()).items())),
            "withheld_evaluated": withheld,
            "encoder": bank.encoder,
            **_gate_facts(bank),
        }


def own_bank_facts(settings: RunSettings) -> dict[str, Any]:
    """The same of the banks of single agents, by agent. UserError for an agent that does not play or reads none."""
    for name in settings.memory.banks:
        refuse_unknown([name], settings.run.agents, "memory.banks")
        if not kinds_read(settings.spelling(name)):
            raise UserError(f"{name} reads no bank: leave it out of memory.banks")
    return {name: bank_facts(with_own_bank(settings, name)) for name in settings.memory.banks}


def has_bank(memory: Mapping[str, Any], agent: str) -> bool:
    """Whether an agent reads a bank where these settings of memory are asked for."""
    return memory.get("bank") is not None or agent in memory.get("banks", ())


def with_own_bank(settings: RunSettings, agent: str) -> RunSettings:
    """The settings of a run as one agent with a bank of its own has them."""
    return replace(settings, memory=replace(settings.memory, bank=settings.memory.banks[agent], banks={}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories:
    """What the agents of a run read: ``shared`` by all that have none of their ``own``."""

    shared: Memory | None = None
    own: Mapping[str, Memory] = field(default_factory=dict)

    @classmethod
    def open(cls, settings: RunSettings, manifest: Mapping[str, Any], store: Store) -> Memories:
        """Open every bank as a manifest describes it: its ``bank``, and its ``banks`` by agent."""
        with ExitStack() as opened:
            shared = open_memory(settings, manifest.get("bank"), store)
            opened.callback(_close, shared)
            own: dict[str, Memory] = {}
            for name, facts in (manifest.get("banks") or {}).items():
                memory = open_memory(with_own_bank(settings, name), facts, store)
                opened.callback(_close, memory)
                own |= {} if memory is None else {name: memory}
            opened.pop_all()
        return cls(shared=shared, own=own)

    def of(self, agent: str) -> Memory | None:
        """What an agent reads."""
        return self.own.get(agent, self.shared)

    def close(self) -> None:
        """Close every bank."""
        for memory in (self.shared, *self.own.values()):
            _close(memory)


def _close(memory: Memory | None) -> None:
    if memory is not None:
        memory.close()


def _gate_facts(bank: PinnedBank) -> dict[str, Any]:
    """What a manifest says of the evidence for a bank; nothing where none was gathered."""
    found = bank.gate()
    return {} if found.revision is None else {"gate": asdict(found)}


def gate_notes(folder: RunFolder) -> tuple[str, ...]:
    """Say of each agent of a run for which tasks its bank's gate was closed: there it had no experiences."""
    if (folder.path / RECORD).exists():  # a stream learns whatever a gate says
        return ()
    memory, notes = folder.settings.memory, []
    for agent in folder.settings.run.agents:
        facts = (folder.manifest.get("banks") or {}).get(agent, folder.manifest.get("bank"))
        if facts is None or not kinds_read(folder.settings.spelling(agent)):
            continue
        gate = GateRecord(**facts.get("gate", {}))
        states = {task: gate.state(task, facts["sha256"]) for task in folder.settings.run.tasks or gate.verdicts}
        closed = [
            f"{task} ({state})" for task, state in states.items() if not gate.allows(task, memory.gate, facts["sha256"])
        ]
        if memory.gate == "require" and not folder.settings.run.tasks:
            closed.append(f"every other task ({UNJUDGED})")
        if closed:
            notes.append(f"{agent} was served no experience, its bank's gate being closed, for {', '.join(closed)}")
    return tuple(notes)


def open_memory(settings: RunSettings, facts: Mapping[str, Any] | None, store: Store) -> Memory | None:
    """Open the bank as the manifest describes it; UserError where the file holds something else by now."""
    if settings.memory.bank is None or facts is None:
        return None
    bank = PinnedBank.open(Path(settings.memory.bank), revision=facts["revision"])
    if bank.content_hash() != facts["sha256"]:
        why = ": something was forgotten since; start a new run" if bank.has_forgotten else ""
        bank.close()
        raise UserError(f"the bank {settings.memory.bank!r} is not the one this run was made with{why}")
    withhold_evaluated(bank, settings)
    gate = GateRecord(**facts.get("gate", {}))
    serves = partial(gate.allows, use=settings.memory.gate, content=facts["sha256"])
    encoder = open_key_encoder(settings, store, bank.encoder)
    return Memory(bank=bank, encoder=encoder, serves=serves, served_tokens=settings.memory.served_tokens)


def withhold_evaluated(bank: Bank | PinnedBank, settings: RunSettings) -> int:
    """Keep back what patients of this benchmark's other splits had a hand in; return how many experiences that are."""
    benchmark = Benchmark.open(Path(settings.run.benchmark))
    source = open_records(settings).spec.people
    evaluated = {sample.person for sample in benchmark.all_samples if sample.split != TRAINING_SPLIT}
    return bank.evaluate_on(Subject(source=source, subject_id=subject) for subject in evaluated)


def open_vectors(settings: RunSettings) -> VectorCache | None:
    """Open the cache of vectors in the store's folder, so that it is shared by runs and deleted with the records it
    was made from; None where that folder cannot be written to."""
    folder = Path(settings.run.store)
    return VectorCache(folder / VECTORS) if os.access(folder, os.W_OK) else None


def open_run_encoder(settings: RunSettings, store: Store, *, cache: VectorCache | None = None) -> Encoder:
    """Open the encoder of charts behind the data-use guard."""
    return open_encoder(_encoder_config(settings, store, settings.retrieval.encoder), cache)


def _encoder_config(settings: RunSettings, store: Store, name: str) -> EncoderConfig:
    guard = data_use_guard(settings, store)
    return EncoderConfig(name=name, base_url=settings.retrieval.encoder_url, guard=guard)


def open_key_encoder(settings: RunSettings, store: Store, identity: str | None) -> Encoder:
    """Open the encoder of keys; UserError where a bank's keys (``identity``) are another's, or of another length."""
    encoder, tokens = open_run_encoder(settings, store), settings.memory.key_tokens
    encoder = encoder if tokens == MAX_TOKENS else KeyEncoder(encoder, tokens)
    if identity not in (None, encoder.identity):
        raise UserError(
            f"the bank's keys were made by {identity!r}, not by {encoder.identity!r}: set the same retrieval.encoder "
            "and memory.key_tokens"
        )
    return encoder


def open_candidate_encoder(settings: RunSettings, store: Store) -> Encoder | None:
    """Open the encoder that the search of candidates is given, behind the data-use guard; None where none is set."""
    name = settings.retrieval.candidate_encoder
    return None if name is None else open_encoder(_encoder_config(settings, store, name))


def close_encoder(encoder: Encoder | None) -> None:
    """Close an encoder that holds something open."""
    close = getattr(encoder, "close", None)
    if close is not None:
        close()
