"""The judge of plans: asked, once a stay has ended, how equivalent what was predicted is to what was decided.

Off unless ``scoring.equivalence`` says at how many steps of a stay. Grades and the calls they took lie in
``judgements/`` of the run folder; a stay whose grading was broken off is graded again, what was recorded served first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wardround.answers import StepAction
from wardround.benchmarks import Benchmark, Sample
from wardround.bundles import bundle_text
from wardround.core import FormatError, ProviderError, derive_seed, private_folder
from wardround.log import EpisodeLog, EpisodeRecorder, LogReader, Trajectory
from wardround.models import Model, Reply, Request, recorded_replies, resumed
from wardround.records import Store
from wardround.runs.folder import RunFolder
from wardround.runs.judging import JUDGEMENTS
from wardround.runs.models import open_named_model
from wardround.runs.stays import played_bundles
from wardround.scoring.judging.equivalence import PlanCase, PlanGrade, grade_plan

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
        self.log.flush()

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
