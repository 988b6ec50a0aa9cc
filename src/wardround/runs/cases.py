"""The finished attempts of a training run as cases: what construction draws from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wardround.benchmarks import Benchmark, Sample, get_task
from wardround.core import LeakError, UserError
from wardround.log import EpisodeEntry, LogReader
from wardround.memory import Bank, Material, Provenance, Subject, trajectory_messages
from wardround.memory.construction import Attempt, Case
from wardround.records import Store
from wardround.runs.banks import TRAINING_SPLIT
from wardround.runs.episode import case_of
from wardround.runs.folder import RunFolder
from wardround.runs.judging import AnswerScores
from wardround.runs.settings import EpisodeKey

_DESCRIBED_TOKENS = 600


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
        usable = [[entry for entry in group if _usable(entry)] for group in whole]
        ordered = [sorted(group, key=_epoch) for group in usable if group]
        return ordered, len(found) - len(whole)

    def case(self, group: Sequence[EpisodeEntry]) -> Case:
        """A sample with its attempts. Raises LeakError for one that nothing may be learnt from."""
        key = EpisodeKey.parse(group[0].key)
        sample = self._samples[key.sample]
        if sample.split != TRAINING_SPLIT:
            raise LeakError(f"sample {sample.id!r} is of split {sample.split!r}: nothing may be learnt from it")
        subject = Subject(source=self.store.spec.people, subject_id=sample.person)
        known = case_of(self.store, self.benchmark, sample)
        return Case(
            provenance=Provenance(
                sample=sample.id,
                subject=self.bank.subject_hash(subject),
                split=sample.split,
                run=f"{self.folder.path.name}:{self.folder.manifest['settings_sha256'][:12]}",
                model=key.model,
            ),
            attempts=tuple(self._attempt(entry.key, sample) for entry in group),
            setting=known.setting(),
            description=known.description(_DESCRIBED_TOKENS),
        )

    def _attempt(self, episode: str, sample: Sample) -> Attempt:
        trajectory = self.episodes.trajectory(episode)
        answer = (trajectory.outcome or {}).get("answer")
        given = None if answer is None else tuple(answer)
        score = self._scores.score(episode, given, sample)
        if score is None:
            raise UserError(f"no judge has said what the answer of {episode!r} is worth: go on with run --resume")
        acts = [turn for turn in trajectory.turns if turn.purpose == "act"]
        material = Material(
            task=sample.task,
            question=trajectory.turns[0].prompt[1].content or "",
            messages=trajectory_messages(trajectory),
            prediction=given,
            target=sample.target,
            score=score,
        )
        rows = tuple(tuple(row for record in turn.results for row in record.row_ids) for turn in acts)
        return Attempt(episode=episode, material=material, success=is_success(score, sample, self.success), rows=rows)


def is_success(score: float, sample: Sample, least: float | None = None) -> bool:
    """Whether a score counts as a success: by the task's kind of answer, where nothing else is said."""
    return score >= (get_task(sample.task).answer.success if least is None else least)


def _epoch(entry: EpisodeEntry) -> int:
    return EpisodeKey.parse(entry.key).epoch


def _usable(entry: EpisodeEntry) -> bool:
    """An attempt that came to an end of its own: one that an endpoint broke off teaches nothing."""
    return entry.state == "finished" and (entry.outcome or {}).get("finish") != "error" and entry.turns > 0
