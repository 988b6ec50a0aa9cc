"""Exports of runs: what is kept, what is dropped and why, and who is never learnt from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from declared import declared, settings_of
from wardround.cli import main
from wardround.core import LeakError, Progress, UserError
from wardround.learning import DataSettings, ExportCounts, HeldOut, export_folder, export_rows, read_recipe, read_rows
from wardround.learning.recipe import TrainingRecipe
from wardround.learning.rows import RowTokenizer
from wardround.log import LogReader
from wardround.runs import RunFolder, open_store, score_run
from wardround.tasks.benchmarks import Benchmark

ALL = DataSettings(finishes=(), max_tokens=None)


def exported(folder: RunFolder, settings: DataSettings = ALL) -> tuple[list[str], ExportCounts]:
    counts = ExportCounts()
    return [str(row.about["episode"]) for row in export_rows([folder], settings, counts=counts)], counts


def test_every_reply_of_every_episode_is_exported_once(teacher: RunFolder) -> None:
    episodes, counts = exported(teacher)
    with LogReader(teacher.logs) as reader:
        turns = sum(len(trajectory.turns) for trajectory in reader.trajectories())
    assert (len(set(episodes)), counts.episodes, counts.rows) == (4, 4, len(episodes))
    assert counts.learnt_replies == turns
    assert not counts.dropped


def test_outcomes_filter_and_every_dropped_episode_has_its_reason(teacher: RunFolder) -> None:
    values = sorted(score.value for score in score_run(teacher))
    episodes, counts = exported(teacher, replace(ALL, least_score=values[-1]))
    assert set(episodes) == {score.episode for score in score_run(teacher) if score.value == values[-1]}
    assert counts.dropped["episode_scored_less"] == 4 - len(set(episodes))
    none, dropped = exported(teacher, replace(ALL, finishes=("text",)))
    assert none == []
    assert dropped.dropped == {"episode_ended_by_finish": 4}


def test_the_draw_is_of_each_task_and_hangs_on_the_seed_alone(teacher: RunFolder) -> None:
    one, counts = exported(teacher, replace(ALL, episodes_per_task=1))
    assert one == exported(teacher, replace(ALL, episodes_per_task=1))[0]
    assert sorted(name.split("|")[2] for name in set(one)) == ["diagnoses", "transfers"]
    assert counts.dropped["episode_not_drawn"] == 2
    seeds = {tuple(exported(teacher, replace(ALL, episodes_per_task=1, seed=seed))[0]) for seed in range(8)}
    assert len(seeds) > 1


class Words:
    """A tokenizer of words: what the assistant wrote is marked."""

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> dict[str, list[int]]:
        words = [message["role"] for message in conversation for _ in str(message.get("content") or "-").split()]
        return {"input_ids": [0] * len(words), "assistant_masks": [int(role == "assistant") for role in words]}


def test_rows_of_more_tokens_than_fit_are_dropped_and_counted(teacher: RunFolder) -> None:
    tokenizer = RowTokenizer(tokenizer=Words(), template="")
    every = [tokenizer.encode(row) for row in export_rows([teacher], ALL)]
    sizes = sorted(len(row.ids) for row in every)
    assert sizes[0] < sizes[-1]
    for most in (sizes[0] - 1, sizes[0], sizes[-1] - 1, sizes[-1], None):
        counts, seen = ExportCounts(), list[Progress]()
        settings = replace(ALL, max_tokens=most)
        rows = export_rows([teacher], settings, row_tokenizer=tokenizer, counts=counts, report=seen.append)
        kept = [row for row in every if most is None or len(row.ids) <= most]
        assert len(list(rows)) == counts.rows == len(kept)
        assert counts.dropped["row_too_long"] == len(every) - len(kept)
        assert (counts.tokens or 0, counts.learnt_tokens or 0) == (
            sum(len(row.ids) for row in kept),
            sum(sum(row.mask) for row in kept),
        )
        assert [(step.done, step.total) for step in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_same_conversation_is_kept_once(teacher: RunFolder) -> None:
    counts = ExportCounts()
    rows = list(export_rows([teacher, teacher], ALL, counts=counts))
    assert counts.dropped["row_twice"] == len(rows)


def test_a_run_on_held_out_samples_is_refused(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    words = ["run", "--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    assert main([*words, "--task", "transfers", "--limit", "1", "--workers", "1", "--out", str(tmp_path / "run")]) == 0
    with pytest.raises(LeakError, match="of the test split: nothing may be trained on it"):
        exported(RunFolder.open(tmp_path / "run"))


def test_a_person_whom_another_benchmark_holds_out_is_refused(teacher: RunFolder) -> None:
    with LogReader(teacher.logs) as reader:
        someone = int(next(iter(reader.episodes())).facts["subject_id"])
    guard = HeldOut(samples=frozenset(), people=frozenset({someone}), benchmarks=("other",))
    with pytest.raises(LeakError, match=r"a person who is held out \(other\)"):
        list(export_rows([teacher], ALL, held_out=[guard]))


def test_held_out_is_every_sample_outside_training(synthetic_benchmark_path: Path) -> None:
    benchmark = Benchmark.open(synthetic_benchmark_path)
    guard = HeldOut.of([benchmark])
    training = [sample for sample in benchmark.all_samples if sample.split == "train"]
    guard.refuse(training)
    assert len(guard.samples) == len(benchmark.all_samples) - len(training)
    assert not guard.people & {sample.person for sample in training}


def told(message: dict[str, Any]) -> dict[str, Any]:
    """A message of the Parquet file, whose calls are JSON, without what it does not have."""
    calls = message["tool_calls"]
    read = {**message, "tool_calls": None if calls is None else list(map(json.loads, calls))}
    return {name: value for name, value in read.items() if value is not None}


def test_the_files_hold_the_same_rows(teacher: RunFolder, tmp_path: Path) -> None:
    counts = export_folder([teacher], tmp_path / "data", ALL)
    rows = read_rows(tmp_path / "data" / "rows.jsonl")
    table = pq.read_table(tmp_path / "data" / "rows.parquet").to_pylist()
    assert [[told(message) for message in one["messages"]] for one in table] == [list(row.messages) for row in rows]
    assert [list(map(json.loads, one["tools"])) for one in table] == [list(row.tools) for row in rows]
    assert {one["sensitivity"] for one in table} == {open_store(teacher).spec.sensitivity}
    noted = json.loads((tmp_path / "data" / "export.json").read_text())
    assert noted["counts"]["rows"] == counts.rows == len(rows)
    documents = (tmp_path / "data" / "atif.jsonl").read_text().splitlines()
    assert {json.loads(line)["session_id"] for line in documents} == {row.about["episode"] for row in rows}
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0
    with pytest.raises(UserError, match="is not empty"):
        export_folder([teacher], tmp_path / "data", ALL)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export", "--template", "nothere"], "there is no template 'nothere'"),
        (["export", "--template", "{marked}"], "add --tokenizer"),
        (["export", "--set", "data.max_tokens=100"], "add --tokenizer"),
        (["export", "--set", "sft.epochs=1"], "train export does not use --set sft.epochs"),
        (["sft", "--set", "data.least_score=1"], "train sft does not use --set data.least_score"),
        (["sft", "--set", "rl.steps=1"], "it uses sft., data.max_tokens"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    teacher: RunFolder, words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "marked.jinja").write_text("{% generation %}{% endgeneration %}")
    export_folder([teacher], tmp_path / "data", ALL)
    own = {
        "export": [str(teacher.path), "--out", str(tmp_path / "out")],
        "sft": ["--rows", str(tmp_path / "data" / "rows.jsonl"), "--base", "b", "--out", str(tmp_path / "out")],
    }
    action, *rest = (word.replace("{marked}", str(tmp_path / "marked.jinja")) for word in words)
    assert main(["train", action, *own[action], *rest]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"messages": []}\n')
    with pytest.raises(UserError, match="line 1: no row of an export"):
        read_rows(tmp_path / "rows.jsonl")


def test_a_recipe_is_read_strictly(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text('title = "t"\n[sft]\nbatch = 4\n')
    assert read_recipe(file, ["sft.batch=8", "data.finishes=finish,text"]).sft.batch == 8
    assert read_recipe(file, ["data.finishes=finish,text"]).data.finishes == ("finish", "text")
    with pytest.raises(UserError, match=r"no 'sft.bach'. Did you mean sft.batch"):
        read_recipe(file, ["sft.bach=8"])
    with pytest.raises(UserError, match="must divide"):
        read_recipe(file, ["sft.rows_at_once=3"])
    for name in ("sft.batch", "data.max_tokens"):
        with pytest.raises(UserError, match="at least 1"):
            read_recipe(None, [f"{name}=0"])


def test_a_recipe_has_the_settings_of_the_table() -> None:
    assert settings_of(TrainingRecipe) == declared()["train"]


def test_the_defaults_are_table_9() -> None:
    settings = read_recipe(None).sft
    assert (settings.epochs, settings.batch, settings.learning_rate, settings.last_learning_rate) == (3, 32, 2e-5, 2e-6)
    assert (settings.warmup_steps, settings.weight_decay, settings.clip, settings.precision) == (10, 0.1, 1.0, "bf16")
    assert (settings.seed, read_recipe(None).data.max_tokens) == (42, 52_000)
