"""ClinSeek-Bench with pictures, made of the synthetic hospital's own films: picture, report and label agree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from wardround.agents import Limits, Prompt, get_agent, run_episode
from wardround.cli import main
from wardround.core import Message, Usage, UserError
from wardround.models import ModelSettings
from wardround.models.protocol import Reply, Request
from wardround.records import Store
from wardround.runs import open_environment
from wardround.tasks.answers import FreeLabels
from wardround.tasks.benchmarks import (
    CLINSEEK_MM_TASKS,
    Benchmark,
    Sample,
    ask,
    build_clinseek_mm,
    get_task,
    leak_check,
    question_of,
)
from wardround.tasks.benchmarks.clinseek_mm.examples import PHENOTYPES, PUBLISHED_COUNTS
from wardround.tools import EnvironmentOptions
from wardround.tools.imaging import Imaging
from wardround.tools.imaging.source import ImageFolder


@pytest.fixture(scope="module")
def bench(film_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return build_clinseek_mm(film_store, tmp_path_factory.mktemp("films") / "bench", seed=3, fractions=(0.5, 0, 0.5))


def test_the_paper_s_989_in_its_groups_and_the_25_phenotypes() -> None:
    assert sum(PUBLISHED_COUNTS.values()) == 989
    assert len(set(PHENOTYPES)) == 25
    assert len({task.about for task in CLINSEEK_MM_TASKS.values()}) == 6


def test_nothing_of_an_answer_is_there_when_it_is_asked(bench: Benchmark, film_store: Store) -> None:
    assert leak_check(bench, film_store) == ()
    shown = [one for one in bench.samples("clinseek-mm.finding_enumeration") if one.facts["row_ids"]]
    assert shown, "the labels of the film that is asked about are known with its report"
    for one in shown:
        chart = film_store.chart(one.subject_id, one.prediction_time)
        assert one.facts["images"][-1] in chart.table("cxr_images").batch.column("row_id").to_pylist()


def test_answers_are_what_the_labels_say(bench: Benchmark, film_store: Store) -> None:
    for one in bench.samples("clinseek-mm.finding_presence"):
        films = {row["row_id"]: row for row in film_store.rows(one.subject_id, "cxr_images").to_pylist()}
        study = films[one.facts["images"][-1]]["study_id"]
        labels = film_store.rows(one.subject_id, "cxr_labels").to_pylist()
        said = {row["finding"]: row["value"] for row in labels if row["study_id"] == study}
        finding = one.facts["asked"].removeprefix("Does the latest linked chest radiograph show ").removesuffix("?")
        assert one.target == (str(int(said[finding])),)
        assert one.facts["asked"] in bench.prompt(one)


def test_the_vocabulary_is_listed_to_both_arms_or_to_neither(
    bench: Benchmark, film_store: Store, tmp_path: Path
) -> None:
    hidden = build_clinseek_mm(film_store, tmp_path / "hidden", seed=3, vocabulary_shown=False)
    listed = bench.prompt(bench.samples("clinseek-mm.finding_enumeration")[0])
    silent = hidden.prompt(hidden.samples("clinseek-mm.finding_enumeration.open")[0])
    assert "Enlarged Cardiomediastinum" in listed
    assert "Enlarged Cardiomediastinum" not in silent
    again = Benchmark.open(tmp_path / "hidden")
    kind = get_task(again.samples("clinseek-mm.finding_enumeration.open")[0].task).answer
    assert isinstance(kind, FreeLabels)
    labels = kind.labels("x", None)
    assert labels.resolve("pleural effusion") == "Pleural Effusion", "it is scored by the same names"


def test_with_reports_it_is_asked_when_the_report_is_there(film_store: Store, tmp_path: Path) -> None:
    told = build_clinseek_mm(film_store, tmp_path / "told", seed=3, reports=True)
    assert told.manifest["reports"] is True
    for one in told.samples("clinseek-mm.finding_enumeration"):
        chart = film_store.chart(one.subject_id, one.prediction_time)
        films = {row["row_id"]: row["study_id"] for row in chart.table("cxr_images").batch.to_pylist()}
        reports = chart.table("cxr_reports").batch.column("study_id").to_pylist()
        assert films[one.facts["images"][-1]] in reports


def test_a_manifest_of_one_s_own_is_read_and_its_faults_are_named(
    bench: Benchmark, film_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = bench.samples("clinseek-mm.finding_change")[0]
    films = {row["row_id"]: row["dicom_id"] for row in film_store.rows(sample.subject_id, "cxr_images").to_pylist()}
    line = {
        "task": "finding_change",
        "subject_id": sample.subject_id,
        "cutoff": sample.prediction_time.isoformat(sep=" "),
        "answer": ["Edema"],
        "images": [films[one] for one in sample.facts["images"]],
        "asked": "What is new?",
    }
    manifest = tmp_path / "examples.jsonl"
    manifest.write_text(json.dumps(line) + "\n", encoding="utf-8")
    built = build_clinseek_mm(film_store, tmp_path / "own", examples=manifest)
    (own,) = built.all_samples
    assert (own.target, own.facts["images"]) == (("Edema",), sample.facts["images"])
    for fault, said in (
        ({"images": ["none-such"]}, "no image 'none-such'"),
        ({"task": "guess"}, "unknown task 'guess'"),
    ):
        manifest.write_text(json.dumps(line | fault), encoding="utf-8")
        with pytest.raises(UserError, match=said):
            build_clinseek_mm(film_store, tmp_path / said[:7], examples=manifest)
    zoned = {"cutoff": "2150-01-01T10:00:00+01:00"}, {"event_time": "2150-01-01 10:00Z"}, {"cutoff": "soon"}
    for fault in zoned:
        manifest.write_text(json.dumps(line | fault), encoding="utf-8")
        words = ["bench", "build", "clinseek-mm", "--store", str(film_store.path), "--examples", str(manifest)]
        assert main([*words, "--out", str(tmp_path / "zoned")]) == 2
        said = capsys.readouterr().err.strip().splitlines()
        assert f"line 1, {next(iter(fault))}: " in said[-1]
        assert len(said) == 1
    manifest.write_text('{"task": "finding_change", "colour": 1}', encoding="utf-8")
    with pytest.raises(UserError, match="line 1"):
        build_clinseek_mm(film_store, tmp_path / "fault", examples=manifest)


def test_a_store_without_pictures_says_so(synthetic_store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no table 'cxr_images'"):
        build_clinseek_mm(synthetic_store, tmp_path / "bench")


class Seen:
    """A model that answers at once and keeps what it was sent."""

    name = "seen"

    def __init__(self) -> None:
        self.messages: tuple[Message, ...] = ()

    async def complete(self, request: Request) -> Reply:
        self.messages = tuple(request.messages)
        return Reply(
            message=Message(role="assistant", content='Reasoning: none.\nAnswer: ["Edema"]'),
            usage=Usage(),
            finish_reason="stop",
            model="seen",
        )

    async def close(self) -> None:
        """Nothing is open."""


class Noted:
    """Keeps an episode's notes."""

    def __init__(self) -> None:
        self.notes: dict[str, Mapping[str, Any]] = {}

    def turn(self, *_: Any, **__: Any) -> None:
        """Turns are not looked at."""

    def note(self, kind: str, detail: Mapping[str, Any]) -> None:
        self.notes[kind] = detail


def test_the_curated_arm_is_shown_the_linked_pictures(bench: Benchmark, film_store: Store, film_hospital: Path) -> None:
    sample = bench.samples("clinseek-mm.finding_change")[0]
    images = Imaging(source=ImageFolder(film_hospital / "cxr" / "files"))
    seen, noted = _played(bench, film_store, sample, images)
    pictures = [picture for message in seen.messages for picture in message.pictures]
    assert [picture.title for picture in pictures] == sample.facts["images"]
    assert all(max(picture.width, picture.height) <= 1568 for picture in pictures)
    assert noted.notes["curated"]["pictures"] == 2


def test_a_picture_that_cannot_be_had_is_noted(bench: Benchmark, film_store: Store) -> None:
    sample = bench.samples("clinseek-mm.finding_change")[0]
    seen, noted = _played(bench, film_store, sample, Imaging())
    assert not any(message.pictures for message in seen.messages)
    assert set(noted.notes["curated"]["pictures_not_shown"]) == set(sample.facts["images"])
    assert "[2 of the linked pictures cannot be shown here]" in (seen.messages[-1].content or "")


def test_a_question_about_films_is_asked_with_the_tool_that_shows_them(
    bench: Benchmark, film_store: Store, synthetic_benchmark_path: Path, synthetic_store: Store, film_hospital: Path
) -> None:
    images = Imaging(source=ImageFolder(film_hospital / "cxr" / "files"))
    asked = bench.samples("clinseek-mm.finding_change")[0]
    chart = Benchmark.open(synthetic_benchmark_path)
    other = chart.samples("diagnoses", "test")[0]
    for store, benchmark, sample, given, offered in (
        (film_store, bench, asked, images, True),
        (film_store, bench, asked, Imaging(), False),
        (synthetic_store, chart, other, images, False),
    ):
        environment = open_environment(
            store, benchmark, sample, EnvironmentOptions(max_result_tokens=500), images=given
        )
        assert ("image.image_visualizer" in {schema.name for schema in environment.schemas}) is offered
        environment.close()


def _played(bench: Benchmark, store: Store, sample: Sample, images: Imaging) -> tuple[Seen, Noted]:
    task, seen, noted = get_task(sample.task), Seen(), Noted()
    agent = get_agent("curated")
    environment = open_environment(store, bench, sample, more_tools=agent.more_tools, images=images)
    asked = Prompt(user=ask(bench, sample, rules=False), task=task.name, question=question_of(task, sample))
    outcome = asyncio.run(
        run_episode(
            agent,
            model=seen,
            environment=environment,
            prompt=asked,
            limits=Limits(),
            settings=ModelSettings(),
            recorder=noted,
            episode="one",
        )
    )
    environment.close()
    assert outcome.answer == ("Edema",)
    return seen, noted
