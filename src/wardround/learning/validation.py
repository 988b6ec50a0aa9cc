"""Judge what a bank holds: each new experience by rollouts (validate), and the bank by two held-out runs (gate).

Validation (section 4.1 of the GSEM paper) plays rollouts on training cases of other subjects. Each rollout with one
experience is paired with one of the same case and seed without any, which is played once for all experiences.
``credit`` begins an experience's trial with these pairs; ``eq10`` sets its quality by equation 4, from the rollouts
with it alone, as published. Everything is recorded in ``reliability/`` of the run, and is played once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from wardround.agents import AgentSpec
from wardround.agents.recall import with_experience
from wardround.core import Progress, Reporter, UserError, derive_seed, run_to_end, silent
from wardround.learning.cases import is_success
from wardround.log import LogReader
from wardround.memory import Bank, Experience, Subject, scope_of
from wardround.memory.credit import EpisodeName
from wardround.memory.learning import EvolutionSettings, PlayedEpisode, learn
from wardround.memory.outcomes import QualityWriter
from wardround.memory.rows import GateRecord, look_of
from wardround.runs.banks import TRAINING_SPLIT, Memories
from wardround.runs.execute import episode_keys, open_work
from wardround.runs.folder import RunFolder
from wardround.runs.results import score_run
from wardround.runs.settings import EpisodeKey
from wardround.runs.worker import Worker, case_of, open_worker, plain_agent
from wardround.tasks.benchmarks import Sample
from wardround.tasks.scoring import EpisodeScore, HeldOutPairs, gate
from wardround.tasks.scoring.gate import GateStandard, look_level

FOLDER = "reliability"
ROLLOUTS = 5
_TRIED_FOR_EACH = 4
"""Cases examined per wanted case: an experience is only tried where it applies."""


@dataclass(slots=True, kw_only=True)
class Reliability:
    """What came of it: experiences that were tried, rollouts with one and without any, what had no case to be tried on,
    episodes that an endpoint broke off."""

    tried: int = 0
    rollouts: int = 0
    without: int = 0
    untried: int = 0
    failed: int = 0


def validate(
    folder: RunFolder, bank: Bank, *, rollouts: int = ROLLOUTS, concurrency: int = 8, report: Reporter = silent
) -> Reliability:
    """Try every live experience of the graph that was not tried yet on a training run's own cases.

    Raises UserError unless the run is on the training split, of one agent and one model.
    """
    run = folder.settings.run
    if run.split != TRAINING_SPLIT:
        raise UserError(f"experiences are tried on the {TRAINING_SPLIT} split; this run is on {run.split!r}")
    if len(run.agents) > 1 or len(run.models) > 1:
        raise UserError("reliability is that of one agent with one model; this run has several")
    open_work(folder).close()  # refuses a run whose sources changed
    return run_to_end(_validate(folder, bank, rollouts, concurrency, report))


async def _validate(folder: RunFolder, bank: Bank, rollouts: int, concurrency: int, report: Reporter) -> Reliability:
    (name,) = folder.settings.run.agents
    agent = plain_agent(folder.settings, name)
    worker = open_worker(folder, concurrency, memories=Memories(), agents={name: agent}, logs=FOLDER)
    try:
        keys = {(key.task, key.sample): key for key in episode_keys(folder.settings, worker.benchmark)}
        validating = _Validating(
            folder=folder,
            bank=bank,
            worker=worker,
            agent=agent,
            keys=sorted(keys.values()),
            rollouts=rollouts,
            together=asyncio.Semaphore(concurrency),
        )
        return await validating.all(report)
    finally:
        await worker.close()


@dataclass(slots=True, kw_only=True)
class _Validating:
    """The open resources of one validation."""

    folder: RunFolder
    bank: Bank
    worker: Worker
    agent: AgentSpec
    keys: Sequence[EpisodeKey]
    rollouts: int
    together: asyncio.Semaphore
    result: Reliability = field(default_factory=Reliability)

    async def all(self, report: Reporter) -> Reliability:
        """Validate one experience after the other, with its rollouts in parallel."""
        known = {step.episode.rsplit("|", 1)[-1] for step in self.bank.learning_steps(f"{self._run}|done|")}
        waiting = [
            experience for experience in self.bank.experiences() if experience.polar and experience.id not in known
        ]
        without: set[str] = set()
        for done, experience in enumerate(waiting, start=1):
            await self._try(experience, without)
            report(Progress(label="validating", done=done, total=len(waiting), unit="experiences"))
        self.result.without = len(without)
        return self.result

    async def _try(self, experience: Experience, without: set[str]) -> None:
        """Play the pairs of one experience, ``without`` naming those halves that are there, and write what they say."""
        pairs = {key: (f"with|{experience.id}|{key}", f"without|{key}") for key in self._cases(experience)}
        self.result.untried += not pairs
        shown = with_experience(self.agent, experience)
        async with asyncio.TaskGroup() as tasks:
            for key, (first, second) in pairs.items():
                tasks.create_task(self._play(first, key, shown))
                if second not in without:
                    tasks.create_task(self._play(second, key, self.agent))
                    without.add(second)
        self.worker.log.flush()
        with LogReader(self.folder.path / FOLDER) as logs:
            self._settle(experience, pairs, logs)

    @property
    def _run(self) -> str:
        return f"{self.folder.provenance}:reliability"

    async def _play(self, name: str, key: EpisodeKey, agent: AgentSpec) -> None:
        async with self.together:
            await self.worker.play_as(name, key, agent)

    def _cases(self, experience: Experience) -> Iterator[EpisodeKey]:
        """Return cases of other subjects where it applies, preferably of its own task, drawn by the seed."""
        own = {subject for name, _, subject, _ in self.bank.origins() if name == experience.id}
        seed = self.folder.settings.run.seed
        others = [
            key
            for key in self.keys
            if self.bank.subject_hash(
                Subject(source=self.worker.store.spec.people, subject_id=self.worker.samples[key.sample].person)
            )
            not in own
        ]
        same = [key for key in others if key.task == experience.task]
        drawn = sorted(same or others, key=lambda key: derive_seed(seed, "reliability", experience.id, key.sample))
        found = 0
        for key in drawn[: _TRIED_FOR_EACH * self.rollouts]:
            if found == self.rollouts:
                return
            if self._applies(experience, self.worker.samples[key.sample]):
                found += 1
                yield key

    def _applies(self, experience: Experience, sample: Sample) -> bool:
        case = case_of(self.worker.store, self.worker.benchmark, sample)
        return scope_of(experience, case.findings()).applies

    def _settle(self, experience: Experience, pairs: Mapping[EpisodeKey, tuple[str, str]], logs: LogReader) -> None:
        """Write what the pairs say, and that it was tried; where an endpoint broke one off, it is tried again."""
        scored = {
            key: (self._score(logs, with_it, key), self._score(logs, without, key))
            for key, (with_it, without) in pairs.items()
        }
        if any(score is None for scores in scored.values() for score in scores):
            self.result.failed += 1
            return
        settings = self.folder.settings.memory.evolution
        with self.bank.batch():
            for key, (shown, masked) in scored.items():
                if settings.quality == "credit":
                    self._learn(experience, key, shown or 0.0, False, settings)
                    self._learn(experience, key, masked or 0.0, True, settings)
                else:
                    right = is_success(shown or 0.0, self.worker.samples[key.sample])
                    self._learn(experience, key, float(right), False, settings)
            self.bank.set_graph(reason=f"tried in {len(scored)} pairs", episode=f"{self._run}|done|{experience.id}")
        self.result.tried += bool(scored)
        self.result.rollouts += len(scored)

    def _learn(
        self, experience: Experience, key: EpisodeKey, score: float, masked: bool, settings: EvolutionSettings
    ) -> None:
        side = "without" if masked else "with"
        sample = self.worker.samples[key.sample]
        played = PlayedEpisode(
            name=EpisodeName(
                run=self._run,
                agent=key.agent,
                sample=f"{side}|{experience.id}|{key.task}|{key.sample}",
                epoch=key.epoch,
            ),
            sample=sample.id,
            task=key.task,
            split=sample.split,
            score=score,
            shown=() if masked else (experience.id,),
            masked=(experience.id,) if masked else (),
            masked_shares={experience.id: 0.5},  # a pair is both sides of a fair coin
        )
        writer: QualityWriter = "credit" if settings.quality == "credit" else "eq4"
        learn(self.bank, played, settings, rule=replace(settings.rule, writer=writer))

    def _score(self, logs: LogReader, name: str, key: EpisodeKey) -> float | None:
        """Return the score of a rollout; None if its endpoint failed."""
        trajectory = logs.trajectory(name)
        outcome = trajectory.outcome or {}
        if outcome.get("finish") == "error":
            return None
        sample = self.worker.samples[key.sample]
        answer = outcome.get("answer")
        return self.worker.scores.score(name, answer, sample)


# The gate: a bank judged by two runs on held-out samples, with and without it; the bank stores the verdict.


HELD_OUT = "dev"


def gate_bank(
    bank: Bank, without: RunFolder, with_it: RunFolder, *, standard: GateStandard = "benefit", seed: int = 0
) -> GateRecord:
    """Judge the content of a bank that a run read, task by task, and keep numbers, budget and level in the bank.

    Every further pair of runs is a further look, which spends less of the level
    (:func:`wardround.tasks.scoring.gate.look_level`).

    Raises UserError unless both runs are on the same samples of the dev split, of one agent each, and one of them with
    this bank.
    """
    judged = _judged(bank, without, with_it)
    pairs = held_out_pairs(score_run(without), score_run(with_it))
    look = look_of(bank.file, without.provenance, with_it.provenance)
    level = look_level(look)
    verdicts = gate(pairs, seed=seed, standard=standard, level=level)
    settings = {"standard": standard, "level": level, "without": without.provenance, "with": with_it.provenance}
    kept: dict[str, dict[str, Any]] = {task: {**asdict(one), **settings} for task, one in verdicts.items()}
    record = GateRecord(revision=judged["revision"], content=judged["sha256"], look=look, verdicts=kept)
    bank.record_gate(record)
    return record


def held_out_pairs(without: list[EpisodeScore], with_it: list[EpisodeScore]) -> dict[str, HeldOutPairs]:
    """Return the scores of samples in both runs, by task; samples are matched by epoch."""
    first = {(one.task, one.sample, one.epoch): one for one in without}
    second = {(one.task, one.sample, one.epoch): one for one in with_it}
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise UserError("the two runs have no scored episode in common, so nothing can be judged")
    names = {task: [key for key in shared if key[0] == task] for task, _, _ in shared}
    return {
        task: HeldOutPairs(
            without=[first[key].value for key in keys],
            with_it=[second[key].value for key in keys],
            subjects=[first[key].subject_id for key in keys],
        )
        for task, keys in names.items()
    }


def _judged(bank: Bank, without: RunFolder, with_it: RunFolder) -> Mapping[str, Any]:
    """Return the manifest's entry about the bank of the run."""
    for folder in (without, with_it):
        run = folder.settings.run
        if run.split != HELD_OUT:
            raise UserError(f"{folder.path} is on {run.split!r}: a bank is judged on {HELD_OUT!r} (--split {HELD_OUT})")
        if len(run.agents) > 1 or len(run.models) > 1:
            raise UserError(f"{folder.path} has several agents or models: judge one at a time")
    for name in ("benchmark_digest", "store_digest", "policy"):
        if without.manifest[name] != with_it.manifest[name]:
            raise UserError(f"the two runs differ in {name}: they show nothing of the bank")
    if (
        without.settings.run.models != with_it.settings.run.models
        or without.settings.memory.bank
        or without.settings.memory.banks
    ):
        raise UserError("judge the same model with the bank and without any")
    read = with_it.settings.memory
    if read.bank is None or not bank.path.samefile(read.bank) or read.gate != "ignore":
        raise UserError(f"{with_it.path} did not read {bank.path}, ungated: play it with --set memory.gate=ignore")
    judged: Mapping[str, Any] = with_it.manifest["bank"]
    return judged
