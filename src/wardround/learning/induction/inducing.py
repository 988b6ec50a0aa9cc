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

# Counts of training stays are stored stay by stay, like a model's calls: a killed induction continues.
#
# The name of a count includes everything it depends on, so another store, benchmark or base counts again.


CountedOutcomes = Mapping[str, Any]
Count = Callable[[], CountedOutcomes]
Keep = Callable[[str, Count], CountedOutcomes]
"""Returns the count under a name: the stored one, or a new one, which is stored."""


def count_unstored(name: str, count: Count) -> CountedOutcomes:
    """Count and store nothing."""
    return count()


@contextmanager
def stored_counts(folder: Path | None) -> Iterator[Keep]:
    """Store counts in logs of a folder, created for its owner; without a folder nothing is stored."""
    if folder is None:
        yield count_unstored
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
    """Return the steps of one stay for JSON: each name once, then indices."""
    triggers = sorted({trigger for step in steps for trigger in step.triggers})
    actions = sorted({action for step in steps for action in (*step.done, *step.decided, *step.predicted)})
    trigger_index = {trigger: index for index, trigger in enumerate(triggers)}
    action_index = {action: index for index, action in enumerate(actions)}
    rows = [
        [
            step.hour,
            sorted(trigger_index[trigger] for trigger in step.triggers),
            [[action_index[action], None if hours == RUNNING else hours] for action, hours in step.done.items()],
            [action_index[action] for action in step.decided],
            [action_index[action] for action in step.predicted],
        ]
        for step in steps
    ]
    return {"triggers": triggers, "actions": [list(action) for action in actions], "steps": rows}


def unpacked(counted: CountedOutcomes, stay: int) -> Iterator[TrainingStep]:
    """Yield the steps of one stay, numbered ``stay``."""
    triggers = counted["triggers"]
    actions: list[Action] = [(kind, name) for kind, name in counted["actions"]]
    for hour, triggers_held, done, decided, predicted in counted["steps"]:
        yield TrainingStep(
            stay=stay,
            hour=hour,
            triggers=frozenset(triggers[index] for index in triggers_held),
            done={actions[index]: RUNNING if hours is None else hours for index, hours in done},
            decided=tuple(actions[index] for index in decided),
            predicted=tuple(actions[index] for index in predicted),
        )


# Induce a global protocol from the training stays of a benchmark (TRACE, section 3.2): counted, then frozen.
#
# Only training stays are read. The protocol records whose stays it came from, and a run on those people is refused.


TRAINING = "train"
MEDICATIONS = "MEDICATIONS"
_COUNTING = 3
"""Version of the counts: increase it when the trigger vocabulary or the counting changes."""
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
    """Return a protocol counted over training stays, at most ``limit`` of them drawn by the seed.

    ``base``: existing rules; they stay, and what they predict is no failure. ``calls``: limit on the failed steps that
    are used. ``folder``: where counts are stored stay by stay; stored counts are reused. UserError: the benchmark has
    no stays, or is of another store.
    """
    samples = training_stays(benchmark, store, limit=limit, seed=seed)
    started = base or GlobalProtocol(name=f"induced from {benchmark.name}", rules=())
    with stored_counts(folder) as keep:
        steps = training_steps(
            store, samples, RuleIndex(started), source_name=benchmark.digest, keep=keep, report=report
        )
    steps = steps if calls is None else within_budget(steps, calls, seed=seed)
    table = StepTable.of(steps, support=settings.support, hits=settings.hits)
    rules = (*started.rules, *reflect(table, settings))
    origin = induction_origin(benchmark, store, stays=len(samples), steps=len(steps))
    return replace(started, rules=rules, induced=origin)


def within_budget(steps: Sequence[TrainingStep], calls: int, *, seed: int) -> list[TrainingStep]:
    """Return the steps with at most ``calls`` failed ones, drawn by the seed.

    At the others everything counts as predicted: they only show how often an action follows anything.
    """
    failed = [index for index, step in enumerate(steps) if set(step.decided) - set(step.predicted)]
    drawn_indices = set(sorted(failed, key=lambda index: derive_seed(seed, "reflect", str(index)))[:calls])
    return [
        step if index in drawn_indices else replace(step, predicted=step.decided) for index, step in enumerate(steps)
    ]


def induction_origin(benchmark: Benchmark, store: Store, *, stays: int, steps: int) -> InducedFrom:
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
            raise LeakError(f"sample {sample.id!r} is in split {sample.split!r}; only training samples may teach")
    drawn = sorted(samples, key=lambda sample: derive_seed(seed, "induce", sample.id))[:limit]
    return sorted(drawn, key=lambda sample: sample.id)


def training_steps(
    store: Store,
    samples: Sequence[Sample],
    index: RuleIndex,
    *,
    reference_samples: Sequence[Sample] = (),
    source_name: str = "",
    keep: Keep = count_unstored,
    report: Reporter = silent,
) -> list[TrainingStep]:
    """Replay stays and return their steps.

    A step has the triggers that hold, the decisions, and the predictions of the existing rules. ``learnt``: the stays
    that set the cut points and the actions, if others. ``taught`` names the stays for stored counts.
    """
    source_hash = content_hash([_COUNTING, store.digest, source_name])
    reference_samples = reference_samples or samples
    cuts = _cuts(store, reference_samples, f"values|{source_hash}", keep, report)
    triggers = _triggers(store, reference_samples, cuts, source_hash, keep, report)
    actions = sorted(
        {(one.kind, one.name) for sample in reference_samples for one in map(StepAction.parse, sample.target)}
    )
    steps_key = f"steps|{content_hash([source_hash, index.protocol.digest, triggers, actions])}"
    vocabulary = as_rules(triggers)
    steps: list[TrainingStep] = []
    for number, sample in enumerate(samples):
        count = partial(_counted, store, sample, index, vocabulary, actions)
        steps += unpacked(keep(f"{steps_key}|{sample.id}", count), number)
        report(Progress(label="reflecting", done=number + 1, total=len(samples), unit="stays"))
    return steps


def as_rules(triggers: Iterable[str]) -> RuleIndex:
    """Return an index in which every trigger is a rule: the steps at which a run would read it as holding are counted,
    whatever name the record has for the same thing."""
    rules = (
        ProtocolRule(id=f"T{number}", category="COUNTED", trigger=trigger, actions=("order nothing",))
        for number, trigger in enumerate(triggers)
    )
    return RuleIndex(GlobalProtocol(name="triggers", rules=tuple(rules)))


def _triggers(
    store: Store, samples: Sequence[Sample], cuts: Cuts, source_hash: str, keep: Keep, report: Reporter
) -> list[str]:
    """Return every trigger of the vocabulary that some stays name."""
    key = f"triggers|{content_hash([source_hash, cuts])}"
    found: set[str] = set()
    for number, sample in enumerate(samples):
        found.update(keep(f"{key}|{sample.id}", partial(_named, store, sample, cuts))["triggers"])
        report(Progress(label="naming", done=number + 1, total=len(samples), unit="stays"))
    return sorted(found)


def _named(store: Store, sample: Sample, cuts: Cuts) -> CountedOutcomes:
    seen = seen_steps(store, sample, as_rules(()))
    return {"triggers": sorted({trigger for step in seen for trigger in candidate_triggers(step.facts, cuts)})}


def _cuts(store: Store, samples: Sequence[Sample], key: str, keep: Keep, report: Reporter) -> Cuts:
    """Return the cut points of all measurements in some stays."""
    values: dict[str, list[float]] = {}
    for index, sample in enumerate(samples):
        for name, measurements in keep(f"{key}|{sample.id}", partial(_values, store, sample)).items():
            values.setdefault(name, []).extend(measurements)
        report(Progress(label="measuring", done=index + 1, total=len(samples), unit="stays"))
    return cut_points(values)


def _values(store: Store, sample: Sample) -> dict[str, list[float]]:
    """Return all measured values of a stay by clinical name."""
    values: dict[str, list[float]] = {}
    for bundle in played_bundles(store, sample)[1]:
        for event in bundle.of_kind(*_MEASURED):
            if event.value is not None:
                values.setdefault(clinical_name(event.concept), []).append(event.value)
    return values


def _counted(
    store: Store, sample: Sample, index: RuleIndex, vocabulary: RuleIndex, actions: Sequence[Action]
) -> CountedOutcomes:
    return packed(list(_steps(store, sample, index, vocabulary, actions)))


def _steps(
    store: Store, sample: Sample, index: RuleIndex, vocabulary: RuleIndex, actions: Sequence[Action]
) -> Iterator[TrainingStep]:
    decided = decisions_of(sample)
    predicted = [seen.predicted for seen in seen_steps(store, sample, index)] if index.rules else []
    began: datetime | None = None
    for step, seen in enumerate(seen_steps(store, sample, vocabulary)):
        began = began or seen.facts.hour
        yield TrainingStep(
            stay=0,
            hour=_hours(seen.facts.now, began),
            triggers=frozenset(held.compiled.rule.trigger for held in seen.satisfied),
            done=done_so_far(seen.facts, actions, began),
            decided=tuple(decided.get(step, ())),
            predicted=predicted[step] if predicted else (),
        )


def done_so_far(facts: StateFacts, actions: Sequence[Action], began: datetime) -> dict[Action, float]:
    """Return when each action was last done, without actions never done."""
    found = ((action, _last_done(facts, action, began)) for action in actions)
    return {action: hours for action, hours in found if hours is not None}


def _last_done(facts: StateFacts, action: Action, began: datetime) -> float | None:
    """Return when an action was last done, in hours of the stay, as the Router reads it; None if never."""
    kind, name = action
    if kind == MEDICATIONS and facts.taking(name):
        return RUNNING
    last = facts.last_done(name, is_drug=kind == MEDICATIONS)
    return None if last is None else _hours(last, began)


def _hours(moment: datetime, began: datetime) -> float:
    return (moment - began) / timedelta(hours=1)


# How often a rule's action was decided, over the steps of training stays at which it is due.


_RuleAction = tuple[str, RuleAction]


def with_measures(rules: Sequence[ProtocolRule], store: Store, samples: Iterable[Sample]) -> tuple[ProtocolRule, ...]:
    """Return the rules with support and precision, and a share for each action.

    A rule that is never due, or that code cannot evaluate, stays as it is.
    """
    index = RuleIndex(GlobalProtocol(name="measured", rules=tuple(rules)))
    due: Counter[_RuleAction] = Counter()
    followed: Counter[_RuleAction] = Counter()
    for sample in samples:
        decided = decisions_of(sample)
        for step, seen in enumerate(seen_steps(store, sample, index)):
            due_actions = [(rule.id, action) for rule in seen.satisfied for action in rule.due]
            due.update(due_actions)
            followed.update(action for action in due_actions if _was_decided(action[1], decided.get(step, ())))
    return tuple(_with_counts(rule, index.by_id[rule.id].actions, due, followed) for rule in rules)


def _was_decided(action: RuleAction, decided: Iterable[Action]) -> bool:
    return any(kind == action.kind and action.names(name) for kind, name in decided)


def _with_counts(
    rule: ProtocolRule, actions: Sequence[RuleAction], due: Counter[_RuleAction], followed: Counter[_RuleAction]
) -> ProtocolRule:
    rule_actions = [(rule.id, action) for action in actions]
    if not due[rule_actions[0]]:
        return rule
    shares = tuple(round(followed[action] / due[action], 4) if due[action] else 0.0 for action in rule_actions)
    return replace(rule, support=due[rule_actions[0]], precision=shares[0], shares=shares)
