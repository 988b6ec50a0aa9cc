"""TRACE's roles: Figure 2 step by step, who is asked what, what an audit does, and prompts that do not grow."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from statistics import median

import pytest
from stay_doubles import DONE, LAB, START, PlayedOut, episode_of, event, play_stay, proposal, stay, write

from effort import often
from wardround.agents import Limits, get_agent
from wardround.agents.stays.model_roles import AUDITOR, REASONER, ROUTER, STEWARD, SUMMARISER, Role
from wardround.agents.stays.player import TracePlayer
from wardround.clinical.bundles import BundleStream, EventKind, bundle_text
from wardround.clinical.bundles.text import SECTIONS
from wardround.core import UserError, load_prompt
from wardround.models.protocol import Request
from wardround.models.replay import Line, ScriptedModel, say

PRINTED = """
schema = 1
name = "figure 2"

[[rule]]
id = "SEPSIS.V1"
category = "SEPSIS"
trigger = "lactate > 4 OR map < 65"
actions = ["start fluids", "start broad-spectrum antibiotics"]
suspects = "suspected sepsis"
"""
CULTURES_FIRST = """
[[rule]]
id = "SEPSIS.V1-CULTURES"
category = "SEPSIS"
trigger = "problem sepsis AND on fluids AND NOT done blood cultures"
actions = ["perform Blood cultures", "hold broad-spectrum antibiotics"]
text = "Ours: the printed rule predicts no cultures; they are drawn once fluids run, and antibiotics wait for them."
"""
FIGURE_2 = stay(
    event(0, LAB, "Lactate", 4.8, unit="mmol/L"),
    event(1, START, "IV fluids", text="30", unit="ml/kg"),
    event(2, DONE, "Blood cultures"),
    event(3, START, "Piperacillin-Tazobactam"),
)


def test_figure_2_step_by_step(tmp_path: Path) -> None:
    """The printed rule lacks the cultures that the figure predicts at t = 1: a second rule of ours has them."""
    played = play_stay("trace", FIGURE_2, protocol=write(tmp_path, PRINTED + CULTURES_FIRST))
    assert played.names == [
        {"fluids", "broad-spectrum antibiotics"},
        {"Blood cultures"},
        {"broad-spectrum antibiotics"},
        set(),
    ]
    assert all("SEPSIS.V1" in one.notes["held"] for one in played.predictions)
    assert {one.notes["audit"].get("status", "PASS") for one in played.predictions} == {"PASS"}


def test_figure_2_with_the_printed_rule_alone_predicts_no_cultures(tmp_path: Path) -> None:
    played = play_stay("trace", FIGURE_2, protocol=write(tmp_path, PRINTED))
    antibiotics = {"broad-spectrum antibiotics"}
    assert played.names == [{"fluids"} | antibiotics, antibiotics, antibiotics, set()]


def test_the_figures_state_after_each_step(tmp_path: Path) -> None:
    settings = get_agent("trace", None).steps
    assert settings is not None
    path = write(tmp_path, PRINTED + CULTURES_FIRST)
    episode = episode_of("trace", ScriptedModel([], name="offline"), protocol=path)
    player = episode.agent.player()  # type: ignore[attr-defined]
    seen = []
    for bundle in FIGURE_2:
        asyncio.run(player.predict(episode, bundle))
        state = player.steward.state
        running = [one.concept for one in state.medications.values()]
        seen.append((list(player.suspected), running, [one.concept for one in state.actions.values()][-1]))
    assert seen[0] == (["suspected sepsis"], [], "Lactate")
    assert seen[1][1] == ["IV fluids"]
    assert seen[2] == (["suspected sepsis"], ["IV fluids"], "Blood cultures")


def test_a_rule_that_no_longer_holds_asks_for_nothing_and_one_that_holds_again_asks_again(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'schema = 1\nname = "k"\n[[rule]]\nid = "K"\ncategory = "K"\ntrigger = "potassium < 3.5"\n'
        'actions = ["order Potassium"]\n',
    )
    stream = stay(
        event(0, LAB, "Potassium", 3.0),
        event(1, EventKind.VITAL, "Heart Rate", 80),
        event(2, LAB, "Potassium", 4.0),
        event(8, EventKind.VITAL, "Heart Rate", 80),
        event(9, LAB, "Potassium", 3.1),
    )
    wanted = {"Potassium"}
    assert play_stay("trace", stream, protocol=path).names == [wanted, wanted, set(), set(), wanted]


RISKY = """
schema = 1
name = "risk"

[[rule]]
id = "CLOT"
category = "CLOT"
trigger = "d-dimer > 500"
actions = ["start heparin", "start enoxaparin", "order PTT"]

[[rule]]
id = "BLEED"
category = "BLEED"
trigger = "hemoglobin < 7"
actions = ["avoid heparin"]
"""
BLEEDING = stay(event(0, LAB, "D-Dimer", 900), event(0.5, LAB, "Hemoglobin", 6.0))


@pytest.mark.parametrize(
    ("agent", "on_fail", "names"),
    [
        ("trace", "replace", {"enoxaparin", "PTT"}),
        ("trace", "drop", {"enoxaparin", "PTT"}),
        ("trace", "flag", {"heparin", "enoxaparin", "PTT"}),
        ("trace-no-auditor", "replace", {"heparin", "enoxaparin", "PTT"}),
    ],
)
def test_what_fails_its_audit_is_replaced_dropped_or_marked(
    tmp_path: Path, agent: str, on_fail: str, names: set[str]
) -> None:
    played = play_stay(agent, BLEEDING, protocol=write(tmp_path, RISKY), on_fail=on_fail)
    assert played.names == [names]
    if agent == "trace":
        audit = played.predictions[0].notes["audit"]
        assert (audit["fired"], audit["status"], audit["risk_level"]) == (["risk"], "FAIL", "HIGH")
        assert audit["objections"] == [{"action": "heparin", "flaw": "contraindication", "because": "BLEED"}]


def test_a_replacement_is_the_next_due_action_of_the_type(tmp_path: Path) -> None:
    played = play_stay("trace", BLEEDING, protocol=write(tmp_path, RISKY), predictions=1)
    assert played.names == [{"enoxaparin", "PTT"}]
    assert [one["name"] for one in played.predictions[0].notes["audit"]["corrected_action"]] == ["enoxaparin"]


def test_an_allergy_and_a_running_drug_are_found(tmp_path: Path) -> None:
    text = RISKY.replace("start heparin", "start ampicillin").replace("start enoxaparin", "start heparin")
    stream = stay(
        event(0, EventKind.ALLERGY, "Penicillins"),
        event(0, START, "Heparin"),
        event(0.5, LAB, "D-Dimer", 900),
    )
    model = ScriptedModel([proposal(("MEDICATIONS", "Ampicillin"), ("MEDICATIONS", "Heparin"), cited=["CLOT"])])
    audit = play_stay("trace", stream, model, protocol=write(tmp_path, text)).predictions[0].notes["audit"]
    assert [(one["action"], one["flaw"]) for one in audit["objections"]] == [
        ("Ampicillin", "allergy"),
        ("Heparin", "duplicate"),
    ]


def test_what_was_not_shown_cannot_be_cited(tmp_path: Path) -> None:
    model = ScriptedModel([proposal(("MEDICATIONS", "Heparin"), cited=["[S-99]", "NONE"])])
    (step,) = play_stay("trace", BLEEDING, model, protocol=write(tmp_path, RISKY), on_fail="drop").predictions
    assert step.actions == ()
    assert step.notes["wrong_citations"] == ["S-99", "NONE"]
    assert "citation" in {one["flaw"] for one in step.notes["audit"]["objections"]}


@pytest.mark.parametrize(("logprobs", "fired"), [((-0.5, -0.5), []), ((-0.5, -0.51), ["uncertain"]), (None, [])])
def test_the_auditor_fires_above_tau_and_says_where_it_cannot_know(
    tmp_path: Path, logprobs: tuple[float, ...] | None, fired: list[str]
) -> None:
    model = ScriptedModel([proposal(("LABS", "Sodium"), logprobs=logprobs)])
    (step,) = play_stay("trace", BLEEDING, model, protocol=write(tmp_path, RISKY), tau=0.5).predictions
    assert step.notes["audit"]["fired"] == fired
    assert step.notes["audit"].get("uncertainty_unavailable", False) is (logprobs is None)
    assert model.requests[0].settings.token_logprobs


def by_role(request: Request) -> Line:
    """A model that plays every role: it knows them by what it is asked for."""
    asked = request.messages[1].content or ""
    if "selected_protocol_ids" in asked:
        return say(json.dumps({"reasoning": "so", "selected_protocol_ids": ["[CLOT]", "MADE-UP"]}))
    if "failed_actions" in asked:
        body = {"status": "FAIL", "risk_level": "HIGH", "critique": "bleeds (S-01)", "failed_actions": ["heparin"]}
        return say(json.dumps(body | {"corrected_action": "Argatroban"}))
    if "trajectory" in asked:
        kept = {"active_problems": ["bleeding"], "current_meds": [], "trajectory": ["Hgb 6"], "allergies": ["latex"]}
        return say(json.dumps(kept | {"procedures": ["EKG 08:00"]}))
    return proposal(("MEDICATIONS", "heparin"), cited=["CLOT", "S-01", "S-77"])


ALL_BY_MODEL = {"router": "model", "reasoner": "model", "auditor": "model", "keeper": "model"}


def test_all_five_by_model_each_is_asked_and_counted(tmp_path: Path) -> None:
    model = ScriptedModel(by_role)
    played = play_stay("trace", BLEEDING, model, protocol=write(tmp_path, RISKY), **ALL_BY_MODEL)
    (step,) = played.predictions
    assert step.notes["read"] == ["CLOT"]
    assert [action.name for action in step.actions] == ["Argatroban"]
    assert [purpose for *_, purpose in played.recorder.turns] == ["steward", "router", "reasoner", "auditor"]
    assert played.outcome.model_calls == 4
    assert played.outcome.usage.output_tokens == 7  # the Reasoner's; the others told none


def asked(model: ScriptedModel, played: PlayedOut, role: str) -> list[str]:
    """The prompts that a role was sent, in order."""
    calls = zip(model.requests, played.recorder.turns, strict=True)
    return [request.messages[1].content or "" for request, (*_, purpose) in calls if purpose == role]


def mixed_stay(hours: int) -> BundleStream:
    """Events of every section, the same values and drugs again and again."""
    events = [event(0.5, LAB, "D-Dimer", 900), event(1, EventKind.ALLERGY, "Latex")]
    for hour in range(hours):
        events += [event(hour, EventKind.VITAL, "Heart Rate", 60 + hour % 3), event(hour, LAB, f"Test {hour % 4}", 5)]
        events += [event(hour, START, f"Drug {hour % 6}")] if hour % 5 == 0 else []
        events += [event(hour, DONE, "EKG")] if hour % 7 == 0 else []
    return stay(*events)


RECORD_LINE = re.compile(rf"(?:{'|'.join(SECTIONS)}): ")


def record_lines(prompt: str) -> list[str]:
    """The lines of the record in a prompt, each behind its hour."""
    found, hour = [], ""
    for line in prompt.split("\n"):
        hour = line if line.startswith("[2150-") else hour
        found += [f"{hour} {line}"] if RECORD_LINE.match(line) else []
    return found


@pytest.mark.parametrize("keeper", ["code", "model"])
def test_no_role_is_sent_a_line_of_the_record_twice_over_a_whole_stay(tmp_path: Path, keeper: str) -> None:
    model = ScriptedModel(by_role)
    stream = mixed_stay(48)
    settings = ALL_BY_MODEL | {"keeper": keeper}
    played = play_stay("trace", stream, model, protocol=write(tmp_path, RISKY), **settings)
    told = [line for one in stream for line in record_lines(bundle_text(one))]
    assert len(told) == len(set(told)) > 100
    for role in (
        ("steward", "router", "reasoner", "auditor") if keeper == "model" else ("router", "reasoner", "auditor")
    ):
        sent = [line for prompt in asked(model, played, role) for line in record_lines(prompt)]
        assert sent == told, f"the {role} is sent each line of the record once"


def test_what_the_steward_failed_to_write_down_it_is_sent_again(tmp_path: Path) -> None:
    replies = iter([say("no"), say("still no")])

    def silent_at_first(request: Request) -> Line:
        first = "trajectory" in (request.messages[1].content or "") and next(replies, None)
        return first or by_role(request)

    model = ScriptedModel(silent_at_first)
    stream = mixed_stay(3)
    played = play_stay("trace", stream, model, protocol=write(tmp_path, RISKY), **ALL_BY_MODEL)
    _, _, second, third = asked(model, played, "steward")
    bundles = [record_lines(bundle_text(one)) for one in stream]
    assert record_lines(second) == bundles[0] + bundles[1]
    assert record_lines(third) == bundles[2]


def test_at_the_limit_the_steward_is_sent_all_that_is_absorbed(tmp_path: Path) -> None:
    model = ScriptedModel(by_role)
    stream = mixed_stay(24)
    settings = ALL_BY_MODEL | {"steward": "at_limit", "buffer_tokens": 100}
    played = play_stay("trace", stream, model, protocol=write(tmp_path, RISKY), **settings)
    prompts = asked(model, played, "steward")
    told = [line for one in stream for line in record_lines(bundle_text(one))]
    sent = [line for prompt in prompts for line in record_lines(prompt)]
    assert 1 < len(prompts) < 12
    assert sent == told[: len(sent)]


def test_the_model_keeps_allergies_and_procedures_and_the_ablation_keeps_nothing(tmp_path: Path) -> None:
    model = ScriptedModel(by_role)
    path = write(tmp_path, RISKY)
    played = play_stay("trace", mixed_stay(2), model, protocol=path, **ALL_BY_MODEL)
    shown = asked(model, played, "reasoner")[1]
    assert "S-01 allergy: latex\nS-02 problem: bleeding\nS-03 trend: Hgb 6\nS-04 last done: EKG 08:00" in shown
    without = ScriptedModel(by_role)
    played = play_stay("trace-no-state", mixed_stay(2), without, protocol=path, **ALL_BY_MODEL)
    assert asked(without, played, "steward") == []
    assert "bleeding" not in "".join(asked(without, played, "reasoner"))


def test_the_auditor_is_shown_what_it_must_judge(tmp_path: Path) -> None:
    model = ScriptedModel(by_role)
    played = play_stay("trace", BLEEDING, model, protocol=write(tmp_path, RISKY), **ALL_BY_MODEL)
    (prompt,) = asked(model, played, "auditor")
    for said in ("in the proposer's words: so", "What it cites: CLOT, S-01, S-77", "Hemoglobin 6", "[CLOT]"):
        assert said in prompt


@pytest.mark.parametrize("role", [ROUTER, REASONER, AUDITOR, STEWARD, SUMMARISER], ids=lambda one: one.name)
def test_a_roles_prompt_names_all_fields_and_fixed_words_of_its_reply(role: Role) -> None:
    shown = dict.fromkeys(("rules", "state", "summary", "segments", "history", "examples", "index", "most"), "-")
    shown |= dict.fromkeys(("actions", "thought", "citations", "words"), "-")
    prompt = load_prompt("wardround.agents", role.template).render(**shown, choices=role.choices)
    schema = json.loads(json.dumps(role.schema))
    schema["properties"] |= schema["properties"].get("predicted_actions", {}).get("items", {}).get("properties", {})
    for name, field in schema["properties"].items():
        assert name in prompt
        for word in field.get("enum", ()):
            assert re.search(rf"(?<![\w-]){word}(?![\w-])", prompt), f"{role.name} is not told {word}"


def test_a_reply_that_cannot_be_read_is_an_empty_step_and_no_crash(tmp_path: Path) -> None:
    model = ScriptedModel([say("I cannot"), say("still not")])
    played = play_stay("trace", BLEEDING, model, protocol=write(tmp_path, RISKY))
    assert played.names == [set()]
    assert played.outcome.finish == "finish"
    assert "unreadable" in {kind for kind, _ in played.recorder.notes}


def long_stay(bundles: int) -> BundleStream:
    """Labs, drugs and vitals every hour, with new names all the time."""
    events = []
    for hour in range(bundles):
        events += [event(hour, LAB, f"Test {hour % 500}", 10 + hour % 7, unit="mg/dL")]
        events += [event(hour, EventKind.VITAL, "Heart Rate", 60 + hour % 70)]
        if hour % 5 == 0:
            events.append(event(hour, START, f"Drug {hour % 900}"))
        if hour % 50 == 0:
            events.append(event(hour, EventKind.DIAGNOSIS, f"Problem {hour}"))
    return stay(*events)


def talking(request: Request) -> Line:
    """Summaries without end, predictions without worth."""
    if "Write the summary" in (request.messages[1].content or ""):
        return say(json.dumps({"summary": "all of it " * 3_000}))
    return proposal(("LABS", "Sodium"))


@pytest.mark.parametrize(
    ("agent", "steward"),
    [
        ("trace", "every_bundle"),
        ("trace", "at_limit"),
        ("long-context", "every_bundle"),
        ("static-rag", "every_bundle"),
        ("single-summary", "every_bundle"),
    ],
)
def test_no_prompt_is_above_its_budget_and_none_grows_with_the_stay(agent: str, steward: str, tmp_path: Path) -> None:
    bundles = often(1_400, 10_000)
    settings = {"protocol": write(tmp_path, RISKY), "steward": steward}
    episode = episode_of(agent, ScriptedModel(talking), **settings)
    player = episode.agent.player()  # type: ignore[attr-defined]
    tokens: dict[int, int] = {}
    for place, bundle in enumerate(long_stay(bundles)):
        if place < 100 or place % 23:
            _take_in(player, bundle, episode)
            continue
        before = len(episode.recorder.notes)  # type: ignore[attr-defined]
        asyncio.run(player.predict(episode, bundle))
        notes = [detail for kind, detail in episode.recorder.notes[before:] if kind == "prompt"]  # type: ignore[attr-defined]
        assert all(note["tokens"] <= 4_000 for note in notes)
        tokens[place] = notes[-1]["tokens"]
    early = median(count for place, count in tokens.items() if place < 1_000)
    late = median(count for place, count in tokens.items() if place >= 1_000)
    assert late == pytest.approx(early, rel=0.10)


def _take_in(player: object, bundle: object, episode: object) -> None:
    if isinstance(player, TracePlayer):
        player.steward.take_in(bundle, episode.counter)  # type: ignore[arg-type, attr-defined]
    else:
        player._take_in(bundle)  # type: ignore[attr-defined]


def test_mitosis_keeps_the_state_exact_whenever_it_happens(tmp_path: Path) -> None:
    path = write(tmp_path, PRINTED + CULTURES_FIRST)
    eager = play_stay("trace", FIGURE_2, protocol=path)
    lazy = play_stay("trace", FIGURE_2, protocol=path, steward="at_limit", buffer_tokens=50)
    assert eager.names == lazy.names


def test_baselines_repeat_what_their_context_shows_and_with_the_protocol_what_is_due(tmp_path: Path) -> None:
    path = write(tmp_path, RISKY)
    assert play_stay("long-context", BLEEDING, protocol=path).names == [{"D-Dimer", "Hemoglobin"}]
    assert play_stay("long-context+protocol", BLEEDING, protocol=path).names == [
        {"heparin", "enoxaparin", "PTT", "D-Dimer", "Hemoglobin"}
    ]
    for agent in ("static-rag", "single-summary"):
        assert play_stay(agent, BLEEDING, protocol=path).names == [{"D-Dimer", "Hemoglobin"}]
    with pytest.raises(UserError, match="cannot be given a protocol"):
        get_agent("react+protocol")


def test_a_spent_step_limit_keeps_what_was_said(tmp_path: Path) -> None:
    played = play_stay("trace", FIGURE_2, protocol=write(tmp_path, PRINTED), limits=Limits(steps=1))
    assert played.outcome.finish == "step_limit"
    assert played.outcome.answer is not None
    assert len(played.outcome.answer) == 2


def test_budgets_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="prompt_tokens is 1000"):
        play_stay("trace", FIGURE_2, prompt_tokens=1000)


def test_the_state_follows_a_thousand_flips_in_one_bundle(tmp_path: Path) -> None:
    """Evidence turns at every bundle: what the rule says turns with it, and nothing is anchored on what was."""
    values = [5.0 if hour % 2 == 0 else 1.0 for hour in range(1_000)]
    stream = stay(*(event(hour, LAB, "Lactate", value) for hour, value in enumerate(values)))
    episode = episode_of("trace", ScriptedModel([], name="offline"), protocol=write(tmp_path, PRINTED))
    player = episode.agent.player()  # type: ignore[attr-defined]
    for bundle, value in zip(stream, values, strict=True):
        facts, actions = player.foretell(bundle)
        assert facts.value("lactate").value == value
        assert bool(actions) is (value > 4)
