"""Judges of a run: free-text answers and plans, graded once the episodes have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wardround.clinical.bundles import bundle_text
from wardround.core import FormatError, ProviderError, UserError, derive_seed, private_folder, without_thinking
from wardround.log import EpisodeLog, EpisodeRecorder, LogReader, Trajectory
from wardround.models import Model, Reply, Request, recorded_replies, resumed
from wardround.records import Store
from wardround.runs.folder import RunFolder
from wardround.runs.models import open_named_model
from wardround.runs.settings import RunSettings
from wardround.runs.stays import played_bundles
from wardround.tasks.answers import JudgedText, StepAction
from wardround.tasks.benchmarks import Benchmark, Sample, get_task
from wardround.tasks.scoring import score_answer
from wardround.tasks.scoring.judging import (
    MEDR_BENCH_JUDGE,
    WORDS,
    Judge,
    JudgedCase,
    MedRBenchJudge,
    ModelJudge,
    PlanCase,
    PlanGrade,
    Verdict,
    WordsJudge,
    grade_plan,
)

# The judge of a run: asked of every answer in words of one's own once its episode has ended, in a log of its own.
#
# Verdicts and the calls they took lie in ``judgements/`` of the run folder, apart from what agents and memory read. An
# answer without a verdict (the endpoint failed, the reply could not be read) has no score; a resumed run asks again.


JUDGEMENTS = "judgements"


def must_have_judge(settings: RunSettings, tasks: Iterable[str]) -> None:
    """Raise UserError where a task's answers, or the grading of plans, need a judge and none is set that can do it, or
    the judge is one of the players."""
    asked = set(tasks)
    judged = sorted(task for task in asked if get_task(task).answer.judged)
    graded = settings.scoring.equivalence and any(get_task(task).answer.by_steps for task in asked)
    if not judged and not graded:
        return
    judge = settings.scoring.judge
    if graded and judge in (None, WORDS):
        raise UserError("scoring.equivalence needs a model that grades: --set scoring.judge=MODEL")
    if judge is None:
        raise UserError(
            f"answers to {', '.join(judged)} are in words of one's own and need a judge: --set scoring.judge=MODEL, or "
            f"{WORDS} (no model: right is an answer that holds every word of the right one)"
        )
    players = {settings.model_named(name).name for name in settings.run.models}
    if judge != WORDS and settings.model_named(judge).name in players and not settings.scoring.judge_may_play:
        raise UserError(
            f"the judge {judge!r} is a model that plays: take another one, or say --set scoring.judge_may_play=true"
        )


class Verdicts:
    """The verdicts in a run folder, by episode; read again when one is asked for that was not there."""

    def __init__(self, folder: RunFolder) -> None:
        self._place = folder.path / JUDGEMENTS
        self._known: dict[str, Verdict] = {}

    def of(self, episode: str) -> Verdict | None:
        """The verdict on an episode's answer; None where there is none."""
        if episode not in self._known and self._place.is_dir():
            self._known = _read(self._place)
        return self._known.get(episode)


def _read(place: Path) -> dict[str, Verdict]:
    with LogReader(place, may_be_empty=True) as reader:
        outcomes = ((entry.key, entry.outcome or {}) for entry in reader.episodes() if entry.state == "finished")
        return {key: Verdict.from_json(said["verdict"]) for key, said in outcomes if "verdict" in said}


class AnswerScores:
    """What the answers of a run are worth: by the scorers of their kinds, after the judge where one is needed."""

    def __init__(self, folder: RunFolder, benchmark: Benchmark) -> None:
        self._labels = {task.name: benchmark.labels(task) for task in benchmark.tasks}
        self._verdicts = Verdicts(folder)

    def score(self, episode: str, answer: Sequence[str] | None, sample: Sample) -> float | None:
        """The main figure of an episode's answer; None where a judge has yet to say."""
        given = None if answer is None else tuple(answer)
        if given is None or not get_task(sample.task).answer.judged:
            return score_answer(given, sample, self._labels[sample.task])
        verdict = self._verdicts.of(episode)
        return None if verdict is None else score_answer(given, sample, verdict.labels(given, sample.target[0]))

    def verdict(self, episode: str) -> Verdict | None:
        """The judge's verdict on an episode's answer, if any."""
        return self._verdicts.of(episode)


def unjudged(folder: RunFolder, benchmark: Benchmark) -> set[str]:
    """The finished episodes of a run whose answer needs a verdict and has none."""
    samples = {sample.id: sample for sample in benchmark.all_samples if get_task(sample.task).answer.judged}
    if not samples:
        return set()
    verdicts = Verdicts(folder)
    with LogReader(folder.logs, may_be_empty=True) as reader:
        answered = [one for one in reader.episodes() if one.state == "finished" and (one.outcome or {}).get("answer")]
    return {one.key for one in answered if one.facts["sample"] in samples and verdicts.of(one.key) is None}


@dataclass(slots=True, kw_only=True)
class Judging:
    """What judging holds open while episodes are played: the judge, its own log, the verdicts so far."""

    judge: Judge
    log: EpisodeLog
    played: Path
    verdicts: Verdicts
    failed: dict[str, str] = field(default_factory=dict)

    async def settle(self, episode: str, sample: Sample, question: str) -> None:
        """Judge the answer of an episode that has ended, unless that was done. A judge that fails costs no episode: its
        answer stays without a verdict."""
        kind = get_task(sample.task).answer
        if not isinstance(kind, JudgedText) or self.verdicts.of(episode) is not None:
            return
        answer, reasoning = self._said(episode)
        if answer is None:
            return
        case = JudgedCase(
            question=question,
            wanted=kind.wanted,
            answer=answer,
            right=sample.target[0],
            reasoning=reasoning,
            reference=str(sample.facts.get("reference") or ""),
        )
        recorder = self.log.begin(episode, {"sample": sample.id, "judge": self.judge.name})

        def record(request: Request, reply: Reply, purpose: str) -> None:
            recorder.turn(request, reply, (), purpose=purpose)

        recorder.finish(await self._outcome(case, episode, record))

    async def _outcome(self, case: JudgedCase, episode: str, record: Any) -> Mapping[str, Any]:
        try:
            verdict = await self.judge.judge(case, episode=episode, record=record)
        except (ProviderError, FormatError) as error:
            self.failed[episode] = str(error)
            return {"error": str(error)}
        return {"verdict": verdict.to_json()}

    def _said(self, episode: str) -> tuple[str | None, str]:
        """The answer of an episode and the text that led to it."""
        with LogReader(self.played) as reader:
            trajectory = reader.trajectory(episode)
        answer = (trajectory.outcome or {}).get("answer")
        return (answer[0] if answer else None), _reasoning(trajectory)

    async def close(self) -> None:
        """Write what waits, and close."""
        self.log.close()
        if isinstance(self.judge, ModelJudge | MedRBenchJudge):
            await self.judge.model.close()


def _reasoning(trajectory: Trajectory) -> str:
    spoken = [turn.reply.content or "" for turn in trajectory.turns if turn.purpose == "act"]
    return without_thinking(spoken[-1]) if spoken else ""


def open_judging(
    folder: RunFolder, store: Store, benchmark: Benchmark, *, played: Path, several_machines: bool = False
) -> Judging | None:
    """Open the judge of a run whose episodes are recorded in the folder ``played``; None where it has none.
    ``several_machines``: its log is read on others while it is written."""
    settings = folder.settings
    if settings.scoring.judge is None or not any(task.answer.judged for task in benchmark.tasks):
        return None
    private_folder(folder.path / JUDGEMENTS)
    return Judging(
        judge=_judge(settings, store),
        log=EpisodeLog(folder.new_log(JUDGEMENTS), several_machines=several_machines),
        played=played,
        verdicts=Verdicts(folder),
    )


def _judge(settings: RunSettings, store: Store) -> Judge:
    name = settings.scoring.judge or WORDS
    if name == WORDS:
        return WordsJudge()
    kind = MedRBenchJudge if settings.scoring.judge_protocol == MEDR_BENCH_JUDGE else ModelJudge
    return kind(name=name, model=open_named_model(settings, store, name), reasons=settings.scoring.judge_reasoning)


# The judge of plans: asked, once a stay has ended, how equivalent what was predicted is to what was decided.
#
# Off unless ``scoring.equivalence`` says at how many steps of a stay. Grades and the calls they took lie in
# ``judgements/`` of the run folder; a stay whose grading was broken off is graded again, what was recorded served
# first.


_LONGEST = 4_000
"""Characters of a bundle in words."""


class Grades:
    """The grades in a run folder, by episode."""

    def __init__(self, folder: RunFolder) -> None:
        self._known: dict[str, tuple[int, ...]] = {}
        place = folder.path / JUDGEMENTS
        if place.is_dir():
            with LogReader(place, may_be_empty=True) as reader:
                finished = [one for one in reader.episodes() if one.state == "finished"]
                self._known = {one.key: _grades(one.outcome or {}) for one in finished}

    def of(self, episode: str) -> tuple[int, ...]:
        """The grades of an episode's plans; none where none were asked for."""
        return self._known.get(episode, ())


def ungraded(folder: RunFolder, benchmark: Benchmark) -> set[str]:
    """The finished stays of a run whose plans are to be graded and are not."""
    if not folder.settings.scoring.equivalence or not any(task.answer.by_steps for task in benchmark.tasks):
        return set()
    grades = Grades(folder)
    with LogReader(folder.logs, may_be_empty=True) as reader:
        return {one.key for one in reader.episodes() if one.state == "finished" and not grades.of(one.key)}


def _grades(outcome: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(one["grade"]) for one in outcome.get("grades", ()))


@dataclass(slots=True, kw_only=True)
class Grading:
    """What grading holds open while stays are played. ``most``: steps of a stay that are graded, drawn by ``seed``."""

    model: Model
    judge: str
    most: int
    seed: int
    store: Store
    log: EpisodeLog
    earlier: LogReader
    played: Path
    failed: dict[str, str] = field(default_factory=dict)

    async def settle(self, episode: str, sample: Sample) -> None:
        """Grade plans of a stay that has ended, unless that was done. A judge that fails costs no stay."""
        entry = self.earlier.entry(episode)
        if entry is not None and entry.state == "finished" and "grades" in (entry.outcome or {}):
            return
        with LogReader(self.played) as reader:
            cases = list(self._drawn(reader.trajectory(episode), sample))
        if not cases:
            return
        recorder = self.log.begin(episode, {"sample": sample.id, "judge": self.judge})
        recorder.finish(await self._graded(episode, cases, recorder))

    async def _graded(self, episode: str, cases: list[PlanCase], recorder: EpisodeRecorder) -> Mapping[str, Any]:
        def record(request: Request, reply: Reply, purpose: str) -> None:
            recorder.turn(request, reply, (), purpose=purpose)

        replies = recorded_replies(self.earlier, episode)
        model = resumed(self.model, replies, note=recorder.note, keep=recorder.keep)
        found: list[PlanGrade] = []
        try:
            for place, case in enumerate(cases):
                found.append(await grade_plan(model, case, episode=episode, place=place, record=record))
        except (ProviderError, FormatError) as error:
            self.failed[episode] = str(error)
            return {"error": str(error)}
        return {"grades": [asdict(one) for one in found]}

    def _drawn(self, trajectory: Trajectory, sample: Sample) -> Iterator[PlanCase]:
        """Yield the plans that are graded, of steps at which something was decided and played."""
        decided: dict[int, list[str]] = {}
        for action in map(StepAction.parse, sample.target):
            decided.setdefault(action.step or 0, []).append(f"{action.kind.lower()}: {action.name}")
        notes = {note.detail["step"]: note.detail for note in trajectory.notes if note.kind == "step"}
        steps = sorted(decided.keys() & notes.keys(), key=lambda step: derive_seed(self.seed, sample.id, str(step)))
        bundles = played_bundles(self.store, sample)[1] if steps else []
        for step in sorted(steps[: self.most]):
            predicted = [f"{one['kind'].lower()}: {one['name']}" for one in notes[step]["actions"]]
            yield PlanCase(
                step=step,
                bundle=bundle_text(bundles[step])[:_LONGEST],
                predicted="\n".join(predicted) or "nothing",
                decided="\n".join(decided[step]),
            )

    async def close(self) -> None:
        """Write what waits, and close."""
        self.log.close()
        self.earlier.close()
        await self.model.close()


def open_grading(
    folder: RunFolder, store: Store, benchmark: Benchmark, *, played: Path, several_machines: bool = False
) -> Grading | None:
    """Open the judge of a run's plans, whose episodes lie in the folder ``played``; None where none is asked.
    ``several_machines``: its log is read on others while it is written."""
    settings = folder.settings
    judge = settings.scoring.judge
    if judge is None or not settings.scoring.equivalence or not any(task.answer.by_steps for task in benchmark.tasks):
        return None
    place = folder.path / JUDGEMENTS
    private_folder(place)
    return Grading(
        model=open_named_model(settings, store, judge),
        judge=judge,
        most=settings.scoring.equivalence,
        seed=settings.run.seed,
        store=store,
        earlier=LogReader(place, may_be_empty=True),
        log=EpisodeLog(folder.new_log(JUDGEMENTS), several_machines=several_machines),
        played=played,
    )
