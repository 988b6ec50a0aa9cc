"""Induce a global protocol from training stays, with progress kept stay by stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from wardround.agents.stays import StateFacts
from wardround.clinical.bundles import EventKind
from wardround.clinical.protocols import GlobalProtocol, InducedFrom, ProtocolRule, RuleAction, RuleIndex
from wardround.clinical.vocabulary import clinical_name
from wardround.core import LeakError, Progress, Reporter, UserError, content_hash, derive_seed, private_folder, silent
from wardround.learning.induction.coded_reflector import InductionSettings, reflect
from wardround.learning.induction.step_table import (
    RUNNING,
    Action,
    Cuts,
    StepTable,
    TrainingStep,
    candidate_triggers,
    cut_points,
    decisions_of,
    seen_steps,
)
from wardround.log import EpisodeLog, LogReader
from wardround.records import Store
from wardround.runs.folder import new_log_file
from wardround.runs.stays import played_bundles
from wardround.tasks.answers import StepAction
from wardround.tasks.benchmarks import Benchmark, Sample

# What was counted of training stays, kept stay by stay as a model's calls are: an induction that was killed goes on.
#
# A count is kept under a name that says what it hangs on, so that another store, benchmark or base counts anew.


CountedOutcomes = Mapping[str, Any]
Count = Callable[[], CountedOutcomes]
Keep = Callable[[str, Count], CountedOutcomes]
"""Gives what was counted under a name: what is kept of it, else what is counted now, which is kept from then on."""


def anew(name: str, count: Count) -> CountedOutcomes:
    """Count, and keep nothing."""
    return count()


@contextmanager
def kept_in(folder: Path | None) -> Iterator[Keep]:
    """Keep counts in logs of a folder, which is made for its owner; without one nothing is kept."""
    if folder is None:
        yield anew
        return
    private_folder(folder)
    with LogReader(folder, may_be_empty=True) as earlier, EpisodeLog(new_log_file(folder)) as log:
        finished = earlier.finished()

        def keep(name: str, count: Count) -> CountedOutcomes:
            if name in finished:
                return earlier.trajectory(name).notes[0].detail
            counted = count()
            recorder = log.begin(name, {})
            recorder.note("counted", counted)
            recorder.finish({})
            return counted

        yield keep


def packed(steps: Sequence[TrainingStep]) -> CountedOutcomes:
    """Return the steps of one stay as JSON holds them: names once, then by their places."""
    triggers = sorted({trigger for step in steps for trigger in step.triggers})
    actions = sorted({action for step in steps for action in (*step.done, *step.decided, *step.foretold)})
    trigger_at = {trigger: place for place, trigger in enumerate(triggers)}
    action_at = {action: place for place, action in enumerate(actions)}
    rows = [
        [
            step.hour,
            sorted(trigger_at[trigger] for trigger in step.triggers),
            [[action_at[action], None if hours == RUNNING else hours] for action, hours in step.done.items()],
            [action_at[action] for action in step.decided],
            [action_at[action] for action in step.foretold],
        ]
        for step in steps
    ]
    return {"triggers": triggers, "actions": [list(action) for action in actions], "steps": rows}


def unpacked(counted: CountedOutcomes, stay: int) -> Iterator[TrainingStep]:
    """Yield the steps of one stay, which has this number now."""
    triggers = counted["triggers"]
    actions: list[Action] = [(kind, name) for kind, name in counted["actions"]]
    for hour, held, done, decided, foretold in counted["steps"]:
        yield TrainingStep(
            stay=stay,
            hour=hour,
            triggers=frozenset(triggers[place] for place in held),
            done={actions[place]: RUNNING if hours is None else hours for place, hours in done},
            decided=tuple(actions[place] for place in decided),
            foretold=tuple(actions[place] for place in foretold),
        )


# Inducing a global protocol from the training stays of a benchmark (TRACE, section 3.2): counted, then frozen.
#
# Only training stays are read, and the protocol says from which split of whom it came: a run on those people is
# refused.


TRAINING = "train"
MEDICATIONS = "MEDICATIONS"
_COUNTING = 2
"""Raised where the vocabulary of triggers or how a step is counted changes: what was kept before is counted anew."""
_MEASURED = (EventKind.LAB, EventKind.VITAL)


def induce_protocol(
    benchmark: Benchmark,
    store: Store,
    settings: InductionSettings,
    *,
    base: GlobalProtocol | None = None,
    limit: int | None = None,
    calls: int | None = None,
    seed: int = 0,
    folder: Path | None = None,
    report: Reporter = silent,
) -> GlobalProtocol:
    """Return a protocol counted over training stays, at most ``limit`` of them drawn by the seed. ``base``: rules there
    are already; what they foretell is no failure, and they stay. ``calls``: the most failed steps that are looked at.
    ``folder``: where counts are kept stay by stay; what is there already is not counted again.
    UserError: the benchmark is of no stays, or of another store."""
    samples = training_stays(benchmark, store, limit=limit, seed=seed)
    started = base or GlobalProtocol(name=f"induced from {benchmark.name}", rules=())
    with kept_in(folder) as keep:
        steps = training_steps(store, samples, RuleIndex(started), taught=benchmark.digest, keep=keep, report=report)
    steps = steps if calls is None else within_budget(steps, calls, seed=seed)
    table = StepTable.of(steps, support=settings.support, hits=settings.hits)
    rules = (*started.rules, *reflect(table, settings))
    origin = taught_by(benchmark, store, stays=len(samples), steps=len(steps))
    return replace(started, rules=rules, induced=origin)


def within_budget(steps: Sequence[TrainingStep], calls: int, *, seed: int) -> list[TrainingStep]:
    """Return steps of which at most so many failed ones teach, drawn by the seed: at the others all counts as foretold,
    so that they only say how often an action follows anything."""
    failed = [place for place, step in enumerate(steps) if set(step.decided) - set(step.foretold)]
    drawn = set(sorted(failed, key=lambda place: derive_seed(seed, "reflect", str(place)))[:calls])
    return [step if place in drawn else replace(step, foretold=step.decided) for place, step in enumerate(steps)]


def taught_by(benchmark: Benchmark, store: Store, *, stays: int, steps: int) -> InducedFrom:
    """Return whose stays taught: a run on those people is refused."""
    return InducedFrom(
        source=store.spec.name,
        store_digest=store.digest,
        benchmark_digest=benchmark.digest,
        seed=int(benchmark.manifest["seed"]),
        fractions=tuple(benchmark.manifest["fractions"]),
        stays=stays,
        steps=steps,
    )


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


def training_steps(
    store: Store,
    samples: Sequence[Sample],
    index: RuleIndex,
    *,
    learnt: Sequence[Sample] = (),
    taught: str = "",
    keep: Keep = anew,
    report: Reporter = silent,
) -> list[TrainingStep]:
    """Play stays and say what held at each step, what was decided, and what the rules there are had foretold.
    ``learnt``: the stays whose values set the cut points and whose actions are asked about, where they are others.
    ``taught`` names whose stays they are, for what ``keep`` keeps of them."""
    whose = content_hash([_COUNTING, store.digest, taught])
    learnt = learnt or samples
    cuts = _cuts(store, learnt, f"values|{whose}", keep, report)
    actions = sorted({(one.kind, one.name) for sample in learnt for one in map(StepAction.parse, sample.target)})
    asked = f"steps|{content_hash([whose, index.protocol.digest, cuts, actions])}"
    steps: list[TrainingStep] = []
    for place, sample in enumerate(samples):
        counted = keep(f"{asked}|{sample.id}", partial(_counted, store, sample, index, cuts, actions))
        steps += unpacked(counted, place)
        report(Progress(label="reflecting", done=place + 1, total=len(samples), unit="stays"))
    return steps


def _cuts(store: Store, samples: Sequence[Sample], whose: str, keep: Keep, report: Reporter) -> Cuts:
    """Return the cut points of everything that is measured in some stays."""
    values: dict[str, list[float]] = {}
    for place, sample in enumerate(samples):
        for name, some in keep(f"{whose}|{sample.id}", partial(_values, store, sample)).items():
            values.setdefault(name, []).extend(some)
        report(Progress(label="measuring", done=place + 1, total=len(samples), unit="stays"))
    return cut_points(values)


def _values(store: Store, sample: Sample) -> dict[str, list[float]]:
    """Return by clinical name all that was measured in a stay."""
    values: dict[str, list[float]] = {}
    for bundle in played_bundles(store, sample)[1]:
        for event in bundle.of_kind(*_MEASURED):
            if event.value is not None:
                values.setdefault(clinical_name(event.concept), []).append(event.value)
    return values


def _counted(store: Store, sample: Sample, index: RuleIndex, cuts: Cuts, actions: Sequence[Action]) -> CountedOutcomes:
    return packed(list(_steps(store, sample, index, cuts, actions)))


def _steps(
    store: Store, sample: Sample, index: RuleIndex, cuts: Cuts, actions: Sequence[Action]
) -> Iterator[TrainingStep]:
    decided = decisions_of(sample)
    began: datetime | None = None
    for step, seen in enumerate(seen_steps(store, sample, index)):
        began = began or seen.facts.hour
        yield TrainingStep(
            stay=0,
            hour=_hours(seen.facts.now, began),
            triggers=frozenset(candidate_triggers(seen.facts, cuts)),
            done=done_so_far(seen.facts, actions, began),
            decided=tuple(decided.get(step, ())),
            foretold=seen.foretold,
        )


def done_so_far(facts: StateFacts, actions: Sequence[Action], began: datetime) -> dict[Action, float]:
    """Return when each action was last done, of those that ever were."""
    found = ((action, _last_done(facts, action, began)) for action in actions)
    return {action: hours for action, hours in found if hours is not None}


def _last_done(facts: StateFacts, action: Action, began: datetime) -> float | None:
    """When an action was last done, in hours of the stay, as the Router asks; None where it never was."""
    kind, name = action
    if kind == MEDICATIONS and facts.taking(name):
        return RUNNING
    last = facts.last_done(name)
    return None if last is None else _hours(last, began)


def _hours(moment: datetime, began: datetime) -> float:
    return (moment - began) / timedelta(hours=1)


# How often what a rule asks for was done, over training stays: at the steps at which it speaks.


_Asked = tuple[str, RuleAction]


def measured(rules: Sequence[ProtocolRule], store: Store, samples: Iterable[Sample]) -> tuple[ProtocolRule, ...]:
    """Return the rules with support and precision, and a share for each action. A rule that never spoke, or that no
    code can judge, is left as it is."""
    index = RuleIndex(GlobalProtocol(name="measured", rules=tuple(rules)))
    due: Counter[_Asked] = Counter()
    followed: Counter[_Asked] = Counter()
    for sample in samples:
        decided = decisions_of(sample)
        for step, seen in enumerate(seen_steps(store, sample, index)):
            asked = [(rule.id, action) for rule in seen.held for action in rule.due]
            due.update(asked)
            followed.update(one for one in asked if _was_decided(one[1], decided.get(step, ())))
    return tuple(_with_counts(one, index.by_id[one.id].actions, due, followed) for one in rules)


def _was_decided(action: RuleAction, decided: Iterable[Action]) -> bool:
    return any(kind == action.kind and action.names(name) for kind, name in decided)


def _with_counts(
    rule: ProtocolRule, actions: Sequence[RuleAction], due: Counter[_Asked], followed: Counter[_Asked]
) -> ProtocolRule:
    asked = [(rule.id, action) for action in actions]
    if not due[asked[0]]:
        return rule
    shares = tuple(round(followed[one] / due[one], 4) if due[one] else 0.0 for one in asked)
    return replace(rule, support=due[asked[0]], precision=shares[0], shares=shares)
