"""The seams hold: the methods of the next slice, in miniature, as compositions over the loop as it is.

Each test writes the smallest form of a method with hooks and a choice, and shows turn by turn what was in the prompt.
"""

from __future__ import annotations

from dataclasses import replace

from doubles import ListRecorder, PaperChart, check_wire, play

from wardround.agents import Ending, Episode, Exchange, Hooks, Limits, LoopSettings, get_agent
from wardround.core import Message, ProviderError
from wardround.models.protocol import Request
from wardround.models.replay import Line, ScriptedModel, call, say

REACT = get_agent("react")


def texts(request: Request) -> list[str]:
    return [message.content or "" for message in request.messages]


def purposes(recorder: ListRecorder) -> list[str]:
    return [purpose for _, _, _, purpose in recorder.turns]


class Summariser(Hooks):
    """Every ``window`` turns: a summary, exactly one kept; ``replace_history`` makes it ReSum, else RetroSum."""

    def __init__(self, *, window: int, replace_history: bool) -> None:
        self.window = window
        self.replace_history = replace_history
        self.pinned: int | None = None

    async def after_turn(self, episode: Episode) -> None:
        if episode.trial_turn % self.window:
            return
        question = [
            *episode.history.prompt,
            Message(role="user", content=f"Summarise {len(episode.history.turns)} turns."),
        ]
        try:
            asked = await episode.ask(question, schemas=())
        except ProviderError as error:
            episode.recorder.note("summary", {"turn": episode.turn, "skipped": str(error)})
            return
        episode.record(asked, "summarise")
        gone = [] if self.pinned is None else [self.pinned]
        if self.replace_history:
            gone += [block.number for block in episode.history.visible() if block.kind != "pinned"]
        episode.history.withdraw(gone)
        self.pinned = episode.pin(f"Summary: {asked.reply.message.content}")


def _summing(request: Request) -> Line:
    if not request.tools:
        return say(texts(request)[-1].replace("Summarise", "seen"))
    acted = sum(bool(message.tool_calls) for message in request.messages)
    return call("finish", response=["x"]) if request.ordinal > 7 else call("get_rows", table_name=f"t{acted}")


def test_resum_the_summary_replaces_the_history() -> None:
    agent = replace(REACT, hooks=(lambda: Summariser(window=3, replace_history=True),))
    model, recorder = ScriptedModel(_summing), ListRecorder()
    play(model, agent=agent, recorder=recorder)
    assert purposes(recorder)[:8] == ["act"] * 3 + ["summarise"] + ["act"] * 3 + ["summarise"]
    after = model.requests[4].messages
    assert [message.role for message in after] == ["system", "user", "user"]
    assert after[2].content == "Summary: seen 3 turns."
    assert [text for text in texts(model.requests[8]) if text.startswith("Summary")] == ["Summary: seen 6 turns."]
    for request in model.requests:
        check_wire(request.messages)


def test_retrosum_the_history_stays_and_exactly_one_summary_is_carried() -> None:
    agent = replace(REACT, hooks=(lambda: Summariser(window=3, replace_history=False),))
    model = ScriptedModel(_summing)
    play(model, agent=agent)
    later = model.requests[8]
    assert [text for text in texts(later) if text.startswith("Summary")] == ["Summary: seen 6 turns."]
    assert sum(message.role == "tool" for message in later.messages) == 6
    check_wire(later.messages)
    assert texts(later)[-1].startswith("Summary"), "at the tail, where it was made"


def test_a_failed_summary_keeps_the_one_before_and_is_noted() -> None:
    def failing(request: Request) -> Line:
        if not request.tools and request.ordinal > 4:
            return ProviderError("too long", status=400)
        return _summing(request)

    agent = replace(REACT, hooks=(lambda: Summariser(window=3, replace_history=False),))
    model, recorder = ScriptedModel(failing), ListRecorder()
    assert play(model, agent=agent, recorder=recorder).finish == "finish"
    assert [text for text in texts(model.requests[8]) if text.startswith("Summary")] == ["Summary: seen 3 turns."]
    assert recorder.of("summary") == [{"turn": 6, "skipped": "too long"}]
    assert {type(request.messages) for request in model.requests} == {tuple}, "a list could change afterwards"


class Critic(Hooks):
    """Reflexion: after the first answer a critique without the truth, and one more trial."""

    async def at_answer(self, episode: Episode, ending: Ending) -> bool:
        if episode.trial > 1:
            return False
        question = [*episode.history.prompt, Message(role="user", content=f"Criticise {ending.answer}.")]
        asked = await episode.ask(question, schemas=())
        episode.record(asked, "reflect")
        episode.new_trial()
        episode.pin(f"Critique: {asked.reply.message.content}")
        return True


def test_reflexion_a_second_trial_starts_clean_with_the_critique_and_all_turns_are_logged() -> None:
    script = [call("get_rows", table_name="a"), call("finish", response=["x"]), say("look at b"),
              call("get_rows", table_name="b"), call("finish", response=["y"])]  # fmt: skip
    model, recorder = ScriptedModel(script), ListRecorder()
    outcome = play(model, agent=replace(REACT, hooks=(Critic,)), recorder=recorder, limits=Limits(turns=2))
    assert (outcome.answer, outcome.turns, outcome.finish) == (("y",), 4, "finish")
    assert [message.role for message in model.requests[3].messages] == ["system", "user", "user"]
    assert texts(model.requests[3])[-1] == "Critique: look at b"
    assert purposes(recorder) == ["act", "act", "reflect", "act", "act"]
    assert recorder.of("trial") == [{"trial": 2, "turn": 2, "acts": 2}]


def test_a_critique_that_fails_does_not_cost_the_answer() -> None:
    model = ScriptedModel([call("finish", response=["x"]), ProviderError("gone", status=503)])
    recorder = ListRecorder()
    outcome = play(model, agent=replace(REACT, hooks=(Critic,)), recorder=recorder)
    assert (outcome.answer, outcome.finish) == (("x",), "finish")
    assert recorder.of("trial") == [{"turn": 1, "skipped": "gone"}]


async def choose_of_two(episode: Episode) -> Exchange:
    """ReflecTool CS: sample two actions, have one picked, and only then is it run."""
    prompt = episode.render()
    sampled = [await episode.ask(prompt) for _ in range(2)]
    listing = [*prompt, Message(role="user", content="Which of the two?")]
    picked = await episode.ask(listing, schemas=())
    episode.record(picked, "select")
    chosen = int(picked.reply.message.content or "0")
    episode.record(sampled[1 - chosen], "candidate")
    return sampled[chosen]


def test_candidate_selection_runs_only_the_chosen_action() -> None:
    script = [call("get_rows", table_name="a"), call("get_rows", table_name="b"), say("1"),
              call("think"), call("finish", response=["x"]), say("1")]  # fmt: skip
    environment, recorder = PaperChart(), ListRecorder()
    model = ScriptedModel(script)
    outcome = play(model, agent=replace(REACT, choose=choose_of_two), environment=environment, recorder=recorder)
    assert [(name, "b" in arguments) for name, arguments in environment.calls] == [
        ("get_rows", True),
        ("finish", False),
    ]
    assert (outcome.turns, outcome.model_calls) == (2, 6)
    assert purposes(recorder) == ["select", "candidate", "act"] * 2
    assert sorted(request.ordinal for request, _, _, _ in recorder.turns) == list(range(6))
    check_wire(model.requests[3].messages)


class Refiner(Hooks):
    """ReflecTool IR: a result that came back as an error is taken out, so that the call is made again, better."""

    async def after_turn(self, episode: Episode) -> None:
        last = episode.history.blocks[-1]
        if any(seen.result.is_error for seen in last.observations):
            episode.history.withdraw([last.number])
            episode.remind(f"Refine the call of turn {last.turn}.")


def test_refinement_withdraws_the_failed_call_from_later_prompts() -> None:
    model = ScriptedModel([call("nothing"), call("finish", response=["x"])])
    play(model, agent=replace(REACT, hooks=(Refiner,)))
    assert [message.role for message in model.requests[1].messages] == ["system", "user", "user"]
    assert texts(model.requests[1])[-1] == "Refine the call of turn 1."


class Remembering(Hooks):
    """ReasoningBank and evolved RetroSum: an experience is pinned before the first turn."""

    def __init__(self) -> None:
        self.turns = 0

    async def before_episode(self, episode: Episode) -> None:
        episode.pin("Experience: read the notes first.")

    async def before_turn(self, episode: Episode) -> None:
        self.turns += 1
        if self.turns == 3:
            episode.remind("Turn three.")


def test_an_experience_is_in_every_prompt_and_hook_state_lives_one_episode() -> None:
    agent = replace(REACT, hooks=(Remembering,))
    for _ in range(2):
        model = ScriptedModel([call("think")] * 3 + [call("finish", response=["x"])])
        play(model, agent=agent)
        assert all(texts(request)[2] == "Experience: read the notes first." for request in model.requests)
        assert texts(model.requests[2])[-1] == "Turn three."


def test_two_hooks_act_in_the_order_given() -> None:
    agent = replace(REACT, hooks=(Remembering, lambda: Summariser(window=2, replace_history=True)))
    model = ScriptedModel(
        lambda r: say("s") if not r.tools else call("finish", response=["x"]) if r.ordinal > 3 else call("think")
    )
    play(model, agent=agent)
    assert [message.role for message in model.requests[3].messages] == ["system", *["user"] * 4]
    assert texts(model.requests[3])[2:] == ["Experience: read the notes first.", "Summary: s", "Turn three."]


def test_the_repeat_guard_answers_instead_of_running_when_it_is_set() -> None:
    agent = replace(REACT, loop=LoopSettings(repeat_guard=3))
    script = [call("get_rows", table_name="a")] * 4 + [call("finish", response=["x"])]
    environment = PaperChart()
    model = ScriptedModel(script)
    play(model, agent=agent, environment=environment)
    assert [name for name, _ in environment.calls] == ["get_rows", "get_rows", "finish"]
    assert "same call 3 times in a row" in (model.requests[3].messages[-1].content or "")
    free = PaperChart()
    play(ScriptedModel(script), environment=free)
    assert len(free.calls) == 5


def test_without_the_forced_finish_the_limit_is_the_end() -> None:
    agent = replace(REACT, loop=LoopSettings(forced_finish=False))
    model = ScriptedModel([call("think")] * 2)
    outcome = play(model, agent=agent, limits=Limits(turns=2))
    assert (outcome.finish, outcome.forced, len(model.requests)) == ("turn_limit", False, 2)


def test_an_agent_says_what_it_is_made_of() -> None:
    facts = REACT.manifest()
    assert facts["name"] == "react"
    assert facts["loop"] == {
        "forced_finish": True,
        "reminders": 1,
        "repeat_guard": None,
        "written_calls": True,
        "bound_labels": True,
    }
    assert set(facts["prompts"]) == {"agents/react", "agents/loop"}
    assert all(len(file["sha256"]) == 64 for file in facts["prompts"].values())
