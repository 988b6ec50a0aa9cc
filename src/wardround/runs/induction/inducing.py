"""Inducing a global protocol from the training stays of a benchmark (TRACE, section 3.2): counted, then frozen.

Only training stays are read, and the protocol says from which split of whom it came: a run on those people is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wardround.agents.stays.charted import StateFacts
from wardround.agents.stays.player import Parts, TracePlayer
from wardround.agents.stays.settings import TraceSettings
from wardround.answers import StepAction
from wardround.benchmarks import Benchmark, Sample
from wardround.bundles import Bundle, EventKind, subject_bundles
from wardround.codes import clinical_name
from wardround.core import LeakError, Progress, Reporter, UserError, derive_seed, silent
from wardround.protocols import GlobalProtocol, InducedFrom, RuleIndex
from wardround.records import Store
from wardround.runs.induction.coded_reflector import InductionSettings, reflect
from wardround.runs.induction.counting import Action, TriggerCounts, candidate_triggers, cut_points

TRAINING = "train"
_MEASURED = (EventKind.LAB, EventKind.VITAL)


def induce_protocol(
    benchmark: Benchmark,
    store: Store,
    settings: InductionSettings,
    *,
    base: GlobalProtocol | None = None,
    limit: int | None = None,
    seed: int = 0,
    report: Reporter = silent,
) -> GlobalProtocol:
    """Return a protocol counted over training stays, at most ``limit`` of them drawn by the seed. ``base``: rules there
    are already; what they foretell is no failure, and they stay. UserError: the benchmark is of no stays, or of
    another store."""
    samples = training_stays(benchmark, store, limit=limit, seed=seed)
    started = base or GlobalProtocol(name=f"induced from {benchmark.name}", rules=())
    counts = count_stays(store, samples, RuleIndex(started), report=report)
    rules = (*started.rules, *reflect(counts, settings))
    origin = InducedFrom(
        source=store.spec.name,
        store_digest=store.digest,
        benchmark_digest=benchmark.digest,
        seed=int(benchmark.manifest["seed"]),
        fractions=tuple(benchmark.manifest["fractions"]),
        stays=len(samples),
        steps=counts.steps,
    )
    return GlobalProtocol(name=started.name, rules=rules, about=started.about, induced=origin)


def training_stays(benchmark: Benchmark, store: Store, *, limit: int | None, seed: int) -> list[Sample]:
    """Return the stays that may teach."""
    if benchmark.manifest["source"]["store_digest"] != store.digest:
        raise UserError(f"benchmark {benchmark.name!r} was built from another store")
    samples = [sample for sample in benchmark.samples(split=TRAINING) if sample.facts.get("unit")]
    if not samples:
        raise UserError(f"benchmark {benchmark.name!r} has no training stays; build one with `bench build trace`")
    for sample in samples:
        if sample.split != TRAINING:
            raise LeakError(f"sample {sample.id!r} is of split {sample.split!r}: nothing may be learnt from it")
    drawn = sorted(samples, key=lambda sample: derive_seed(seed, "induce", sample.id))[:limit]
    return sorted(drawn, key=lambda sample: sample.id)


def count_stays(
    store: Store, samples: Sequence[Sample], index: RuleIndex, *, report: Reporter = silent
) -> TriggerCounts:
    """Play stays and count what held at each step, what was decided, and what the rules there are had foretold."""
    values: dict[str, list[float]] = {}
    for sample in samples:
        for bundle in _played(store, sample)[1]:
            for event in bundle.of_kind(*_MEASURED):
                if event.value is not None:
                    values.setdefault(clinical_name(event.concept), []).append(event.value)
    cuts = cut_points(values)
    counts = TriggerCounts()
    for place, sample in enumerate(samples):
        for facts, decided, foretold in _steps(store, sample, index):
            counts.add(candidate_triggers(facts, cuts), decided, foretold)
        report(Progress(label="reflecting", done=place + 1, total=len(samples), unit="stays"))
    return counts


def _played(store: Store, sample: Sample) -> tuple[list[Bundle], list[Bundle]]:
    """Return the bundles before a stay, and those of its steps."""
    stream = subject_bundles(store, sample.subject_id)
    first, stop = int(sample.facts["first"]), int(sample.facts["stop"])
    return [stream[place] for place in range(first)], [stream[place] for place in range(first, stop - 1)]


def _steps(store: Store, sample: Sample, index: RuleIndex) -> Iterator[tuple[StateFacts, list[Action], list[Action]]]:
    past, bundles = _played(store, sample)
    decided: dict[int, list[Action]] = {}
    for action in map(StepAction.parse, sample.target):
        decided.setdefault(action.step or 0, []).append((action.kind, action.name))
    player = TracePlayer(index, TraceSettings(), Parts(auditor=False))
    player.begin(past)
    for step, bundle in enumerate(bundles):
        facts, predicted = player.foretell(bundle)
        yield facts, decided.get(step, []), [(action.kind, action.name) for action in predicted]
