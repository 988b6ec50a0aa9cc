"""Induce rules with a model (TRACE's Reflector): one checked rule per missed decision."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from typing import Any

from wardround.agents.stays import PRIOR, REFLECTOR
from wardround.clinical.bundles import Bundle
from wardround.clinical.protocols import (
    GlobalProtocol,
    ProtocolRule,
    RuleAction,
    RuleIndex,
    RuleOrigin,
    compile_rule,
    merge_protocols,
)
from wardround.core import (
    FormatError,
    LeakError,
    Progress,
    ProviderError,
    Reporter,
    UserError,
    derive_seed,
    load_prompt,
    private_folder,
    run_to_end,
    silent,
)
from wardround.learning.cases import check_teaches
from wardround.learning.induction.inducing import induction_origin, with_measures
from wardround.learning.induction.step_table import Action, SeenStep, steps_of
from wardround.log import EpisodeLog, EpisodeRecorder, LogReader, Trajectory
from wardround.memory import ModelAsker
from wardround.memory.construction import AskingBudget, ask_value
from wardround.models import Model, recorded_replies, resumed
from wardround.records import Store
from wardround.runs.banks import TRAINING_SPLIT
from wardround.runs.folder import RunFolder
from wardround.runs.models import open_named_model
from wardround.runs.settings import EpisodeKey
from wardround.runs.sources import open_benchmark, open_store
from wardround.runs.stays import played_bundles
from wardround.tasks.answers import StepAction
from wardround.tasks.benchmarks import Sample
from wardround.tasks.scoring import missed_actions
from wardround.tools.knowledge.egress import Fingerprint, fingerprint_of, identifying_traits

# Decisions of training stays that a run did not predict: the Reflector's questions, and their order.


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedDecision:
    """One decision that was not predicted at its step.

    ``predicted``: the names predicted there, of all types.
    """

    sample: Sample
    step: int
    action: Action
    predicted: tuple[str, ...]

    @property
    def key(self) -> str:
        """The name of the decision in the log."""
        return f"{self.sample.id}|{self.step}|{'|'.join(self.action)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRunStays:
    """The finished stays of one contender of a training run: samples, steps, missed decisions."""

    samples: tuple[Sample, ...]
    steps: int
    missed: tuple[MissedDecision, ...]


def training_run_stays(reader: LogReader, samples: Mapping[str, Sample], agent: str, model: str) -> TrainingRunStays:
    """Return the finished stays of an agent with a model. LeakError: a stay may not teach."""
    taught: dict[str, Sample] = {}
    missed: list[MissedDecision] = []
    steps = 0
    for trajectory in reader.trajectories():
        key = EpisodeKey.parse(trajectory.episode)
        if (key.agent, key.model) != (agent, model) or trajectory.outcome is None or key.sample in taught:
            continue
        sample = samples[key.sample]
        if sample.split != TRAINING_SPLIT:
            raise LeakError(f"sample {sample.id!r} is in split {sample.split!r}; only training samples may teach")
        taught[sample.id] = sample
        steps_and_missed = _missed(trajectory, sample)
        steps += steps_and_missed[0]
        missed += steps_and_missed[1]
    if not taught:
        raise UserError(
            f"the run has no finished stay of {agent} with {model}; continue it with `wardround run --resume`"
        )
    return TrainingRunStays(samples=tuple(taught[name] for name in sorted(taught)), steps=steps, missed=tuple(missed))


def _missed(trajectory: Trajectory, sample: Sample) -> tuple[int, list[MissedDecision]]:
    """Return the number of steps of a stay, and its missed decisions."""
    predictions_by_step = {
        note.detail["step"]: note.detail["actions"] for note in trajectory.notes if note.kind == "step"
    }
    predicted = [
        str(StepAction(step=step, kind=action["kind"], name=action["name"]))
        for step, actions in predictions_by_step.items()
        for action in actions
    ]
    return len(predictions_by_step), [
        MissedDecision(
            sample=sample,
            step=action.step,
            action=(action.kind, action.name),
            predicted=tuple(one["name"] for one in predictions_by_step[action.step]),
        )
        for action in missed_actions(predicted, sample.target)
        if action.step is not None and action.step in predictions_by_step
    ]


def in_turn(missed: Sequence[MissedDecision], *, seed: int) -> list[MissedDecision]:
    """Return decisions in the order of the questions.

    First one of each action, most missed action first, then a second of each, and so on. The order within an action is
    random.
    """
    counts = Counter(decision.action for decision in missed)
    used: Counter[Action] = Counter()
    ranking: list[tuple[int, int, Action, int]] = []
    drawn = sorted(missed, key=lambda one: derive_seed(seed, "reflect", one.key))
    for index, one in enumerate(drawn):
        ranking.append((used[one.action], -counts[one.action], one.action, index))
        used[one.action] += 1
    return [drawn[index] for *_, index in sorted(ranking)]


# Check a proposed rule in code: patient names, its action, and whether its trigger held.


VERBS: Mapping[str, str] = {"MEDICATIONS": "start", "LABS": "order", "PROCEDURES": "perform"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRule:
    """A rule, or the reason why it was refused."""

    rule: ProtocolRule | None = None
    refused: str | None = None


def proposed_rule(
    reply: Mapping[str, Any], missed: MissedDecision, seen: SeenStep, record: Fingerprint, *, number: int, model: str
) -> ProposedRule:
    """Check a Reflector's reply and return its rule, or why it is refused.

    Refused: a rule that names its patient, has another action than the missed one, or whose trigger did not hold. A
    rule that code cannot evaluate is kept for a model's Router.
    """
    rule_text = "\n".join(str(reply[field]) for field in ("category", "trigger", "action", "text"))
    traits = identifying_traits(rule_text, record)
    if traits:
        return ProposedRule(refused=f"contains {traits[0]}")
    kind, name = missed.action
    try:
        action = _action(str(reply["action"]), VERBS[kind])
        rule = ProtocolRule(
            id=f"M{number:03d}",
            category=_category(str(reply["category"])),
            trigger=" ".join(str(reply["trigger"]).split()),
            actions=(str(action),),
            text=" ".join(str(reply["text"]).split()),
            provenance=RuleOrigin(origin="reflected", source=f"{model}, training stays"),
        )
    except UserError as error:
        return ProposedRule(refused=str(error))
    if action.kind != kind or not action.names(name):
        return ProposedRule(refused="has another action than the missed decision")
    compiled = compile_rule(rule)
    if compiled.trigger.node is not None and not compiled.holds(seen.facts):
        return ProposedRule(refused="its trigger did not hold when the decision was missed")
    return ProposedRule(rule=rule)


def _action(text: str, verb: str) -> RuleAction:
    """Parse an action; a bare name gets the verb of its type."""
    try:
        return RuleAction.parse(text)
    except UserError:
        return RuleAction.parse(f"{verb} {text}")


def _category(text: str) -> str:
    """Return an upper-case label; the frequency prior's own label is not available."""
    label = re.sub(r"\W+", "_", text.upper()).strip("_") or "OTHER"
    return f"{label}_RULE" if label == PRIOR else label


# The Reflector with a model (TRACE, section 3.2, appendix A.1): one missed decision, one rule, within a call budget.
#
# It reads a run on training stays, as ``evolve`` and ``memory build`` do. Calls are recorded in ``induction/`` of the
# run folder and replayed from there, so a killed induction repeats no call.


INDUCTION = "induction"
CALLS = 200
"""Default number of calls; the paper prints no budget."""
_STATE_TOKENS, _HISTORY_TOKENS = 800, 2_000
_STAYS_KEPT = 64
_PlayedBundles = tuple[list[Bundle], list[Bundle]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionSettings:
    """Whose failures teach, and the limits. ``agent`` and ``model``: needed where a run has several."""

    agent: str | None = None
    model: str | None = None
    calls: int = CALLS
    rules: int = 441
    seed: int = 0


@dataclass(slots=True, kw_only=True)
class Reflection:
    """The result of a reflection.

    ``missed``: decisions that were not predicted. ``reflected``: decisions put to the model. ``covered``: decisions
    that an earlier rule predicts. ``same``: duplicate rules. ``refused``: refused rules by reason.
    """

    protocol: GlobalProtocol
    missed: int = 0
    reflected: int = 0
    calls: int = 0
    covered: int = 0
    same: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def reflect_by_model(
    folder: RunFolder,
    settings: ReflectionSettings,
    *,
    base: GlobalProtocol | None = None,
    report: Reporter = silent,
) -> Reflection:
    """Return the base's rules plus the rules that the run's own model draws from missed decisions.

    UserError: the run is not on training stays, or its endpoint fails; the same call continues where it stopped.
    """
    check_teaches(folder)
    return run_to_end(_reflect(folder, settings, base, report))


async def _reflect(
    folder: RunFolder, settings: ReflectionSettings, base: GlobalProtocol | None, report: Reporter
) -> Reflection:
    store, benchmark = open_store(folder), open_benchmark(folder)
    run_settings = folder.settings.run
    agent = _only_one("agent", run_settings.agents, settings.agent)
    name = _only_one("model", run_settings.models, settings.model)
    samples = {sample.id: sample for sample in benchmark.all_samples}
    with LogReader(folder.logs, may_be_empty=True) as episodes:
        taught = training_run_stays(episodes, samples, agent, name)
    started = base or GlobalProtocol(name=f"induced from {benchmark.name}", rules=())
    private_folder(folder.path / INDUCTION)
    model = open_named_model(folder.settings, store, name)
    try:
        with (
            LogReader(folder.path / INDUCTION, may_be_empty=True) as earlier,
            EpisodeLog(folder.new_log(INDUCTION)) as log,
        ):
            reflecting = _Reflecting(
                folder=folder, store=store, settings=settings, model=model, earlier=earlier, log=log, base=started
            )
            result = await reflecting.all(taught, report)
    finally:
        await model.close()
    origin = induction_origin(benchmark, store, stays=len(taught.samples), steps=taught.steps)
    result.protocol = replace(result.protocol, induced=origin)
    return result


def _only_one(option: str, available: Sequence[str], requested: str | None) -> str:
    if requested is not None and requested not in available:
        raise UserError(f"the run has no {option} {requested!r}; it has {', '.join(available)}")
    if requested is None and len(available) > 1:
        raise UserError(f"the run has several {option}s: choose whose failures teach with --{option} {available[0]}")
    return requested or available[0]


@dataclass(slots=True, kw_only=True)
class _Reflecting:
    """The open resources of one reflection."""

    folder: RunFolder
    store: Store
    settings: ReflectionSettings
    model: Model
    earlier: LogReader
    log: EpisodeLog
    base: GlobalProtocol
    records: dict[int, Fingerprint] = field(default_factory=dict)
    stays: dict[str, _PlayedBundles] = field(default_factory=dict)

    async def all(self, taught: TrainingRunStays, report: Reporter) -> Reflection:
        """Ask about missed decisions in turn until the calls, the rules or the decisions are used up."""
        result = Reflection(protocol=self.base.with_rules(()), missed=len(taught.missed))
        budget = AskingBudget(left=self.settings.calls)
        for missed in in_turn(taught.missed, seed=self.settings.seed):
            if not budget.left or len(result.protocol) >= self.settings.rules:
                break
            await self._reflect_on(missed, result, budget)
            report(Progress(label="reflecting", done=budget.calls, total=self.settings.calls, unit="calls"))
        result.calls = budget.calls
        rules = with_measures(result.protocol.rules, self.store, taught.samples)
        result.protocol = merge_protocols(self.base, self.base.with_rules(rules)).protocol
        return result

    async def _reflect_on(self, missed: MissedDecision, result: Reflection, budget: AskingBudget) -> None:
        """Ask about one missed decision, unless an earlier rule predicts it, and keep the resulting rule."""
        # The step as it was known, read by the rules made so far
        steps = steps_of(*self._played(missed.sample), RuleIndex(result.protocol))
        seen = next(islice(steps, missed.step, None))
        if missed.action in seen.predicted:
            result.covered += 1
            return
        result.reflected += 1
        recorder = self.log.begin(f"reflect|{missed.key}", {"sample": missed.sample.id, "step": missed.step})
        reply = await self._ask(missed, seen, recorder, budget)
        if isinstance(reply, str):
            result.refused[reply] += 1
            recorder.finish({"refused": reply})
            return
        proposed = proposed_rule(
            reply, missed, seen, self._record(missed), number=result.reflected, model=self.model.name
        )
        if proposed.rule is None:
            result.refused[proposed.refused or ""] += 1
        else:
            merged = merge_protocols(result.protocol, result.protocol.with_rules((proposed.rule,)))
            result.same += len(merged.same)
            result.protocol = merged.protocol
        recorder.finish({"rule": proposed.rule and proposed.rule.id, "refused": proposed.refused})
        self.log.flush()

    def _played(self, sample: Sample) -> _PlayedBundles:
        """Return the bundles of a stay; the last few are cached, because many decisions are of one stay."""
        if sample.id not in self.stays:
            self.stays[sample.id] = played_bundles(self.store, sample)
            for oldest in list(self.stays)[:-_STAYS_KEPT]:
                del self.stays[oldest]
        return self.stays[sample.id]

    async def _ask(
        self, missed: MissedDecision, seen: SeenStep, recorder: EpisodeRecorder, budget: AskingBudget
    ) -> Mapping[str, Any] | str:
        """Return the reply, or a text with the reason why there is none. UserError: the endpoint failed."""
        kind, wanted = missed.action
        state, history = seen.render(state_tokens=_STATE_TOKENS, history_tokens=_HISTORY_TOKENS)
        text = load_prompt("wardround.agents", REFLECTOR.template).render(
            state=state,
            history=history,
            predicted=", ".join(missed.predicted),
            wanted=wanted,
            kind=kind,
            verb=VERBS[kind],
        )
        name = f"reflect|{missed.key}"
        asker = ModelAsker(
            model=resumed(self.model, recorded_replies(self.earlier, name), note=recorder.note, keep=recorder.keep),
            recorder=recorder,
            episode=name,
            settings=self.folder.settings.memory.reflection,
        )
        try:
            value: Mapping[str, Any] = await ask_value(
                asker, text, REFLECTOR.schema, purpose=REFLECTOR.name, budget=budget
            )
        except FormatError:
            return "no usable reply"
        except ProviderError as error:
            raise UserError(f"{error}; the same command continues where it stopped and repeats no call") from error
        return value

    def _record(self, missed: MissedDecision) -> Fingerprint:
        """Return the identifying traits of the patient's record, up to the end of the stay."""
        subject = missed.sample.subject_id
        if subject not in self.records:
            _, bundles = self._played(missed.sample)
            self.records[subject] = fingerprint_of(self.store.chart(subject, bundles[-1].hour + timedelta(hours=2)))
        return self.records[subject]
