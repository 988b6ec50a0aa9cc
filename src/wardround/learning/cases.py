"""Open a finished run on training samples to learn from: its attempts as cases, and its models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from wardround.core import LeakError, UserError
from wardround.log import EpisodeEntry, EpisodeLog, EpisodeRecorder, LogReader, Trajectory
from wardround.memory import Bank, Material, ModelAsker, Provenance, Subject, trajectory_messages
from wardround.memory.construction import Attempt, Case
from wardround.models import Model, recorded_replies, resumed
from wardround.records import Store
from wardround.runs.banks import TRAINING_SPLIT, open_key_encoder
from wardround.runs.folder import RunFolder
from wardround.runs.judging import AnswerScores
from wardround.runs.models import open_models
from wardround.runs.settings import EpisodeKey
from wardround.runs.sources import open_benchmark, open_store
from wardround.runs.worker import case_of
from wardround.tasks.benchmarks import Benchmark, Sample, get_task
from wardround.tools.retrieval import Encoder

_DESCRIBED_TOKENS = 600


def check_teaches(folder: RunFolder) -> None:
    """Raise UserError unless a run is on the training split."""
    split = folder.settings.run.split
    if split != TRAINING_SPLIT:
        raise UserError(f"experiences come from the {TRAINING_SPLIT} split; this run is on {split!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAsking:
    """The run's models, with their calls recorded in a folder of the run.

    Recorded calls are replayed, so a killed process continues without repeated calls.
    """

    folder: RunFolder
    models: Mapping[str, Model]
    earlier: LogReader
    log: EpisodeLog

    def asker(self, name: str, model: str, recorder: EpisodeRecorder) -> ModelAsker:
        """Return the asker of a model under a name in the log."""
        replies = recorded_replies(self.earlier, name)
        kept = resumed(self.models[model], replies, note=recorder.note, keep=recorder.keep)
        return ModelAsker(model=kept, recorder=recorder, episode=name, settings=self.folder.settings.memory.reflection)


@asynccontextmanager
async def open_training_run(
    folder: RunFolder, bank: Bank, place: str, *, concurrency: int, success: float | None = None
) -> AsyncIterator[tuple[CaseReader, CaseAsking, Encoder]]:
    """Open a run's cases, its models recorded under ``place`` of its folder, and the encoder of the bank's keys."""
    store = open_store(folder)
    models = open_models(folder.settings, store, concurrency)
    (folder.path / place).mkdir(exist_ok=True)
    with (
        LogReader(folder.logs, may_be_empty=True) as episodes,
        LogReader(folder.path / place, may_be_empty=True) as earlier,
        EpisodeLog(folder.new_log(place)) as log,
    ):
        cases = CaseReader(
            folder=folder,
            store=store,
            benchmark=open_benchmark(folder),
            bank=bank,
            episodes=episodes,
            success=success,
        )
        asking = CaseAsking(folder=folder, models=models, earlier=earlier, log=log)
        try:
            yield cases, asking, open_key_encoder(folder.settings, store, bank.encoder)
        finally:
            for model in models.values():
                await model.close()


@dataclass(slots=True, kw_only=True)
class CaseReader:
    """Reads a run's episodes sample by sample.

    ``success``: the minimum score of a success, where it differs from that of the task's kind of answer.
    """

    folder: RunFolder
    store: Store
    benchmark: Benchmark
    bank: Bank
    episodes: LogReader
    success: float | None
    _samples: dict[str, Sample] = field(init=False)
    _scores: AnswerScores = field(init=False)

    def __post_init__(self) -> None:
        self._scores = AnswerScores(self.folder, self.benchmark)
        self._samples = {sample.id: sample for sample in self.benchmark.all_samples}

    def groups(self) -> tuple[list[list[EpisodeEntry]], int]:
        """Return the finished attempts by agent, model and sample, and the number of unfinished samples."""
        groups_by_sample: dict[tuple[str, ...], list[EpisodeEntry]] = {}
        for entry in self.episodes.episodes():
            key = EpisodeKey.parse(entry.key)
            groups_by_sample.setdefault((key.agent, key.model, key.task, key.sample), []).append(entry)
        expected = self.folder.settings.run.epochs
        finished = [
            group
            for group in groups_by_sample.values()
            if sum(entry.state == "finished" for entry in group) >= expected
        ]
        usable = [[entry for entry in group if is_usable(entry)] for group in finished]
        ordered = [sorted(group, key=_epoch) for group in usable if group]
        return ordered, len(groups_by_sample) - len(finished)

    def case(self, group: Sequence[EpisodeEntry]) -> Case:
        """Return a sample with its attempts. LeakError: the sample must not teach."""
        key = EpisodeKey.parse(group[0].key)
        sample = self.sample(key)
        known = case_of(self.store, self.benchmark, sample)
        return Case(
            provenance=replace(self.provenance(sample), model=key.model),
            attempts=tuple(self._attempt(entry.key, sample) for entry in group),
            setting=known.setting(),
            description=known.description(_DESCRIBED_TOKENS),
        )

    def sample(self, key: EpisodeKey) -> Sample:
        """Return the sample of an episode. LeakError: the sample must not teach."""
        sample = self._samples[key.sample]
        if sample.split != TRAINING_SPLIT:
            raise LeakError(f"sample {sample.id!r} is in split {sample.split!r}; only training samples may teach")
        return sample

    def provenance(self, sample: Sample) -> Provenance:
        """Return where the experiences of a sample come from."""
        subject = Subject(source=self.store.spec.people, subject_id=sample.person)
        return Provenance(
            sample=sample.id,
            subject=self.bank.subject_hash(subject),
            split=sample.split,
            run=self.folder.provenance,
        )

    def material(self, trajectory: Trajectory, sample: Sample) -> Material:
        """Return what an attempt gives to learn from; its score is None where no judge has scored it."""
        answer = (trajectory.outcome or {}).get("answer")
        prediction = None if answer is None else tuple(answer)
        return Material(
            task=sample.task,
            question=trajectory.turns[0].prompt[1].content or "",
            messages=trajectory_messages(trajectory),
            prediction=prediction,
            target=sample.target,
            score=self._scores.score(trajectory.episode, prediction, sample),
        )

    def _attempt(self, episode: str, sample: Sample) -> Attempt:
        trajectory = self.episodes.trajectory(episode)
        material = self.material(trajectory, sample)
        if material.score is None:
            raise UserError(f"no judge has scored the answer of {episode!r}: continue with run --resume")
        acts = [turn for turn in trajectory.turns if turn.purpose == "act"]
        rows = tuple(tuple(row for record in turn.results for row in record.row_ids) for turn in acts)
        success = is_success(material.score, sample, self.success)
        return Attempt(episode=episode, material=material, success=success, rows=rows)


def is_success(score: float, sample: Sample, min_score: float | None = None) -> bool:
    """Return whether a score is a success; by default, by the task's kind of answer."""
    return score >= (get_task(sample.task).answer.success if min_score is None else min_score)


def _epoch(entry: EpisodeEntry) -> int:
    return EpisodeKey.parse(entry.key).epoch


def is_usable(entry: EpisodeEntry) -> bool:
    """Return whether an attempt ended by itself: one broken off by an endpoint teaches nothing."""
    return entry.state == "finished" and (entry.outcome or {}).get("finish") != "error" and entry.turns > 0
