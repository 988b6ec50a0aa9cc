"""Runs on cases told in words: no chart and no tools, answers judged apart from who gave them, memory all the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, error, text
from text_cases import both, question, write_lines, write_list, write_published
from wardround.cli import main
from wardround.core import UserError
from wardround.learning import stages
from wardround.log import LogReader
from wardround.memory import Bank, Experience, Provenance, Subject
from wardround.reports import summarise_run
from wardround.runs import RunFolder, RunSettings, execute, read_results, score_run, start
from wardround.runs.judging import JUDGEMENTS, unjudged
from wardround.tasks.benchmarks import CaseFiles, build_text_cases
from wardround.tasks.scoring.judging import REASONING_FIGURES

PLAYER, JUDGE = "openai/player", "openai/judge"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reports")
    files = CaseFiles(
        cases=(write_list(place / "train.json.gz", both(range(20), "T")),),
        test=(write_list(place / "test.json.gz", both(range(40, 46), "R")),),
    )
    build_text_cases("medr-bench", files, place / "bench")
    return place / "bench"


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("questions")
    rows = [question(n, "medqa") for n in range(6)] + [question(n, "medmcqa") for n in range(6, 8)]
    build_text_cases("medagentsbench", CaseFiles(test=(write_lines(place / "q.jsonl", rows),)), place / "bench")
    return place / "bench"


def serving(script: Callable[[Any], Answer]) -> FakeServer:
    return FakeServer(script, models=("player", "judge"))


def names_the_right(said: str) -> bool:
    """Whether the answer that a judge is shown holds the right drug or disease."""
    answer = said.partition("The answer to check")[2].lower().partition("rules")[0]
    return "inventol" in answer or "fabled" in answer


def marks_of_steps(said: str) -> dict[str, Any]:
    """What a judge by MedR-Bench's protocol replies to a prompt, by how it begins."""
    step = said.partition("The step to sort\n")[2] or said.partition("The step to check\n")[2]
    replies = {
        "Is an answer right": {"why": "read", "same": names_the_right(said)},
        "What kind of step": {"kind": "citation" if step.startswith("She has a rash") else "reasoning"},
        "Is one step": {"correct": step.startswith("The drug came first.\n\nStill the same")},
        "Cut the experts'": {"steps": ["The rash came after the drug.", "Stopping it is what helps."]},
        "Does a reasoning": {"covered": "after the drug" in said.partition("The reasoning")[0]},
    }
    return next(reply for start, reply in replies.items() if said.startswith(start))


class Ward:
    """A player who is right where the case's number says so, and a judge who knows the right words."""

    def __init__(self, right: range | tuple[int, ...] = ()) -> None:
        self.right = right
        self.asked: Counter[str] = Counter()
        self.bodies: dict[str, list[Any]] = {}
        self.broken = False

    def __call__(self, body: Any) -> Answer:
        said = json.dumps(body["messages"])
        who = self._who(body, said)
        self.asked[who] += 1
        self.bodies.setdefault(who, []).append(body)
        if who == "teacher":
            return text(json.dumps(self._lesson(body["messages"][-1]["content"])))
        if who == "player":
            return text(self._answer(said))
        if self.broken:
            return error(400)
        if who == "judge of answers":
            return text(json.dumps({"why": "read", "same": names_the_right(body["messages"][1]["content"])}))
        return text(json.dumps(self._marks(body["messages"][-1]["content"])))

    def _marks(self, said: str) -> Any:
        if said.startswith("Mark the points"):
            return {"useful": [1, 2], "true": [2, 3], "covered": [1]}
        return marks_of_steps(said)

    def _who(self, body: Any, said: str) -> str:
        if body["model"] == "player":
            return "player" if "told in words" in said else "teacher"
        return "judge of reasoning" if "The answer to check" not in said else "judge of answers"

    def _lesson(self, said: str) -> Any:
        """What a construction asks for, by how it asks."""
        if said.startswith("Find where"):
            parted = dict.fromkeys(("success_decision", "failure_decision", "why_fatal", "consequence"), "read")
            return {"divergence_step": 1, **parted}
        drawing = {"An attempt at": False, "Several attempts": True}
        opening = next((opening for opening in drawing if said.startswith(opening)), None)
        if opening is not None:
            number = self.asked["teacher"]
            words = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda")
            told = {"condition": "a rash after a drug", "exclusions": [], "task_type": "diagnosis", "steps": [1]}
            told |= {"title": f"Lesson {number}", "content": f"Ask for {words[number % 11]} and {words[number % 7]}."}
            return [told] if drawing[opening] else told
        return {"entities": [{"entity": "rash", "role": "condition"}], "edges": [], "same": [], "joint_use": 0.5}

    def _answer(self, said: str) -> str:
        number = int(said.split("rash ")[1].split(".")[0].split()[0]) if "Chief Complaint" in said else -1
        right = number in self.right
        treatment = "to be treated" in said
        answer = ("Stop Inventol now" if treatment else "A fabled fever") if right else "Ménière's disease"
        return f"Reasoning:\n- The drug came first.\n- The rash came after.\n- She is tall.\nAnswer: {answer}"


def settings(bench: Path, url: str, **more: Any) -> RunSettings:
    given: dict[str, Any] = {"benchmark": str(bench), "agents": ("direct",), "models": (PLAYER,), "base_url": url}
    return RunSettings.of(**given | more)


def judged(bench: Path, url: str, **more: Any) -> RunSettings:
    return settings(bench, url, judge=JUDGE, **more)


def test_a_case_told_in_words_is_one_prompt_without_tools_and_one_reply(questions: Path, tmp_path: Path) -> None:
    with serving(lambda body: text("Reasoning: it came after.\nAnswer: B")) as server:
        folder = start(tmp_path / "run", settings(questions, server.url, agents=("direct", "react")))
        execute(folder)
        bodies = [seen.json for seen in server.requests if seen.path.endswith("chat/completions")]
    results = score_run(folder)
    assert len(bodies) == 16
    assert not any("tools" in body for body in bodies)
    assert {len(body["messages"]) for body in bodies} == {2}
    assert "told in words" in bodies[0]["messages"][0]["content"]
    assert "A. Fablerol" in bodies[0]["messages"][1]["content"]
    assert {one.value for one in results} == {1.0}
    assert all(one.right for one in results)


def test_the_average_is_over_samples_with_the_mean_of_tasks_beside_it(questions: Path, tmp_path: Path) -> None:
    """Six of one set, all wrong, two of the other, both right: 2 of 8, and (0 + 1) / 2."""

    def play(body: Any) -> Answer:
        number = int(body["messages"][1]["content"].split("rash number ")[1].split("?")[0])
        return text(f"Answer: {'B' if number >= 6 else 'C'}")

    with serving(play) as server:
        folder = start(tmp_path / "run", settings(questions, server.url))
        execute(folder)
    rows = {row.task: row for row in summarise_run(score_run(folder), seed=0).rows}
    assert rows["all"].f1.estimate == 0.5
    assert rows["all"].over_samples is not None
    assert rows["all"].over_samples.estimate == 0.25
    assert rows["medagentsbench.medqa"].over_samples is None
    assert rows["all"].metric == "accuracy"


def test_a_judge_apart_from_the_player_says_what_words_are_worth(
    reports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ward = Ward(right=(40, 41, 42))
    with serving(ward) as server:
        folder = start(tmp_path / "run", judged(reports, server.url))
        execute(folder)
    results = {one.sample.split("case_00")[1][:2]: one for one in score_run(folder)}
    assert {number: one.value for number, one in results.items()} == {
        **dict.fromkeys(("40", "41", "42"), 1.0),
        **dict.fromkeys(("43", "44", "45"), 0.0),
    }
    assert results["41"].answer == ("Stop Inventol now",)
    assert results["44"].answer == ("Ménière's disease",)
    assert "Ménière's disease" in folder.results.read_text(encoding="utf-8"), "as it was written, to be searched"
    # three points: 1 and 2 bring it on, of these 2 is true; one of the reference's two is covered
    figures = results["40"].figures
    assert list(figures) == ["accuracy", *(f"{name} (points)" for name in REASONING_FIGURES)]
    assert [round(value, 4) for value in figures.values()] == [1.0, 0.6667, 0.5, 0.5, 0.5556]
    assert ward.asked == {"player": 6, "judge of answers": 6, "judge of reasoning": 6}
    assert all(one.use.model_calls == 1 for one in results.values()), "the judge's calls are not the player's"
    spent = {stage.purpose: stage.calls for stage in stages(folder, JUDGEMENTS)}
    assert spent == {"judge_answer": 6, "judge_reasoning": 6}
    for body in ward.bodies[
        "judge of reasoning"
    ]:  # a small model that was bound to lists without an end went on counting
        lists = body["response_format"]["json_schema"]["schema"]["properties"]
        assert {name: one["maxItems"] for name, one in lists.items()} == {"useful": 3, "true": 3, "covered": 2}
    asked = [body["messages"][-1]["content"] for body in ward.bodies["judge of reasoning"]]
    comes_to = [one.partition("The answer it comes to\n")[2].partition("\n\nThe experts'")[0] for one in asked]
    assert "Stop Inventol now" in comes_to, "the experts' conclusion is a point that an answer may cover"
    assert all(comes_to)
    for body in ward.bodies["player"]:
        assert "Fabled fever" not in json.dumps(body)
        assert "Stopping it" not in json.dumps(body)
    for body in ward.bodies["judge of answers"]:
        assert "The drug came first" not in json.dumps(body), "the answer is judged blind to the reasoning"
    assert main(["report", str(folder.path), "--no-episodes"]) == 0
    printed = capsys.readouterr().out
    assert "judge: 12 calls of openai/judge by the protocol points" in printed
    assert "completeness (points)" in printed


def test_the_judge_of_medr_bench_is_asked_of_each_step(reports: Path, tmp_path: Path) -> None:
    """Three steps: the first cites, the others reason, and one of these is right; one of two expert steps is held."""
    openings: list[str] = []

    def reply(body: Any) -> Answer:
        said = body["messages"][-1]["content"]
        if body["model"] == "player":
            return text(
                "Reasoning:\n<step 1> She has a rash.\n<step 2> The drug came first.\n\nStill the same step.\n"
                "<step 3> She is tall.\nAnswer: a fabled fever, or another one"
            )
        openings.append(said.partition("\n")[0])
        return text(json.dumps(marks_of_steps(said)))

    with serving(reply) as server:
        named = {"judge_protocol": "medr-bench", "tasks": ("medr-bench.diagnosis",), "limit": 1}
        folder = start(tmp_path / "run", judged(reports, server.url, **named))
        execute(folder)
    (result,) = score_run(folder)
    assert result.value == 1.0, "an answer that includes the right one counts"
    expected = {"efficiency": 2 / 3, "factuality": 1 / 2, "completeness": 1 / 2, "R": 5 / 9}
    assert {name: result.figures[f"{name} (medr-bench)"] for name in REASONING_FIGURES} == pytest.approx(expected)
    assert len(openings) == 1 + 3 + 2 + 1 + 2, "the answer, each step, each that reasons, the cut, each expert step"
    prompts = RunFolder.open(folder.path).manifest["prompts"]
    assert any("medr_step_kind" in name for name in prompts)
    assert not any("judge_reasoning" in name for name in prompts)


def test_a_judge_is_needed_and_is_none_of_the_players_unless_said(reports: Path, tmp_path: Path) -> None:
    with serving(Ward()) as server:
        with pytest.raises(UserError, match=r"need a judge: --set scoring\.judge=MODEL"):
            start(tmp_path / "run", settings(reports, server.url))
        with pytest.raises(UserError, match="is a model that plays"):
            start(tmp_path / "run", settings(reports, server.url, judge=PLAYER))
        start(tmp_path / "run", settings(reports, server.url, judge=PLAYER, judge_may_play=True))


def test_an_answer_without_a_verdict_has_no_score_and_is_judged_when_the_run_goes_on(
    reports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ward = Ward(right=(40,))
    ward.broken = True
    with serving(ward) as server:
        folder = start(tmp_path / "run", judged(reports, server.url))
        execute(folder)
        assert score_run(folder) == []
        assert len(unjudged(folder, _benchmark(folder))) == 6
        assert main(["report", str(folder.path), "--no-episodes"]) == 0
        assert "6 answers were not judged yet" in capsys.readouterr().err
        ward.broken = False
        execute(RunFolder.open(folder.path))
    assert sum(one.value for one in score_run(folder)) == 1.0
    assert ward.asked["player"] == 6, "no episode is played again for the judge's sake"


def test_words_judge_without_a_model(reports: Path, tmp_path: Path) -> None:
    with serving(Ward(right=(40, 41))) as server:
        folder = start(tmp_path / "run", settings(reports, server.url, judge="words"))
        execute(folder)
    values = [one.value for one in score_run(folder)]
    assert sorted(values) == [0.0] * 4 + [1.0] * 2
    assert not any(one.figures for one in read_results(folder))


def test_a_dry_run_and_the_pages_of_a_run_need_no_record(questions: Path, tmp_path: Path) -> None:
    asked = ["run", "--benchmark", str(questions), "--agent", "direct", "--model", "offline", "--out"]
    assert main([*asked, str(tmp_path / "dry"), "--dry-run"]) == 0
    assert main([*asked, str(tmp_path / "run"), "--limit", "1", "--workers", "1"]) == 0
    assert main(["report", str(tmp_path / "run"), "--all-episodes"]) == 0
    assert main(["view", str(tmp_path / "run"), "--export", str(tmp_path / "site")]) == 0
    pages = [path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html")]
    assert any("is a text case: it has no chart and no prediction time" in page for page in pages)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"agents": ("rag",)}, "reads a chart, and the cases of this benchmark are texts"),
        ({"agents": ("react+tool",)}, "reads a chart"),
        ({"agents": ("trace",)}, "does not play"),
        ({"store": "some-store"}, "told in words: leave --store out"),
    ],
)
def test_what_needs_a_chart_is_refused_in_one_line(
    named: dict[str, Any], said: str, questions: Path, tmp_path: Path, synthetic_store_path: Path
) -> None:
    if "store" in named:
        named = {"store": str(synthetic_store_path)}
    with serving(Ward()) as server, pytest.raises(UserError, match=said):
        start(tmp_path / "run", settings(questions, server.url, **named))


def test_charts_are_not_played_without_their_store(synthetic_benchmark_path: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="about charts: give their --store"):
        start(tmp_path / "run", RunSettings.of(benchmark=str(synthetic_benchmark_path), models=("offline",)))


def _benchmark(folder: RunFolder) -> Any:
    from wardround.runs import open_benchmark

    return open_benchmark(folder)


def _notes(folder: RunFolder) -> list[Any]:
    """What the log says of the experiences of each episode."""
    with LogReader(folder.logs) as logs:
        return [note.detail for one in logs.trajectories() for note in one.notes if note.kind == "experiences"]


def test_memory_is_built_half_from_diagnoses_half_from_treatments_and_crosses_to_questions(
    reports: Path, questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = tmp_path / "bank.sqlite"
    with serving(Ward(right=range(20))) as server:
        named = {"split": "train", "limit": 3, "epochs": 2, "judge": "words"}
        training = start(tmp_path / "training", settings(reports, server.url, **named))
        execute(training)
        assert main(["memory", "build", str(bank), str(training.path)]) == 0
        assert "6 samples, 12 attempts, 12 successes" in capsys.readouterr().out
        with Bank.open(bank) as held:
            drawn = Counter(one.task for one in held.experiences())
        assert drawn == {"medr-bench.diagnosis": 3, "medr-bench.treatment": 3}
        asked = {"bank": str(bank), "agents": ("direct", "gsem-walk")}
        folder = start(tmp_path / "run", settings(reports, server.url, judge="words", **asked))
        execute(folder)
        crossing = start(tmp_path / "crossing", settings(questions, server.url, **asked))
        execute(crossing)
    for run in (folder, crossing):
        notes = _notes(run)
        assert notes
        assert all(note["served"] for note in notes)
    assert main(["report", str(folder.path), "--no-episodes"]) == 0
    page = (folder.path / "report" / "index.html").read_text(encoding="utf-8")
    served = [one for note in _notes(folder) for one in note["served"]]
    unchecked = sum(one["unchecked"] != [] for one in served)
    assert unchecked
    assert f"{len(served)} experiences were served. Of {unchecked} at least one condition" in page


def test_experiences_are_tried_on_cases_told_in_words(
    reports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every woman is older than 30: what is for the younger, or not for women, is tried on nobody."""
    bank = tmp_path / "bank.sqlite"
    with serving(Ward(right=range(20))) as server:
        folder = start(tmp_path / "training", settings(reports, server.url, split="train", limit=4, judge="words"))
        with Bank.open(bank) as held:
            held.add(
                Experience(
                    id=name,
                    kind="indication",
                    title=name,
                    description="",
                    content="Ask for the drug.",
                    condition=condition,
                    exclusions=exclusions,
                    task="medr-bench.diagnosis",
                    task_type="diagnosis",
                    provenance=Provenance(
                        sample="own", subject=held.subject_hash(Subject(source="told", subject_id=1)), split="train"
                    ),
                )
                for name, condition, exclusions in (
                    ("applies", "rash", ()),
                    ("for children", "younger than 18", ()),
                    ("not for women", "rash", ("the patient is a woman",)),
                )
            )
        assert main(["memory", "validate", str(bank), str(folder.path), "--rollouts", "2"]) == 0
    said = capsys.readouterr().out
    assert "1 experiences tried in 2 pairs" in said
    assert "2 apply to no other patient" in said
    with LogReader(folder.path / "reliability") as logs:
        notes = [note.detail for one in logs.trajectories() for note in one.notes if note.kind == "experiences"]
    assert [[one["id"] for one in note["served"]] for note in notes] == [["applies"]] * 2


def test_an_experience_of_the_same_report_is_not_served(reports: Path, tmp_path: Path) -> None:
    bank = tmp_path / "bank.sqlite"
    with serving(Ward(right=range(20))) as server:
        named = {"split": "train", "judge": "words"}
        training = start(tmp_path / "training", settings(reports, server.url, limit=1, **named))
        execute(training)
        main(["memory", "build", str(bank), str(training.path)])
        again = start(
            tmp_path / "again", settings(reports, server.url, bank=str(bank), agents=("gsem-walk",), limit=1, **named)
        )
        execute(again)
    with Bank.open(bank) as held, LogReader(again.logs) as logs:
        own = {one.provenance.sample: one.id for one in held.experiences()}
        for trajectory in logs.trajectories():
            served = [
                one["id"] for note in trajectory.notes if note.kind == "experiences" for one in note.detail["served"]
            ]
            assert own[trajectory.facts["sample"]] not in served


def test_a_bank_of_the_tests_own_reports_is_refused(reports: Path, tmp_path: Path) -> None:
    """The same report is training in one benchmark and test in another: a bank of the first is none for the second."""
    bank, other = tmp_path / "bank.sqlite", tmp_path / "other"
    path = write_list(tmp_path / "train.json.gz", both(range(20), "T"))
    build_text_cases("medr-bench", CaseFiles(test=(path,)), other)
    with serving(Ward(right=range(20))) as server:
        training = start(tmp_path / "training", settings(reports, server.url, split="train", limit=1, judge="words"))
        execute(training)
        assert main(["memory", "build", str(bank), str(training.path)]) == 0
        asked = settings(other, server.url, bank=str(bank), agents=("gsem-walk",), judge="words")
        with pytest.raises(UserError, match=r"2 experiences of the bank .* came from reports or questions"):
            start(tmp_path / "run", asked)


def test_a_stream_learns_from_judged_answers(reports: Path, tmp_path: Path) -> None:
    bank, out = tmp_path / "bank.sqlite", tmp_path / "stream"
    with serving(Ward(right=range(0, 20, 2))) as server:
        named = {"split": "train", "judge": "words", "limit": 2}
        training = start(tmp_path / "training", settings(reports, server.url, **named))
        execute(training)
        main(["memory", "build", str(bank), str(training.path)])
        asked = [
            "memory",
            "evolve",
            "--benchmark",
            str(reports),
            "--agent",
            "gsem-walk",
            "--bank",
            str(bank),
            "--out",
            str(out),
        ]
        asked += ["--model", PLAYER, "--base-url", server.url, "--limit", "2", "--set", "scoring.judge=words"]
        assert main(asked) == 0
    record = json.loads((out / "evolution.json").read_text())
    assert len(record["updates"]) == 4
    assert {update["score"] for update in record["updates"]} == {0.0, 1.0}
    assert sum(update["shown"] + update["masked"] for update in record["updates"]) > 0


@pytest.fixture(scope="module")
def text_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("text-cases")
    test = write_published(place / "published", range(40, 44))
    files = CaseFiles(cases=(write_list(place / "train.json.gz", both(range(20), "T")),), test=test)
    build_text_cases("text-cases", files, place / "bench")
    return place / "bench"


def reproduce(what: str, bench: Path, url: str, out: Path, *more: str) -> int:
    where = ["reproduce", what, "--benchmark", str(bench), "--out", str(out), "--workers", "1", "--base-url", url]
    return main(
        [*where, "--model", PLAYER, "--set", f"scoring.judge={JUDGE}", "--set", "retrieval.encoder=lexical", *more]
    )


def rows_of(printed: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(printed[printed.index("[\n") :])
    return rows


def test_table_1_of_gsem_averages_over_cases_beside_the_papers(
    text_cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Ward(right=(40, 41))) as server:
        assert reproduce("gsem-table-1", text_cases, server.url, tmp_path / "one", "--agent", "vanilla", "--json") == 0
        rows = {(row["task"], row["metric"]): row for row in rows_of(capsys.readouterr().out)}
        assert rows["all", "accuracy"]["published"] == "64.78"
        assert rows["all", "accuracy"]["value"] == pytest.approx(100 * 2 / 7)
        assert rows["all", "mean of tasks"]["value"] == pytest.approx(100 * (0.5 + 0.5) / 5)
        assert rows["medr-bench.treatment", "accuracy"]["published"] == "57.43"
        assert reproduce("gsem-figure-3", text_cases, server.url, tmp_path / "three", "--agent", "vanilla") == 0
        assert "completeness" in capsys.readouterr().out
    picture = (tmp_path / "three" / "gsem-figure-3.svg").read_text(encoding="utf-8")
    assert "vanilla · medr-bench.treatment · factuality" in picture
    manifest = RunFolder.open(tmp_path / "one" / "run").manifest
    assert manifest["preset"] == {**manifest["preset"], "name": "gsem", "changed": {"retrieval.encoder": "lexical"}}


def test_tables_2_and_3_of_gsem_are_a_run_for_each_case(
    text_cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank, lexical = tmp_path / "bank.sqlite", ["--set", "retrieval.encoder=lexical"]
    with serving(Ward(right=range(0, 44, 2))) as server:
        where = [
            "--benchmark",
            str(text_cases),
            "--model",
            PLAYER,
            "--base-url",
            server.url,
            "--set",
            "scoring.judge=words",
        ]
        tasks = ["--task", "medr-bench.diagnosis", "medr-bench.treatment", "--limit", "2"]
        training = ["run", *where, *tasks, "--split", "train", "--agent", "direct", "--out", str(tmp_path / "training")]
        assert main([*training, *lexical]) == 0
        assert main(["memory", "build", str(bank), str(tmp_path / "training")]) == 0
        stream = [
            "memory",
            "evolve",
            *where,
            *tasks,
            "--preset",
            "gsem",
            "--agent",
            "gsem",
            "--bank",
            str(bank),
            *lexical,
        ]
        stream += ["--out", str(tmp_path / "stream"), "--set", "memory.evolution.snapshots=[0, 1, 2, 3]"]
        assert main(stream) == 0
        with Bank.open(bank) as held:
            named = held.snapshots()
            assert set(named) == {"stream-0", "stream-1", "stream-2", "stream-3"}
            assert sorted(named.values()) == list(named.values())
            for updates, name in ((50, "stream-1"), (150, "stream-2"), (250, "stream-3")):
                held.name_revision(f"stream-{updates}", named[name])
        capsys.readouterr()
        asked = ["--bank", str(bank), "--limit", "1", "--json"]
        assert reproduce("gsem-table-2", text_cases, server.url, tmp_path / "two", *asked) == 0
        evolved = rows_of(capsys.readouterr().out)
        assert reproduce("gsem-table-3", text_cases, server.url, tmp_path / "three", *asked) == 0
        ablated = rows_of(capsys.readouterr().out)
    pinned = {
        place.name: RunFolder.open(place).settings.memory.bank_revision for place in (tmp_path / "two").glob("run-*")
    }
    assert pinned == {f"run-{n}-updates": f"stream-{n}" for n in (0, 50, 150, 250)}
    assert {row["point"]: row["published"] for row in evolved if row["task"] == "medr-bench.diagnosis"} == {
        "0 updates": "94.22",
        "50 updates": "97.26",
        "150 updates": "97.87",
        "250 updates": "96.96",
    }
    single = RunFolder.open(tmp_path / "three" / "run-single-seed").settings.memory.graph.seeds
    assert (single.k, single.dense) == (1, 0.5)
    assert {row["point"] for row in ablated} == {"no entity recall", "no embedding recall", "single seed", "whole"}
    assert {row["published"] for row in ablated if row["task"] == "medagentsbench.medbullets"} == {
        "24.00",
        "10.00",
        "23.00",
        "34.00",
    }


class Pair(Ward):
    """Two models that walk and answer; who did what is counted."""

    def __init__(self) -> None:
        super().__init__(right=range(0, 44, 2))
        self.did: Counter[tuple[str, str]] = Counter()

    def __call__(self, body: Any) -> Answer:
        said = json.dumps(body["messages"])
        if "COLLECT" in said:
            self.did[body["model"], "walked"] += 1
            return text(json.dumps({"action": "STOP"}))
        if body["model"] == "second":
            self.did["second", "answered"] += 1
            return text(self._answer(said))
        return super().__call__(body)


def test_table_5_of_gsem_has_every_retriever_for_every_generator(
    text_cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ward, bank = Pair(), tmp_path / "bank.sqlite"
    with FakeServer(ward, models=("player", "second", "judge")) as server:
        named = {"split": "train", "limit": 1, "judge": "words", "tasks": ("medr-bench.diagnosis",)}
        training = start(tmp_path / "training", settings(text_cases, server.url, **named))
        execute(training)
        assert main(["memory", "build", str(bank), str(training.path)]) == 0
        capsys.readouterr()
        more = ["--model", "openai/second", "--set", f"memory.banks.gsem={bank}", "--limit", "1", "--json"]
        assert reproduce("gsem-table-5", text_cases, server.url, tmp_path / "five", *more) == 0
        rows = rows_of(capsys.readouterr().out)
    models = (PLAYER, "openai/second")
    cells = {(row["point"], row["model"]) for row in rows if row["task"] == "medr-bench.treatment"}
    assert cells == {(retriever, generator) for retriever in models for generator in models}
    for retriever in models:
        folder = RunFolder.open(tmp_path / "five" / f"run-{retriever.replace('/', '-')}")
        assert folder.settings.memory.graph.retriever == retriever
        with LogReader(folder.logs) as logs:
            played = list(logs.trajectories())
        assert {one.facts["model"] for one in played} == set(models)
        for one in played:
            asked = {(turn.purpose, turn.identity.partition("@")[0]) for turn in one.turns}
            assert {name for purpose, name in asked if purpose == "walk"} == {retriever}
            assert {name for purpose, name in asked if purpose != "walk"} == {one.facts["model"]}
            assert [note.detail["retriever"] for note in one.notes if note.kind == "experiences"] == [retriever]
    assert ward.did["player", "walked"] == ward.did["second", "walked"] > 0
