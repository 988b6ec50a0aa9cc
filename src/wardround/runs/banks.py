"""The bank of a run: opened for reading, at the revision it had when the run was made.

So a run that is resumed later serves what it served at first, whatever was added to the bank since.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wardround.agents import Memory
from wardround.benchmarks import Benchmark
from wardround.core import UserError, content_hash
from wardround.memory import Bank, BankState, Subject
from wardround.records import Store
from wardround.retrieval import Encoder, VectorCache, open_encoder
from wardround.runs.guard import data_use_guard
from wardround.runs.settings import RunSettings

TRAINING_SPLIT = "train"

VECTORS = "vectors.sqlite"


def bank_facts(settings: RunSettings) -> dict[str, Any] | None:
    """Return what the manifest says of the bank (revision, hash of what it serves), or None without one.

    Raises UserError for an empty one, except where it is about to be filled: methods would play as if they had none.
    """
    if settings.bank is None:
        return None
    with Bank.open(Path(settings.bank), writable=False) as bank:
        state = bank.at(revision=bank.revision)
    if not len(state) and settings.split != TRAINING_SPLIT:
        raise UserError(f"the bank {settings.bank!r} holds no experience; fill it with `wardround evolve`")
    return {
        "revision": state.revision,
        "sha256": state_hash(state),
        "experiences": len(state),
        "kinds": dict(sorted(Counter(one.kind for one in state.experiences).items())),
        "withheld_evaluated": _withhold_evaluated(state, settings),
        "encoder": state.encoder,
    }


def state_hash(state: BankState) -> str:
    """Hash everything a bank would serve."""
    return content_hash(sorted((one.to_json() for one in state.experiences), key=lambda body: str(body["id"])))


def open_memory(settings: RunSettings, facts: Mapping[str, Any] | None, store: Store) -> Memory | None:
    """Open the bank as the manifest describes it; UserError where the file holds something else by now."""
    if settings.bank is None or facts is None:
        return None
    with Bank.open(Path(settings.bank), writable=False) as bank:
        if bank.revision < facts["revision"]:
            raise UserError(f"the bank {settings.bank!r} is older than the one this run was made with")
        state = bank.at(revision=facts["revision"])
    if state_hash(state) != facts["sha256"]:
        raise UserError(f"the bank {settings.bank!r} is not the one this run was made with")
    _withhold_evaluated(state, settings)
    return Memory(bank=state, encoder=open_run_encoder(settings, store, state.encoder))


def _withhold_evaluated(state: BankState, settings: RunSettings) -> int:
    """Keep back what patients of this benchmark's other splits had a hand in; return how many experiences that are."""
    benchmark = Benchmark.open(Path(settings.benchmark))
    source = Store.open(Path(settings.store)).spec.name
    evaluated = {sample.person for sample in benchmark.all_samples if sample.split != TRAINING_SPLIT}
    return state.evaluate_on(Subject(source=source, subject_id=subject) for subject in evaluated)


def open_vectors(settings: RunSettings) -> VectorCache | None:
    """Open the cache of vectors in the store's folder, so that it is shared by runs and deleted with the records it
    was made from; None where that folder cannot be written to."""
    folder = Path(settings.store)
    return VectorCache(folder / VECTORS) if os.access(folder, os.W_OK) else None


def open_run_encoder(
    settings: RunSettings, store: Store, identity: str | None = None, *, cache: VectorCache | None = None
) -> Encoder:
    """Open the encoder behind the data-use guard; UserError where a bank's keys (``identity``) are another one's."""
    encoder = open_encoder(
        settings.encoder, base_url=settings.encoder_url, guard=data_use_guard(settings, store), cache=cache
    )
    if identity not in (None, encoder.identity):
        raise UserError(
            f"the bank's keys were made by {identity!r}, not by {encoder.identity!r}: give the same --encoder"
        )
    return encoder
