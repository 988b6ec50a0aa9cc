"""ReflecTool, turn by turn: what was sampled, what was asked about it, and the one action that was run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doubles import ListRecorder, PaperChart, check_wire, play, recall_of, settings_of
from memory_charts import chart_of, filled_memory

from wardround.agents import EstimatedTokens, Limits, Memory, Outcome, SelectionSettings, get_agent
from wardround.agents.loop.context import count_message
from wardround.core import ProviderError
from wardround.models import ModelSettings, Reply, Request, ScriptedModel, call, say
from wardround.models.replay import Line
from wardround.records import Store

A, B = call("get_rows", table_name="a"), call("get_rows", table_name="b")
END = call("finish", response=["x"])


@pytest.fixture
def memory(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return filled_memory(synthetic_store, tmp_path_factory.mktemp("bank") / "bank.sqlite")


def played(
    name: str, script: object, memory: Memory, store: Store, **settings: int
) -> tuple[Outcome, ScriptedModel, ListRecorder, PaperChart]:
    environment = PaperChart()
    environment.chart = chart_of(store)  # type: ignore[attr-defined]
    model, recorder = ScriptedModel(script), ListRecorder()  # type: ignore[arg-type]
    agent = get_agent(name, settings_of(name, **settings), memory=memory, recall=recall_of(**settings))
    return play(model, agent=agent, environment=environment, recorder=recorder), model, recorder, environment


def purposes(recorder: ListRecorder) -> list[str]:
    return [purpose for *_, purpose in sorted(recorder.turns, key=lambda turn: turn[0].ordinal)]


def last_text(request: Request) -> str:
    return request.messages[-1].content or ""


def ran(environment: PaperChart) -> list[str]:
    return [f"{name} {arguments}" for name, arguments in environment.calls]


def test_two_actions_are_sampled_and_only_the_chosen_one_is_run(memory: Memory, synthetic_store: Store) -> None:
    script = [A, B, say("b is new.\nChoice: 2"), END, END]
    outcome, model, recorder, environment = played("reflectool-cs", script, memory, synthetic_store)
    assert ran(environment) == ['get_rows {"table_name": "b"}', 'finish {"response": ["x"]}']
    assert (outcome.turns, outcome.model_calls) == (2, 5)
    assert purposes(recorder) == ["candidate", "act", "choose", "act", "candidate"]
    first, second, choice = model.requests[:3]
    assert first.messages == second.messages
    assert first.tool_choice == "auto"
    assert choice.tools is first.tools, "the history calls them, and the prompt's start stays as it was"
    assert choice.tool_choice == "none"
    assert choice.messages[:-1] == first.messages
    asked = last_text(choice)
    assert asked.startswith("Your task now: choose.")
    assert 'Action 1:\nget_rows({"table_name": "a"})' in asked
    assert 'Action 2:\nget_rows({"table_name": "b"})' in asked
    after = model.requests[3]
    assert [message.role for message in after.messages] == ["system", "user", "assistant", "tool"]
    for request in model.requests:
        check_wire(request.messages)


def test_equal_actions_need_no_choice(memory: Memory, synthetic_store: Store) -> None:
    other_dress = call("get_rows", arguments='{ "table_name":"a" }')
    _, _, recorder, environment = played("reflectool-cs", [A, other_dress, END, END], memory, synthetic_store)
    assert purposes(recorder) == ["act", "candidate"] * 2
    assert len(environment.calls) == 2


def test_every_sample_has_a_seed_of_its_own(memory: Memory, synthetic_store: Store) -> None:
    model = ScriptedModel([END, END, END])
    environment = PaperChart()
    environment.chart = chart_of(synthetic_store)  # type: ignore[attr-defined]
    agent = get_agent("reflectool-cs", SelectionSettings(candidates=3), memory=memory)
    play(model, agent=agent, environment=environment, settings=ModelSettings(seed=7))
    assert [request.settings.seed for request in model.requests] == [7, 8, 9]


@pytest.mark.parametrize(
    ("line", "noted"),
    [
        (say("I like both."), "unreadable"),
        (say("Choice: 3"), "unreadable"),
        (ProviderError("gone", status=503), "failed"),
    ],
)
def test_a_choice_that_cannot_be_read_takes_the_first_and_says_so(
    line: Line, noted: str, memory: Memory, synthetic_store: Store
) -> None:
    script = [A, B, line, END, END]
    _, _, recorder, environment = played("reflectool-cs", script, memory, synthetic_store)
    assert ran(environment)[0] == 'get_rows {"table_name": "a"}'
    assert recorder.of("choice")[0]["chosen"] == 1
    assert noted in recorder.of("choice")[0]


def test_a_choice_that_makes_the_call_instead_of_naming_it_is_read(memory: Memory, synthetic_store: Store) -> None:
    """Some endpoints ignore ``tool_choice``."""
    other_dress = call("get_rows", arguments='{ "table_name":"b" }')
    _, _, recorder, environment = played("reflectool-cs", [A, B, other_dress, END, END], memory, synthetic_store)
    assert ran(environment)[0] == 'get_rows {"table_name": "b"}'
    assert recorder.of("choice") == [{"turn": 1, "distinct": 2, "chosen": 2}]


@pytest.mark.parametrize("text", ["Choice: 2", "**Choice:** 2", "2", "Not 1.\nchoice: 2.", "Choice: 1? No.\nChoice: 2"])
def test_a_choice_is_read_in_any_dress(text: str, memory: Memory, synthetic_store: Store) -> None:
    _, _, _, environment = played("reflectool-cs", [A, B, say(text), END, END], memory, synthetic_store)
    assert ran(environment)[0] == 'get_rows {"table_name": "b"}'


def test_a_sample_that_fails_leaves_the_others(memory: Memory, synthetic_store: Store) -> None:
    script = [ProviderError("gone", status=503), B, END, END]
    outcome, _, recorder, environment = played("reflectool-cs", script, memory, synthetic_store)
    assert outcome.answer == ("x",)
    assert ran(environment)[0] == 'get_rows {"table_name": "b"}'
    assert recorder.of("choice")[0]["failed"] == "gone"
    outcome, *_ = played("reflectool-cs", [ProviderError("gone", status=503)] * 2, memory, synthetic_store)
    assert outcome.finish == "error"


def test_advice_on_the_proposed_tools_only_is_shown_to_the_chooser(memory: Memory, synthetic_store: Store) -> None:
    script = [A, call("think"), say("Choice: 1"), END, END]
    _, model, recorder, _ = played("reflectool-cs", script, memory, synthetic_store)
    asked = last_text(model.requests[2])
    assert "get_rows: Rows advice 0" in asked
    assert "Finish advice" not in asked
    assert "of this patient" not in asked, "advice of the same patient is withheld"
    noted = {note["tool"]: note for note in recorder.of("experiences")}
    assert {name: len(note["served"]) for name, note in noted.items()} == {"get_rows": 3, "finish": 1}
    assert noted["get_rows"]["withheld"]["same_subject"] == 1


def test_a_proposal_is_reviewed_before_it_is_run_until_it_is_repeated(memory: Memory, synthetic_store: Store) -> None:
    script = [A, B, B, END, END]
    outcome, model, recorder, environment = played("reflectool-ir", script, memory, synthetic_store)
    assert ran(environment) == ['get_rows {"table_name": "b"}', 'finish {"response": ["x"]}']
    assert purposes(recorder) == ["candidate", "act", "reflect", "act", "reflect"]
    assert [note["changed"] for note in recorder.of("refinement")] == [True, False, False]
    first, second = model.requests[1:3]
    assert last_text(first).startswith("Your task now: review.")
    assert 'get_rows({"table_name": "a"})' in last_text(first)
    assert 'get_rows({"table_name": "b"})' in last_text(second)
    assert first.messages[:-1] == second.messages[:-1] == model.requests[0].messages
    assert first.tools, "the review may call"
    assert "get_rows: Rows advice 0" in last_text(first)
    assert outcome.turns == 2
    assert [message.role for message in model.requests[3].messages] == ["system", "user", "assistant", "tool"]
    for request in model.requests:
        check_wire(request.messages)


def test_reviews_end_at_their_number(memory: Memory, synthetic_store: Store) -> None:
    script = [A, B, A, END, END]
    _, _, recorder, environment = played("reflectool-ir", script, memory, synthetic_store, refinements=2)
    assert ran(environment)[0] == 'get_rows {"table_name": "a"}'
    assert purposes(recorder)[:3] == ["candidate", "candidate", "act"]


@pytest.mark.parametrize("line", [say("Looks fine."), ProviderError("gone", status=503)])
def test_a_review_without_a_call_keeps_the_proposal(line: Line, memory: Memory, synthetic_store: Store) -> None:
    _, _, recorder, environment = played("reflectool-ir", [A, line, END, END], memory, synthetic_store)
    assert ran(environment)[0] == 'get_rows {"table_name": "a"}'
    assert recorder.of("refinement")[0]["changed"] is False


def test_text_without_a_call_is_not_reviewed_but_reminded(memory: Memory, synthetic_store: Store) -> None:
    _, _, recorder, _ = played("reflectool-ir", [say("Hm."), END, END], memory, synthetic_store)
    assert purposes(recorder) == ["act", "act", "reflect"]
    assert len(recorder.of("reminder")) == 1


@pytest.mark.parametrize("name", ["reflectool-cs", "reflectool-ir"])
def test_a_hundred_long_turns_at_8k_fit_with_what_the_verifier_is_asked(
    name: str, memory: Memory, synthetic_store: Store
) -> None:
    def tireless(request: Request) -> Reply:
        if len(request.tools) == 1:
            return END
        if request.tool_choice == "none":
            return say("Choice: 1")
        wordy = "n" * 3000
        made = call("get_rows", table_name=f"t{request.ordinal}", lines=117)
        return replace(made, message=replace(made.message, content=wordy))

    environment = PaperChart(line="labevents:{n} | 2150-01-01 08:00:00 | Creatinine | 1.2 | mg/dL | abnormal")
    environment.chart = chart_of(synthetic_store)  # type: ignore[attr-defined]
    model, recorder = ScriptedModel(tireless), ListRecorder()
    limits = Limits(turns=100, context_tokens=8000, reply_tokens=1000)
    agent = get_agent(name, memory=memory)
    outcome = play(model, agent=agent, environment=environment, recorder=recorder, limits=limits)
    assert (outcome.finish, outcome.turns, outcome.answer) == ("turn_limit", 100, ("x",))
    assert len([1 for called, _ in environment.calls if called == "get_rows"]) == 100
    for request in model.requests:
        check_wire(request.messages)
        assert sum(count_message(EstimatedTokens(), message) for message in request.messages) <= 7000
    whole = {seen.call.id: seen.result_text for _, _, results, _ in recorder.turns for seen in results}
    noted = {called for note in recorder.of("context") for called in note["calls"]}
    last = model.requests[-1].messages
    shown = {m.tool_call_id: m.content for m in last if m.role == "tool"}
    assert {called for called in list(whole)[:100] if shown.get(called) != whole[called]} <= noted
