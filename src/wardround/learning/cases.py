"""A finished run on training samples, opened to learn from: its attempts as cases, and who is asked about them."""

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
    """Who is asked for what is learnt: the run's models, recorded in a folder of the run. What was asked before is
    served from there, so that a killed process goes on without asking twice."""

    folder: RunFolder
    models: Mapping[str, Model]
    earlier: LogReader
    log: EpisodeLog

    def asker(self, name: str, model: str, recorder: EpisodeRecorder) -> ModelAsker:
        """Return who asks a model under a name of the record."""
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
    """Reads a run's episodes sample by sample. ``success``: the least score that counts as one, where it is not that
    of the task's kind of answer."""

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
        """The finished attempts by agent, model and sample; a sample of which some are still to come is left
        out, and counted."""
        found: dict[tuple[str, ...], list[EpisodeEntry]] = {}
        for entry in self.episodes.episodes():
            key = EpisodeKey.parse(entry.key)
            found.setdefault((key.agent, key.model, key.task, key.sample), []).append(entry)
        expected = self.folder.settings.run.epochs
        whole = [group for group in found.values() if sum(entry.state == "finished" for entry in group) >= expected]
        usable = [[entry for entry in group if is_usable(entry)] for group in whole]
        ordered = [sorted(group, key=_epoch) for group in usable if group]
        return ordered, len(found) - len(whole)

    def case(self, group: Sequence[EpisodeEntry]) -> Case:
        """A sample with its attempts. Raises LeakError for one that nothing may be learnt from."""
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
        """The sample of an episode. Raises LeakError for one that nothing may be learnt from."""
        sample = self._samples[key.sample]
        if sample.split != TRAINING_SPLIT:
            raise LeakError(f"sample {sample.id!r} is of split {sample.split!r}: nothing may be learnt from it")
        return sample

    def provenance(self, sample: Sample) -> Provenance:
        """Where what is learnt from a sample comes from."""
        subject = Subject(source=self.store.spec.people, subject_id=sample.person)
        return Provenance(
            sample=sample.id,
            subject=self.bank.subject_hash(subject),
            split=sample.split,
            run=self.folder.provenance,
        )

    def material(self, trajectory: Trajectory, sample: Sample) -> Material:
        """What an attempt gives to learn from; its score is None where no judge has said it."""
        answer = (trajectory.outcome or {}).get("answer")
        given = None if answer is None else tuple(answer)
        return Material(
            task=sample.task,
            question=trajectory.turns[0].prompt[1].content or "",
            messages=trajectory_messages(trajectory),
            prediction=given,
            target=sample.target,
            score=self._scores.score(trajectory.episode, given, sample),
        )

    def _attempt(self, episode: str, sample: Sample) -> Attempt:
        trajectory = self.episodes.trajectory(episode)
        material = self.material(trajectory, sample)
        if material.score is None:
            raise UserError(f"no judge has said what the answer of {episode!r} is worth: go on with run --resume")
        acts = [turn for turn in trajectory.turns if turn.purpose == "act"]
        rows = tuple(tuple(row for record in turn.results for row in record.row_ids) for turn in acts)
        success = is_success(material.score, sample, self.success)
        return Attempt(episode=episode, material=material, success=success, rows=rows)


def is_success(score: float, sample: Sample, least: float | None = None) -> bool:
    """Whether a score counts as a success: by the task's kind of answer, where nothing else is said."""
    return score >= (get_task(sample.task).answer.success if least is None else least)


def _epoch(entry: EpisodeEntry) -> int:
    return EpisodeKey.parse(entry.key).epoch


def is_usable(entry: EpisodeEntry) -> bool:
    """An attempt that came to an end of its own: one that an endpoint broke off teaches nothing."""
    return entry.state == "finished" and (entry.outcome or {}).get("finish") != "error" and entry.turns > 0
