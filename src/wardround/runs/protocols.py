"""The protocols that a run's agents are given, and whom they may not be shown about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from wardround.benchmarks import Benchmark, split_of
from wardround.core import UserError, leaves
from wardround.protocols import GlobalProtocol, read_protocol
from wardround.records import Store
from wardround.runs.settings import EpisodeKey, RunSettings
from wardround.runs.variants import Variant

TRAINING = "train"


def must_not_be_taught_by(settings: RunSettings, store: Store, benchmark: Benchmark, keys: Sequence[str]) -> None:
    """Raise UserError where a protocol was induced from people whom this run asks about."""
    induced = [one for one in protocols_of(settings) if one.induced is not None]
    if not induced:
        return
    asked = {EpisodeKey.parse(key).sample for key in keys}
    people = {sample.person for sample in benchmark.all_samples if sample.id in asked}
    for protocol in induced:
        taught = sum(_taught(protocol, store, person) for person in people)
        if taught:
            raise UserError(
                f"the protocol {protocol.name!r} was induced from people of this split: {taught} of {len(people)} whom "
                "this run asks about were in its training; run it on others (--split test of the same seed)"
            )


def protocols_of(settings: RunSettings) -> Iterator[GlobalProtocol]:
    """Yield the protocols that the run's methods are set to."""
    for held in settings.agent.values():
        section = held.settings if isinstance(held, Variant) else held
        files = [leaf.default for leaf in leaves(section) if leaf.name == "protocol" and leaf.default]
        yield from (read_protocol(Path(path)) for path in files)


def _taught(protocol: GlobalProtocol, store: Store, person: int) -> bool:
    origin = protocol.induced
    if origin is None or origin.source != store.spec.name:
        return False
    return split_of(person, origin.seed, origin.fractions) == TRAINING
