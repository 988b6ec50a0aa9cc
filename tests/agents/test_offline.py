"""The offline policy: what it reads, what it remembers, how it copes with errors, and whole episodes on real charts."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from doubles import ListRecorder, PaperChart, check_wire, play

from wardround.agents import Limits, Outcome, Prompt, get_agent, run_episode
from wardround.clinical.codes import LabelSet, load_ccs
from wardround.core import Message, ToolCall, format_time
from wardround.models import ModelSettings, OfflineModel, Request
from wardround.models.offline.conversation import (
    OfflineFinding,
    OfflineFindings,
    read_conversation,
    read_notes,
    read_result,
)
from wardround.models.offline.findings import Beliefs
from wardround.models.offline.plan import Shown, abnormal, last_stay, load_rules, rules_for, thoughts_on
from wardround.models.offline.tasks import labelled_plan, plan_for, task_plans
from wardround.records import RowRole, SpanRole, Store, ingest, load_source_spec
from wardround.synth import synthesize
from wardround.tasks.benchmarks import Benchmark, build_agentehr, render_prompt
from wardround.tools import Environment, EnvironmentOptions, ToolResult, default_toolset
from wardround.tools.candidates import CandidateSpace

CALL = ToolCall(id="1", name="run_sql_query", arguments="{}")


def test_notes_are_read_back_as_written() -> None:
    notes = [
        OfflineFinding(kind="drug", value="Furosemide", amount=3, rows=("prescriptions:1", "prescriptions:2")),
        OfflineFinding(kind="unit", value="Cardiac Vascular Intensive Care Unit (CVICU)"),
        OfflineFinding(kind="lab", value="Creatinine high", amount=0.67, rows=("labevents:a-b",)),
        OfflineFinding(kind="name", value="heart failure => Congestive heart failure; nonhypertensive"),
    ]
    assert read_notes("Step 3 of 9: x.\n" + "\n".join(note.line for note in notes)) == notes


def test_a_result_is_read_with_its_constant_columns() -> None:
    text = """labevents: 2 rows, cursor=c
constant: hadm_id=7, unit=mg/dL
row_id | label
labevents:1 | A, B
labevents:2 | C"""
    result = read_result(CALL, text)
    assert result.rows == (
        {"hadm_id": "7", "unit": "mg/dL", "row_id": "labevents:1", "label": "A, B"},
        {"hadm_id": "7", "unit": "mg/dL", "row_id": "labevents:2", "label": "C"},
    )
    assert read_result(CALL, "labevents: 0 rows; the table is empty.").rows == ()
    cut = "query: 3 rows\ncandidate\nSodium\n[cut for room: 1 of 3 lines are left; repeat the call]"
    assert read_result(CALL, cut).rows == ({"candidate": "Sodium"},)
    assert read_result(CALL, "Error: no such table").error == "Error: no such table"


def test_a_question_that_only_lists_names_is_planned_by_the_candidate_table_of_the_chart() -> None:
    question = """Question: Which laboratory tests will be run?

Names to answer with, in order of the alphabet. The right ones are among them.
- Glucose
- Sodium

How answers are counted
- A name too many counts."""
    first = Message(role="user", content=question)
    assert read_conversation((first,)).space == ""
    found = Message(role="assistant", content="Step 1 of 12: x.\n- tables: labevents patients labevents_candidates")
    talk = read_conversation((first, found))
    assert (talk.space, talk.listed) == ("labevents_candidates", ("Glucose", "Sodium"))
    named = Message(role="user", content=question.replace("How answers", "See `transfers_candidates`."))
    assert read_conversation((named, found)).space == "transfers_candidates"

    known = talk.findings()
    known.add(OfflineFinding(kind="past", value=name, amount=0.9) for name in ("sodium", "Lactate"))
    plan = plan_for(talk.space, load_source_spec("mimiciv").roles)
    assert plan.task == "labevents"
    assert plan.answer(known, 0.0).labels == ("Sodium",), "a name that the question does not list is no answer"


ROLES = load_source_spec("mimiciv").roles
KEPT = "subject_id charttime starttime label long_title test_name drug"


def chart_of(tables: str, columns: str = KEPT) -> OfflineFindings:
    """What the policy knows of a chart with these tables, all with these columns."""
    notes = [OfflineFinding(kind="tables", value=tables)]
    notes += [OfflineFinding(kind="columns", value=f"{table} {columns}") for table in tables.split()]
    return OfflineFindings(tuple(notes), now="2150-01-02 08:00:00", space="", listed=(), shown="")


@pytest.mark.parametrize(
    ("space", "table", "counted"),
    [
        ("diagnoses_ccs_candidates", "diagnoses_icd", "COUNT(*) AS n"),
        ("procedures_ccs_candidates", "procedures_icd", "COUNT(*) AS n"),
        ("labevents_candidates", "labevents", 'COUNT(DISTINCT "charttime") AS n'),
        ("microbiologyevents_candidates", "microbiologyevents", 'COUNT(DISTINCT "charttime") AS n'),
        ("prescriptions_drug_candidates", "prescriptions", 'COUNT(DISTINCT "starttime") AS n'),
        ("transfers_candidates", "transfers", None),
    ],
)
def test_the_past_is_counted_by_names_or_moments_and_of_places_not_at_all(
    space: str, table: str, counted: str | None
) -> None:
    (past,) = [step for step in plan_for(space, ROLES).steps if step.name.startswith("every ")]
    for tables, columns, wanted in (
        (table, KEPT, counted),
        (table, KEPT.replace("charttime starttime ", ""), counted and "COUNT(*) AS n"),
        ("patients", KEPT, None),
    ):
        asks = past.ask(chart_of(tables, columns))
        assert [ask.tool for ask in asks] == (["run_sql_query"] if wanted else [])
        assert all(f'FROM "{table}"' in ask.arguments["sql_query"] for ask in asks)
        assert all(str(wanted) in ask.arguments["sql_query"] for ask in asks)


@pytest.mark.parametrize(
    ("columns", "starts"),
    [("hadm_id admittime edregtime", "admittime edregtime"), ("hadm_id edregtime", "edregtime"), ("dischtime", "")],
)
def test_a_stay_begins_at_a_column_that_the_chart_shows(columns: str, starts: str) -> None:
    role = SpanRole(table="admissions", start="admittime", time=("edregtime",))
    asked = last_stay(role, columns.split())
    began = "" if asked is None else asked.arguments["sql_query"].partition(" AS began")[0]
    assert re.findall(r'"(\w+)"', began) == starts.split()


@pytest.mark.parametrize(
    ("columns", "asks"),
    [
        ("label value low high", True),
        ("label value low", False),
        ("label value high", False),
        ("value low high", False),
    ],
)
def test_results_out_of_range_are_asked_for_where_the_chart_has_both_limits(columns: str, asks: bool) -> None:
    role = RowRole(table="labs", label=("label",), value="value", low="low", high="high")
    shown = Shown.of(role, columns.split())
    assert (abnormal(role, shown, [*columns.split(), "other"], "") is not None) == asks


@pytest.mark.parametrize(
    ("group", "columns", "label", "official"),
    [
        ("ccs", "title ccs_label", "ccs_label", True),
        ("ccs", "title", "title", False),  # the chart has no such column
        ("ccs", "other", "", False),
        (None, "title ccs_label", "title", True),  # another role's
        (None, "other", "", True),
    ],
)
def test_a_role_is_named_by_its_group_where_it_has_one_that_the_chart_shows(
    group: Any, columns: str, label: str, official: bool
) -> None:
    role = RowRole(table="diagnoses", label=("title",), group=group)
    shown = Shown.of(role, columns.split())
    assert (shown.label.strip('"'), shown.official) == (label, official)


def test_the_likeliest_phrases_are_looked_up_a_dozen_at_once_in_three_searches() -> None:
    """Of 60 findings the 36 with most evidence; each search is asked of the tool that a run has, one of two."""
    (step,) = [step for step in plan_for("transfers_candidates", ROLES).steps if step.name == "the official names"]
    known = chart_of("transfers")
    known.add(OfflineFinding(kind="thought", value=f"phrase {n:02}", amount=2 + n) for n in range(60))
    searches = [ask for ask in step.ask(known) if ask.tool == "get_candidates"]
    asked = [ask.arguments["query"] for ask in searches]
    assert asked == [[f"phrase {n:02}" for n in range(first, first - 12, -1)] for first in (59, 47, 35)]


def test_a_question_with_labels_reads_results_diagnoses_and_drugs_where_the_chart_has_them() -> None:
    question = "Will the latest hyperkalemia be severe? Answer with one of: yes, no."
    step = labelled_plan(question, ROLES).steps[-1]
    for tables in ("labevents diagnoses_icd prescriptions transfers", "transfers labevents", "transfers"):
        asks = [ask for ask in step.ask(chart_of(tables)) if ask.tool == "run_sql_query"]
        wanted = [table for table in ("labevents", "diagnoses_icd", "prescriptions") if table in tables]
        assert [re.findall(r'FROM "(\w+)"', ask.arguments["sql_query"])[0] for ask in asks] == wanted


def test_nothing_of_a_served_memory_counts_as_a_finding_about_the_patient() -> None:
    question = Message(role="user", content="Which drugs come next? Candidates: prescriptions_atc_candidates")
    served = [
        "From a memory of earlier cases of other patients.\n\nStep 12 of 12: x.\n- drug: Warfarin [prescriptions:1]",
        "Lessons on summarising from earlier cases of other patients.\n- drug: Heparin [prescriptions:2]",
    ]
    summary = Message(
        role="user", content="Summary of turns 1 to 3.\nStep 3 of 12: x.\n- drug: Aspirin [prescriptions:3]"
    )
    talk = read_conversation((question, *(Message(role="user", content=text) for text in served), summary))
    assert talk.step == 3
    assert [note.value for note in talk.notes] == ["Aspirin"]
    assert talk.shown == summary.content


def test_what_a_note_denies_is_not_thought_of() -> None:
    thought = {
        note.value
        for note in thoughts_on("diagnoses", "word", "PMH: COPD, hypertension. Denies chest pain, no seizures.")
    }
    assert "essential hypertension" in thought
    assert "chronic obstructive pulmonary disease and bronchiectasis" in thought
    assert not thought & {"nonspecific chest pain", "epilepsy; convulsions"}


def test_evidence_adds_up_and_is_cited() -> None:
    beliefs = Beliefs()
    for label, weight, rows in (("a", 0.3, ["t:1"]), ("a", 0.3, ["t:2"]), ("b", 0.45, []), ("c", 0.1, ["t:3"])):
        beliefs.add(label, weight, rows)
    assert beliefs.best(least=0.4, most=5) == ["a", "b"]
    assert beliefs.best(least=0.99, most=5) == ["a"]
    assert beliefs.best(least=0.0, most=2) == ["a", "b"]
    assert beliefs.rows("a") == ["t:1", "t:2"]


def test_every_rule_compiles_and_every_table_of_rules_is_used() -> None:
    for task, tables in load_rules().items():
        assert task in task_plans()
        for kind, rows in tables.items():
            if rows and isinstance(rows[0], list) and len(rows[0]) == 3 and isinstance(rows[0][0], str):
                assert all(0 < rule.weight < 1 for rule in rules_for(task, kind))


def _request(*messages: Message, tools: bool = True) -> Request:
    question = Message(role="user", content="Current time: 2150-01-02 08:00:00. Use `transfers_candidates`.")
    schemas = default_toolset().schemas if tools else ()
    return Request(messages=(Message(role="system", content="s"), question, *messages), tools=schemas)


def _reply(request: Request) -> Message:
    return asyncio.run(OfflineModel().complete(request)).message


def test_the_plan_goes_on_where_its_own_words_say_even_if_results_are_gone() -> None:
    first = _reply(_request())
    assert [call.name for call in first.tool_calls] == ["get_table_names"]
    said = Message(
        role="assistant",
        content="Step 4 of 12: where.\n- tables: transfers triage\n- columns: triage chiefcomplaint\n- unit: PACU",
    )
    summary = Message(role="user", content=f"Summary: {said.content}")
    for remembered in (said, summary):
        assert "triage" in _reply(_request(remembered)).tool_calls[0].arguments


def test_without_tools_it_says_what_it_knows_and_with_finish_alone_it_finishes() -> None:
    said = Message(
        role="assistant", content="Step 4 of 12: where.\n- tables: transfers\n- unit: PACU\n- thought: CVICU x0.5"
    )
    summary = _reply(_request(said, tools=False))
    assert not summary.tool_calls
    assert "- unit: PACU" in (summary.content or "")
    only = [schema for schema in default_toolset().schemas if schema.name == "finish"]
    forced = _reply(replace(_request(said), tools=only))
    assert [call.name for call in forced.tool_calls] == ["finish"]
    assert json.loads(forced.tool_calls[0].arguments)["response"] == ["CVICU"]


def test_the_same_request_gives_the_same_reply_and_a_seed_only_shifts() -> None:
    request = _request()
    assert asyncio.run(OfflineModel().complete(request)) == asyncio.run(OfflineModel().complete(request))
    reply = asyncio.run(OfflineModel().complete(request))
    assert reply.usage.input_tokens > 500
    assert reply.usage_known


@pytest.mark.parametrize("task", sorted(task_plans()))
def test_it_ends_with_finish_even_where_every_tool_fails(task: str) -> None:
    class Broken(PaperChart):
        def call(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
            if name == "finish":
                return super().call(name, arguments)
            return ToolResult(text="Error: the tool is out of order", is_error=True)

    environment = Broken()
    environment.toolset = default_toolset()
    prompt = Prompt(user=f"Current time: 2150-01-02 08:00:00. Candidates: {task_plans()[task].spaces[0]}.")
    outcome = play(OfflineModel(), environment=environment, prompt=prompt)
    assert outcome.finish in ("finish", "text")
    assert outcome.turns <= 25


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Benchmark]:
    folder = tmp_path_factory.mktemp("hospital")
    synthesize(folder / "raw", patients=25, seed=3, compress=False, decoys=False)
    ingest("mimiciv", folder / "raw", folder / "store")
    store = Store.open(folder / "store")
    return store, build_agentehr(store, folder / "benchmark", per_task=4, seed=1)


def _play(store: Store, benchmark: Benchmark, name: str, recorder: ListRecorder, **changes: Any) -> Iterator[Outcome]:
    task = next(task for task in benchmark.tasks if task.name == name)
    for sample in benchmark.samples(name)[:4]:
        environment = Environment(
            store.chart(sample.subject_id, sample.prediction_time),
            options=EnvironmentOptions(candidates=benchmark.spaces),
        )
        yield asyncio.run(
            run_episode(
                get_agent("react"),
                model=OfflineModel(),
                environment=environment,
                prompt=Prompt(user=render_prompt(task, sample, benchmark.space(task))),
                limits=changes.get("limits", Limits()),
                settings=changes.get("settings", ModelSettings()),
                recorder=recorder,
                episode=sample.id,
            )
        )
        environment.close()


@pytest.mark.parametrize("task", sorted(task_plans()))
def test_each_task_is_played_without_a_tool_error(hospital: tuple[Store, Benchmark], task: str) -> None:
    store, benchmark = hospital
    recorder = ListRecorder()
    outcomes = list(_play(store, benchmark, task, recorder))
    assert outcomes
    for outcome in outcomes:
        assert outcome.finish == "finish"
        assert 5 <= outcome.turns <= 15
        assert outcome.answer
    results = [result for _, _, results, _ in recorder.turns for result in results]
    assert [result.result_text for result in results if result.is_error] == []
    assert {"run_sql_query", "finish"} < {result.call.name for result in results}
    assert any(result.call.name.startswith("get_candidates") for result in results)
    for request, _, _, _ in recorder.turns:
        check_wire(request.messages)
    cited = [citation for outcome in outcomes for citation in outcome.citations]
    assert all(citation.exists and citation.read for citation in cited)


def test_a_small_window_costs_score_but_no_error(hospital: tuple[Store, Benchmark]) -> None:
    store, benchmark = hospital
    recorder = ListRecorder()
    limits = Limits(context_tokens=7000, reply_tokens=1000)
    outcomes = list(_play(store, benchmark, "diagnoses", recorder, limits=limits))
    assert {outcome.finish for outcome in outcomes} == {"finish"}
    assert recorder.of("context")


def test_answers_depend_on_the_seed_alone(hospital: tuple[Store, Benchmark]) -> None:
    store, benchmark = hospital

    def answers(seed: int | None) -> list[tuple[str, ...] | None]:
        played = _play(store, benchmark, "diagnoses", ListRecorder(), settings=ModelSettings(seed=seed))
        return [outcome.answer for outcome in played]

    assert answers(1) == answers(1)
    assert answers(None) == answers(None)


def test_it_plays_the_real_demo_without_a_tool_error(mimic_demo_store: Store) -> None:
    store = mimic_demo_store
    units = LabelSet(name="units", labels=("Medicine", "Neurology", "PACU"), aliases={})
    spaces = {
        f"{task}_candidates": CandidateSpace(name=f"{task}_candidates", labels=labels)
        for task, labels in (
            ("diagnoses_ccs", load_ccs("diagnoses").label_set()),
            ("procedures_ccs", load_ccs("procedures").label_set()),
            *((task, units) for task in ("labevents", "microbiologyevents", "prescriptions_drug", "transfers")),
        )
    }
    for subject in [int(subject) for subject in store.subjects[:3]]:
        discharged = store.rows(subject, "admissions").column("dischtime")[-1].as_py()
        for space in spaces:
            environment = Environment(store.chart(subject, discharged), options=EnvironmentOptions(candidates=spaces))
            prompt = Prompt(user=f"Current time: {format_time(discharged)}. Candidates: `{space}`.")
            recorder = ListRecorder()
            outcome = play(OfflineModel(), environment=environment, prompt=prompt, recorder=recorder)
            assert outcome.answer, space
            results = [result for _, _, results, _ in recorder.turns for result in results]
            assert [result.result_text for result in results if result.is_error] == []
            environment.close()
