"""A run from start to report on the synthetic hospital, with the offline policy, through the public functions."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wardround.core import Progress, UserError
from wardround.core.executors import EXECUTORS, Job, JobResult, perform
from wardround.log import LogReader
from wardround.reports import Pair, compare_all, summarise_run, write_report
from wardround.runs import (
    EpisodeKey,
    RunFolder,
    RunSettings,
    WorkQueue,
    episode_keys,
    execute,
    read_results,
    score_run,
    start,
    worker,
)
from wardround.tasks.benchmarks import Benchmark
from wardround.tools import AID_NAMES, Aids, Environment

TASKS = ("diagnoses", "labevents", "microbiology", "prescriptions", "procedures", "transfers")


@pytest.fixture(scope="module")
def settings(synthetic_benchmark_path: Path, synthetic_store_path: Path) -> RunSettings:
    return RunSettings.of(benchmark=str(synthetic_benchmark_path), store=str(synthetic_store_path), limit=2)


@pytest.fixture(scope="module")
def finished(settings: RunSettings, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = start(tmp_path_factory.mktemp("runs") / "run", settings)
    counts = execute(folder, concurrency=4)
    assert counts.done == counts.total
    return folder


def test_all_six_tasks_are_played_and_scored(finished: RunFolder) -> None:
    scores = score_run(finished)
    assert {score.task for score in scores} == set(TASKS)
    assert all(score.finish == "finish" for score in scores)
    assert any(score.score.f1 > 0 for score in scores)
    assert read_results(finished) == scores


def test_the_manifest_says_what_decided_the_results(finished: RunFolder, settings: RunSettings) -> None:
    manifest = json.loads((finished.path / "manifest.json").read_text())
    assert manifest["policy"] == "known_at"
    assert manifest["sqlite"] == sqlite3.sqlite_version
    assert RunFolder.open(finished.path).settings == settings.resolved().changed(context_tokens=64_000)
    for name in ("store_digest", "benchmark_digest", "spec_sha256", "wardround", "settings_sha256"):
        assert manifest[name]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", manifest["created"]), "UTC, to the second"
    assert any("react" in name for name in manifest["prompts"])
    assert any("diagnoses" in name for name in manifest["prompts"])


def test_the_same_settings_give_the_same_results(finished: RunFolder, settings: RunSettings, tmp_path: Path) -> None:
    again = start(tmp_path / "again", settings)
    execute(again, workers=2, concurrency=3)
    assert without_times(again) == without_times(finished)


def test_a_finished_episode_is_never_repeated(finished: RunFolder) -> None:
    with LogReader(finished.logs) as reader:
        before = [(entry.key, entry.ended) for entry in reader.episodes()]
    execute(RunFolder.open(finished.path))
    with LogReader(finished.logs) as reader:
        assert [(entry.key, entry.ended) for entry in reader.episodes()] == before


def test_no_agent_sees_its_target(finished: RunFolder) -> None:
    scores = {score.episode: score for score in score_run(finished)}
    with LogReader(finished.logs) as reader:
        for trajectory in reader.trajectories():
            assert trajectory.turns, trajectory.episode
            text = trajectory.turns[0].prompt[1].content or ""
            assert str(scores[trajectory.episode].subject_id) in text
            facts = json.dumps(dict(trajectory.facts))
            assert "target" not in facts


def test_an_unfinished_run_reports_what_there_is(settings: RunSettings, tmp_path: Path) -> None:
    folder = start(tmp_path / "run", settings)
    page = write_report(folder, score_run(folder), summarise_run([], seed=0))
    assert "are not finished" in page.read_text()


def test_the_report_shows_every_task_and_escapes_record_text(finished: RunFolder) -> None:
    scores = score_run(finished)
    page = write_report(finished, scores, summarise_run(scores, seed=0))
    text = page.read_text()
    assert all(f"<td>{task}</td>" in text for task in TASKS)
    assert "<script" not in text
    pages = list((finished.path / "report" / "episodes").glob("*.html"))
    assert len(pages) == len(scores)
    assert all(name.name in text for name in pages)
    assert "<script" not in pages[0].read_text()


def test_a_run_compared_with_itself_differs_by_nothing(finished: RunFolder) -> None:
    scores = score_run(finished)
    rows = compare_all([Pair(names=("a", "b"), first=scores, second=scores)], seed=0)
    compared = [row.task for row in rows if row.stratum == "all"]
    assert list(dict.fromkeys(compared)) == [*sorted(TASKS), "all"]
    assert compared.count("transfers") == 3, "care units: by name, by class, by service"
    assert {row.stratum for row in rows} == {"common", "rare", "all"}, "strata have tests of their own"
    assert [row.stratum for row in rows if row.task == "all"] == ["common", "rare", "all"]
    assert all(row.test.difference.estimate == 0 for row in rows)
    assert all(row.test.p_value in (None, 1.0) for row in rows)


def test_progress_reaches_the_end(settings: RunSettings, tmp_path: Path) -> None:
    seen: list[Progress] = []
    folder = start(tmp_path / "run", settings.changed(tasks=("transfers",)))
    execute(folder, report=seen.append)
    assert seen[-1].done == seen[-1].total == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.changed(agents=("nobody",)), "nobody"),
        (lambda s: s.changed(tasks=("astrology",)), "astrology"),
        (lambda s: s.changed(models=("openai/x",)), "--base-url"),
        (lambda s: s.changed(strata=("nowhere",)), "no sample"),
        (lambda s: s.changed(limit=-1), "limit must be at least 1"),
        (lambda s: s.changed(reply_tokens=0), "reply_tokens must be at least 1"),
        (lambda s: s.changed(agents=("react", "react")), "twice"),
        (lambda s: s.changed(models=("a|b",)), "cannot name"),
        (lambda s: s.changed(price=(1.0, float("nan"))), "price takes"),
        (lambda s: s.changed(temperature=-1.0), "temperature"),
        (lambda s: s.changed(top_p=0.0), "top_p"),
        (lambda s: s.changed(candidate_encoder="letters"), "letters"),
        (lambda s: s.changed(candidate_encoder="embeddings/x"), "needs an endpoint"),
    ],
)
def test_a_run_that_cannot_work_is_refused_before_it_starts(
    settings: RunSettings, tmp_path: Path, change: Callable[[RunSettings], RunSettings], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        start(tmp_path / "run", change(settings))
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_a_benchmark_of_another_store_is_refused(settings: RunSettings, tmp_path: Path) -> None:
    shutil.copytree(settings.run.benchmark, tmp_path / "bench")
    file = tmp_path / "bench" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["source"]["store_digest"] = "of another store"
    file.write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="another store"):
        start(tmp_path / "run", settings.changed(benchmark=str(tmp_path / "bench")))


def test_a_folder_that_holds_a_run_is_not_overwritten(finished: RunFolder, settings: RunSettings) -> None:
    with pytest.raises(UserError, match="--resume"):
        start(finished.path, settings)


def test_a_queue_lost_with_a_crash_is_filled_again(settings: RunSettings, tmp_path: Path) -> None:
    folder = start(tmp_path / "run", settings.changed(tasks=("transfers",)))
    folder.queue.unlink()
    assert execute(folder).done == 2
    queue = WorkQueue(folder.queue)
    assert [EpisodeKey.parse(key).task for key in queue.listed()] == ["transfers"] * 2
    queue.close()


def without_times(folder: RunFolder) -> list[object]:
    """Scored rows without the wall-clock figures."""
    scores = score_run(folder)
    return [replace(score, use=replace(score.use, model_seconds=0.0, tool_seconds=0.0)) for score in scores]


def test_a_worker_killed_while_its_log_was_made_does_not_block_the_run(settings: RunSettings, tmp_path: Path) -> None:
    folder = start(tmp_path / "run", settings.changed(tasks=("transfers",)))
    folder.new_log().touch()
    half = sqlite3.connect(folder.new_log())
    half.execute("PRAGMA journal_mode = WAL")
    half.close()
    assert execute(folder).done == 2
    assert len(score_run(folder)) == 2


def test_a_limit_draws_samples_by_seed_and_a_higher_one_adds_to_them(settings: RunSettings) -> None:
    benchmark = Benchmark.open(Path(settings.run.benchmark))

    def drawn(limit: int | None, seed: int = 0) -> set[str]:
        chosen = settings.changed(limit=limit, seed=seed, split="train", tasks=("labevents",))
        return {key.sample for key in episode_keys(chosen, benchmark)}

    everything = drawn(None)
    assert len(everything) > 3
    assert drawn(2) < drawn(3) < everything
    assert len({frozenset(drawn(2, seed)) for seed in range(8)}) > 1


def test_named_samples_are_played_and_no_others(settings: RunSettings, tmp_path: Path) -> None:
    benchmark = Benchmark.open(Path(settings.run.benchmark))
    wanted = tuple(sample.id for sample in benchmark.samples("transfers", "test")[1:3])
    only = settings.changed(samples=wanted, limit=1)
    assert [key.sample for key in episode_keys(only, benchmark)] == list(wanted)
    with pytest.raises(UserError, match="no sample 'transfers-0' in split 'test' of transfers"):
        start(tmp_path / "run", settings.changed(samples=("transfers-0",), tasks=("transfers",)))


def test_aids_are_written_down(finished: RunFolder) -> None:
    manifest = json.loads((finished.path / "manifest.json").read_text())
    assert manifest["aids"] == list(AID_NAMES)
    assert any("answer_rules" in name for name in manifest["prompts"])


def test_without_aids_a_run_shows_a_model_what_the_papers_tools_show(settings: RunSettings, tmp_path: Path) -> None:
    folder = start(tmp_path / "run", settings.changed(tasks=("labevents",), limit=1, aids=Aids.none()))
    execute(folder)
    with LogReader(folder.logs) as reader:
        texts = [message.content or "" for turn in next(iter(reader.trajectories())).turns for message in turn.prompt]
    assert not any("How answers are counted" in text or "left out:" in text for text in texts)
    assert not any("answer_rules" in name for name in folder.manifest["prompts"])


class Panic(BaseException):
    """What a library written in another language raises: no Exception."""


def test_a_tool_that_breaks_ends_its_episode_and_no_other(
    settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = Environment.call

    def call(environment: Environment, name: str, arguments: Any) -> Any:
        if environment.chart.subject_id == broken:
            raise Panic("the decoder gave up")
        return called(environment, name, arguments)

    folder = start(tmp_path / "run", replace(settings, run=replace(settings.run, tasks=("diagnoses", "labevents"))))
    benchmark = Benchmark.open(Path(settings.run.benchmark))
    samples = {sample.id: sample for sample in benchmark.all_samples}
    broken = samples[next(episode_keys(folder.settings, benchmark)).sample].subject_id
    monkeypatch.setattr(Environment, "call", call)
    counts = execute(folder)
    assert counts.done == counts.total
    with LogReader(folder.logs) as reader:
        for entry in reader.episodes():
            outcome = entry.outcome or {}
            is_broken = entry.facts["subject_id"] == broken
            assert (outcome["finish"] == "error") is is_broken
            assert ("broke: Panic: the decoder gave up" in (outcome["error"] or "")) is is_broken


def test_an_episode_that_fails_twice_in_one_way_is_set_aside(
    settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = start(tmp_path / "run", replace(settings, run=replace(settings.run, tasks=("diagnoses",))))
    (first, *_) = episode_keys(folder.settings, Benchmark.open(Path(settings.run.benchmark)))
    prompted = worker.prompt_of

    def prompt_of(settings: RunSettings, benchmark: Benchmark, sample: Any) -> Any:
        if sample.id == first.sample:
            raise RuntimeError("a bug of ours")
        return prompted(settings, benchmark, sample)

    monkeypatch.setattr(worker, "prompt_of", prompt_of)
    with pytest.raises(RuntimeError, match="a bug of ours"):
        execute(folder, concurrency=1)
    counts = execute(folder, concurrency=1)
    assert counts.done == counts.total
    with LogReader(folder.logs) as reader:
        ends = {entry.key: entry.outcome or {} for entry in reader.episodes() if entry.state == "finished"}
    errors = [one["error"] for one in ends.values() if one["finish"] == "error"]
    assert errors == ["set aside, it failed twice in the same way: RuntimeError: a bug of ours"]


class OutOfReach:
    """An executor whose first machine cannot be reached any more: its worker is called lost, and lives on for a while
    with the episode that it has. The next one works as it should."""

    def __init__(self, queue: Path) -> None:
        self.waiting: list[Job] = []
        self.started = 0
        self.has_one, self.may_end = threading.Event(), threading.Event()
        self.far = threading.Thread(target=self._work_far_away, args=(queue,))
        self.far.start()
        assert self.has_one.wait(60)

    def _work_far_away(self, path: Path) -> None:
        queue = WorkQueue(path)
        assert len(queue.lease(1)) == 1
        self.has_one.set()
        self.may_end.wait(60)
        queue.close()

    def start(self, job: Job) -> None:
        self.waiting.append(job)

    def wait(self, seconds: float) -> list[JobResult]:
        job = self.waiting.pop(0)
        self.started += 1
        if self.started == 1:
            return [JobResult(job=job, lost="its machine cannot be reached")]
        result, error = perform(job, ())
        threading.Timer(0.3, self.may_end.set).start()
        return [JobResult(job=job, result=result, error=error)]

    def stop(self) -> None:
        self.may_end.set()
        self.far.join()


def test_what_a_lost_worker_keeps_is_waited_for_and_played(
    settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = start(tmp_path / "run", settings.changed(tasks=("transfers",)))
    made: list[OutOfReach] = []

    class Kind:
        spans_machines = False

        def __call__(self, workers: int) -> OutOfReach:
            made.append(OutOfReach(folder.queue))
            return made[-1]

    kind = Kind()
    monkeypatch.setattr(EXECUTORS, "get", lambda name: kind)
    counts = execute(folder, workers=2)
    assert (counts.done, counts.leased, counts.open) == (2, 0, 0)
    assert made[0].started > 3, "two, the lost one again, and both once more for what was kept"
