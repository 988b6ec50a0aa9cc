"""The Reflector by a model: one missed decision, one checked rule, within a budget."""

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
from wardround.learning.induction.inducing import measured, taught_by
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

# Decisions of training stays that a run did not foretell: what a Reflector is asked about, and in which order.


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedDecision:
    """One decision that was not foretold at its step. ``predicted``: the names that were, of all types."""

    sample: Sample
    step: int
    action: Action
    predicted: tuple[str, ...]

    @property
    def key(self) -> str:
        """Names it in a record."""
        return f"{self.sample.id}|{self.step}|{'|'.join(self.action)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaughtStays:
    """The finished stays of one contender of a training run: samples, steps that were played, what was missed."""

    samples: tuple[Sample, ...]
    steps: int
    missed: tuple[MissedDecision, ...]


def taught_stays(reader: LogReader, samples: Mapping[str, Sample], agent: str, model: str) -> TaughtStays:
    """Return the finished stays that an agent played with a model. Raises LeakError for one that may not teach."""
    found: dict[str, Sample] = {}
    missed: list[MissedDecision] = []
    steps = 0
    for trajectory in reader.trajectories():
        key = EpisodeKey.parse(trajectory.episode)
        if (key.agent, key.model) != (agent, model) or trajectory.outcome is None or key.sample in found:
            continue
        sample = samples[key.sample]
        if sample.split != TRAINING_SPLIT:
            raise LeakError(f"sample {sample.id!r} is of split {sample.split!r}: nothing may be learnt from it")
        found[sample.id] = sample
        played = _missed(trajectory, sample)
        steps += played[0]
        missed += played[1]
    if not found:
        raise UserError(f"the run holds no finished stay of {agent} with {model}; go on with `wardround run --resume`")
    return TaughtStays(samples=tuple(found[name] for name in sorted(found)), steps=steps, missed=tuple(missed))


def _missed(trajectory: Trajectory, sample: Sample) -> tuple[int, list[MissedDecision]]:
    """The steps of a stay that were played, and what was missed at them."""
    said = {note.detail["step"]: note.detail["actions"] for note in trajectory.notes if note.kind == "step"}
    answer = [
        str(StepAction(step=step, kind=one["kind"], name=one["name"])) for step, some in said.items() for one in some
    ]
    return len(said), [
        MissedDecision(
            sample=sample,
            step=action.step,
            action=(action.kind, action.name),
            predicted=tuple(one["name"] for one in said[action.step]),
        )
        for action in missed_actions(answer, sample.target)
        if action.step is not None and action.step in said
    ]


def in_turn(missed: Sequence[MissedDecision], *, seed: int) -> list[MissedDecision]:
    """Return decisions in the order in which they are asked about: of every action one, the most missed action first,
    then a second of each, and so on. Which of an action comes first is drawn."""
    counts = Counter(one.action for one in missed)
    met: Counter[Action] = Counter()
    places: list[tuple[int, int, Action, int]] = []
    drawn = sorted(missed, key=lambda one: derive_seed(seed, "reflect", one.key))
    for place, one in enumerate(drawn):
        places.append((met[one.action], -counts[one.action], one.action, place))
        met[one.action] += 1
    return [drawn[place] for *_, place in sorted(places)]


# A rule that a model proposed, checked in code before it counts: whom it names, what it asks for, whether it held.


VERBS: Mapping[str, str] = {"MEDICATIONS": "start", "LABS": "order", "PROCEDURES": "perform"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRule:
    """A rule, or why it is none."""

    rule: ProtocolRule | None = None
    refused: str | None = None


def proposed_rule(
    said: Mapping[str, Any], missed: MissedDecision, seen: SeenStep, record: Fingerprint, *, number: int, model: str
) -> ProposedRule:
    """Read a Reflector's reply. A rule that names its patient, asks for something else than what was missed, or did not
    hold when it should have is refused; one that no code can judge is kept for a model's Router."""
    told = "\n".join(str(said[field]) for field in ("category", "trigger", "action", "text"))
    traits = identifying_traits(told, record)
    if traits:
        return ProposedRule(refused=f"holds {traits[0]}")
    kind, name = missed.action
    try:
        action = _action(str(said["action"]), VERBS[kind])
        rule = ProtocolRule(
            id=f"M{number:03d}",
            category=_category(str(said["category"])),
            trigger=" ".join(str(said["trigger"]).split()),
            actions=(str(action),),
            text=" ".join(str(said["text"]).split()),
            provenance=RuleOrigin(origin="reflected", source=f"{model}, training stays"),
        )
    except UserError as error:
        return ProposedRule(refused=str(error))
    if action.kind != kind or not action.names(name):
        return ProposedRule(refused="asks for something else than what was missed")
    compiled = compile_rule(rule)
    if compiled.trigger.node is not None and not compiled.holds(seen.facts):
        return ProposedRule(refused="its trigger did not hold when the decision was missed")
    return ProposedRule(rule=rule)


def _action(text: str, verb: str) -> RuleAction:
    """An action; a bare name gets the verb of its type."""
    try:
        return RuleAction.parse(text)
    except UserError:
        return RuleAction.parse(f"{verb} {text}")


def _category(text: str) -> str:
    """A label of capitals; the frequency prior's own is not to be had."""
    label = re.sub(r"\W+", "_", text.upper()).strip("_") or "OTHER"
    return f"{label}_RULE" if label == PRIOR else label


# The Reflector by a model (TRACE, section 3.2, appendix A.1): one missed decision, one rule, within a budget of calls.
#
# It reads a run on training stays, as ``evolve`` and ``memory build`` do. Calls are recorded in ``induction/`` of the
# run folder and served from there when the same induction is run again, so one that was killed asks nothing twice.


INDUCTION = "induction"
CALLS = 200
"""So many calls where nothing else is said; the paper prints no budget."""
_STATE_TOKENS, _HISTORY_TOKENS = 800, 2_000
_STAYS_KEPT = 64
_PlayedBundles = tuple[list[Bundle], list[Bundle]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionSettings:
    """Whose failures teach, and how much may be asked. ``agent`` and ``model``: where a run has several."""

    agent: str | None = None
    model: str | None = None
    calls: int = CALLS
    rules: int = 441
    seed: int = 0


@dataclass(slots=True, kw_only=True)
class Reflection:
    """What came of it. ``missed``: decisions that were not foretold; ``asked``: those asked about; ``covered``: those
    that a rule made before foretells; ``same``: rules that said what another says; ``refused``: by why."""

    protocol: GlobalProtocol
    missed: int = 0
    asked: int = 0
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
    """Return the base's rules and those that a run's own model draws from what the run missed. UserError: the run is
    not on training stays, or its endpoint fails; the same call goes on where it stopped."""
    check_teaches(folder)
    return run_to_end(_reflect(folder, settings, base, report))


async def _reflect(
    folder: RunFolder, settings: ReflectionSettings, base: GlobalProtocol | None, report: Reporter
) -> Reflection:
    store, benchmark = open_store(folder), open_benchmark(folder)
    played = folder.settings.run
    agent = _the_one("agent", played.agents, settings.agent)
    name = _the_one("model", played.models, settings.model)
    samples = {sample.id: sample for sample in benchmark.all_samples}
    with LogReader(folder.logs, may_be_empty=True) as episodes:
        taught = taught_stays(episodes, samples, agent, name)
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
            found = await reflecting.all(taught, report)
    finally:
        await model.close()
    origin = taught_by(benchmark, store, stays=len(taught.samples), steps=taught.steps)
    found.protocol = replace(found.protocol, induced=origin)
    return found


def _the_one(what: str, there: Sequence[str], asked: str | None) -> str:
    if asked is not None and asked not in there:
        raise UserError(f"the run has no {what} {asked!r}; it has {', '.join(there)}")
    if asked is None and len(there) > 1:
        raise UserError(f"the run has several {what}s: say which one's failures teach with --{what} {there[0]}")
    return asked or there[0]


@dataclass(slots=True, kw_only=True)
class _Reflecting:
    """What one reflection holds open."""

    folder: RunFolder
    store: Store
    settings: ReflectionSettings
    model: Model
    earlier: LogReader
    log: EpisodeLog
    base: GlobalProtocol
    records: dict[int, Fingerprint] = field(default_factory=dict)
    stays: dict[str, _PlayedBundles] = field(default_factory=dict)

    async def all(self, taught: TaughtStays, report: Reporter) -> Reflection:
        """Ask about missed decisions in turn until the calls, the rules or the decisions are used up."""
        found = Reflection(protocol=self.base.with_rules(()), missed=len(taught.missed))
        budget = AskingBudget(left=self.settings.calls)
        for missed in in_turn(taught.missed, seed=self.settings.seed):
            if not budget.left or len(found.protocol) >= self.settings.rules:
                break
            await self._take(missed, found, budget)
            report(Progress(label="reflecting", done=budget.calls, total=self.settings.calls, unit="calls"))
        found.calls = budget.calls
        rules = measured(found.protocol.rules, self.store, taught.samples)
        found.protocol = merge_protocols(self.base, self.base.with_rules(rules)).protocol
        return found

    async def _take(self, missed: MissedDecision, found: Reflection, budget: AskingBudget) -> None:
        """Ask about one missed decision, unless a rule made before foretells it, and keep the rule that it gives."""
        seen = self._seen(missed, found.protocol)
        if missed.action in seen.foretold:
            found.covered += 1
            return
        found.asked += 1
        recorder = self.log.begin(f"reflect|{missed.key}", {"sample": missed.sample.id, "step": missed.step})
        said = await self._ask(missed, seen, recorder, budget)
        if isinstance(said, str):
            found.refused[said] += 1
            recorder.finish({"refused": said})
            return
        proposed = proposed_rule(said, missed, seen, self._record(missed), number=found.asked, model=self.model.name)
        if proposed.rule is None:
            found.refused[proposed.refused or ""] += 1
        else:
            merged = merge_protocols(found.protocol, found.protocol.with_rules((proposed.rule,)))
            found.same += len(merged.same)
            found.protocol = merged.protocol
        recorder.finish({"rule": proposed.rule and proposed.rule.id, "refused": proposed.refused})
        self.log.flush()

    def _seen(self, missed: MissedDecision, rules: GlobalProtocol) -> SeenStep:
        """The step as it was known, read by the rules made so far."""
        steps = steps_of(*self._played(missed.sample), RuleIndex(rules))
        return next(islice(steps, missed.step, None))

    def _played(self, sample: Sample) -> _PlayedBundles:
        """The bundles of a stay, kept for the last few: decisions are asked about in turn, and many are of one stay."""
        if sample.id not in self.stays:
            self.stays[sample.id] = played_bundles(self.store, sample)
            for oldest in list(self.stays)[:-_STAYS_KEPT]:
                del self.stays[oldest]
        return self.stays[sample.id]

    async def _ask(
        self, missed: MissedDecision, seen: SeenStep, recorder: EpisodeRecorder, budget: AskingBudget
    ) -> Mapping[str, Any] | str:
        """Return the reply, or in words why there is none. UserError: the endpoint failed."""
        kind, wanted = missed.action
        state, history = seen.told(state_tokens=_STATE_TOKENS, history_tokens=_HISTORY_TOKENS)
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
            raise UserError(f"{error}; the same command goes on where it stopped, and asks nothing twice") from error
        return value

    def _record(self, missed: MissedDecision) -> Fingerprint:
        """What the patient's record is known by, as far as the stay."""
        subject = missed.sample.subject_id
        if subject not in self.records:
            _, bundles = self._played(missed.sample)
            self.records[subject] = fingerprint_of(self.store.chart(subject, bundles[-1].hour + timedelta(hours=2)))
        return self.records[subject]
