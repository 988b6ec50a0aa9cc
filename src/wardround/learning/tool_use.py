"""How a model uses its tools, before and after training (ClinSeekAgent Figure 5): what it calls, and how often rightly.

A call is valid where the tool answered without an error; prose is no call. A valid call is useful where it read
something new: neither ``finish`` nor ``think``, nor a repeat with the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from wardround.core import UserError
from wardround.learning.world import FREE_TOOLS, BestConstants, Repeats
from wardround.log import LogReader, Trajectory
from wardround.runs import EpisodeKey, RunFolder, open_benchmark, score_run
from wardround.tasks.scoring import PairedTest, paired_test
from wardround.tasks.scoring.errors import Call

_ACT = "act"
_SampleKey = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The tool use of one episode. ``calls`` counts what was called, by tool; ``finished`` says that it gave an answer
    with ``finish``."""

    calls: Counter[str] = field(default_factory=Counter)
    valid: int
    useful: int
    finished: bool


def tool_use(trajectory: Trajectory) -> ToolUse:
    """Count an episode's calls."""
    results = [result for turn in trajectory.turns if turn.purpose == _ACT for result in turn.results]
    valid = [result for result in results if not result.is_error]
    reading = [result for result in valid if result.call.name not in FREE_TOOLS]
    repeats = Repeats()
    for result in reading:
        repeats.made(Call.of(result.call.name, result.call.arguments), result.result_text)
    return ToolUse(
        calls=Counter(result.call.name for result in results),
        valid=len(valid),
        useful=len(reading) - repeats.count,
        finished=(trajectory.outcome or {}).get("finish") == "finish",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunToolUse:
    """The tool use of a run over some samples: per episode, but for ``valid_share``, which is of all its calls together
    (None without any), and ``finished_share``, which is of its episodes. ``score`` is the mean."""

    run: str
    valid_share: float | None
    useful: float
    finished_share: float
    score: float
    calls: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseShift:
    """Runs on the same samples: one before training, one or more after it (a seed each), others beside them.

    ``constant`` is what the best constant answer, fitted on training people, scores on the same samples. The paired
    tests compare the means over the runs after with the run before.
    """

    samples: int
    before: RunToolUse
    after: tuple[RunToolUse, ...]
    beside: tuple[RunToolUse, ...]
    constant: float
    useful_test: PairedTest
    finished_test: PairedTest
    score_test: PairedTest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    use: ToolUse
    score: float
    person: int


def tool_use_shift(
    before: RunFolder, after: Sequence[RunFolder], *, beside: Sequence[RunFolder] = (), seed: int = 0
) -> ToolUseShift:
    """Compare runs, sample by sample and epoch by epoch; agents and models may differ, one of each in a run.

    Raises UserError where no sample was played in all of them.
    """
    folders = (before, *after, *beside)
    runs = [_played(folder) for folder in folders]
    shared = sorted(set.intersection(*(set(run) for run in runs)))
    if not shared:
        raise UserError("these runs share no sample: play the same benchmark, tasks and --limit in each")
    first, *rest = ([run[key] for key in shared] for run in runs)
    seeds = rest[: len(after)]
    people = [played.person for played in first]

    def test(name: str) -> PairedTest:
        means = [fmean(_value(played, name) for played in sample) for sample in zip(*seeds, strict=True)]
        return paired_test([_value(played, name) for played in first], means, people, seed=seed)

    used = [_run_use(folder.path.name, played) for folder, played in zip(folders, (first, *rest), strict=True)]
    return ToolUseShift(
        samples=len(shared),
        before=used[0],
        after=tuple(used[1 : 1 + len(after)]),
        beside=tuple(used[1 + len(after) :]),
        constant=_constant(before, shared),
        useful_test=test("useful"),
        finished_test=test("finished"),
        score_test=test("score"),
    )


def _value(played: _Played, name: str) -> float:
    return played.score if name == "score" else float(getattr(played.use, name))


def _run_use(name: str, played: Sequence[_Played]) -> RunToolUse:
    calls: Counter[str] = sum((one.use.calls for one in played), Counter())
    return RunToolUse(
        run=name,
        valid_share=sum(one.use.valid for one in played) / calls.total() if calls.total() else None,
        useful=fmean(one.use.useful for one in played),
        finished_share=fmean(one.use.finished for one in played),
        score=fmean(one.score for one in played),
        calls={name: count / len(played) for name, count in sorted(calls.items())},
    )


def _constant(folder: RunFolder, keys: Sequence[_SampleKey]) -> float:
    benchmark = open_benchmark(folder)
    samples = {sample.id: sample for sample in benchmark.all_samples}
    constants = BestConstants(benchmark)
    return fmean(constants.score(samples[sample]) for sample, _ in keys)


def _played(folder: RunFolder) -> Mapping[_SampleKey, _Played]:
    scores = {score.episode: score for score in score_run(folder)}
    with LogReader(folder.logs, may_be_empty=True) as reader:
        return {
            (key.sample, key.epoch): _Played(
                use=tool_use(reader.trajectory(episode)), score=score.value, person=score.subject_id
            )
            for episode, score in scores.items()
            for key in [EpisodeKey.parse(episode)]
        }
