"""Sums behind a run, by hand: forecasts, ways to end, what an episode gives to reflect on, pairs and their strata."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from score_doubles import scored

from wardround.core import Message, Price, ToolCall, Usage, UserError
from wardround.learning.cases import is_usable
from wardround.learning.evolve import _last_summary, _tools_called
from wardround.log import EpisodeEntry
from wardround.memory import Material
from wardround.reports.baseline_card import against_trivial, baseline_card
from wardround.reports.comparing import Pair, compare_all
from wardround.reports.summary import summarise_run
from wardround.runs import RunSettings
from wardround.runs.execute import _preset_facts, _progress
from wardround.runs.folder import Spending, must_have_prices
from wardround.runs.forecast import EarlierRun, EstimateRange, FirstPrompts, _like, _of_budgets, _of_mean, _priced
from wardround.runs.queue import Counts
from wardround.tasks.scoring import SetScore, TrivialScores
from wardround.tasks.scoring.trivial import ORACLE, TRIVIAL

PROMPTS = FirstPrompts(agent="react", samples=2, message_tokens=600.0, schema_tokens=400.0, largest=1_500)


def settings_of(**named: Any) -> RunSettings:
    return RunSettings.of(benchmark="b", store="s", **named)


def outcome(calls: int, read: int, written: int, seconds: float, cached: int = 0) -> dict[str, Any]:
    usage = {"input_tokens": read, "output_tokens": written, "cached_tokens": cached}
    return {"model_calls": calls, "usage": usage, "seconds": seconds}


def test_an_earlier_run_is_its_means() -> None:
    earlier = EarlierRun.of([outcome(2, 100, 10, 4.0, cached=50), outcome(4, 301, 30, 8.0)])
    assert (earlier.calls, earlier.seconds) == (3.0, 6.0)
    usage = earlier.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (200, 20, 25)


def test_a_forecast_by_an_earlier_run_is_its_means_times_the_episodes() -> None:
    earlier = EarlierRun(calls=3.0, usage=Usage(input_tokens=200, output_tokens=20), seconds=36.0)
    found = _of_mean("react", "offline", 100, PROMPTS, earlier, settings_of())
    assert found.basis == "earlier run"
    assert found.calls == EstimateRange(least=300.0, most=300.0)
    assert found.input_tokens == EstimateRange(least=20_000, most=20_000)
    assert found.output_tokens == EstimateRange(least=2_000, most=2_000)
    assert found.hours == EstimateRange(least=1.0, most=1.0)
    assert (found.agent, found.model, found.episodes, found.first_prompt) == ("react", "offline", 100, PROMPTS)


def test_a_forecast_by_budgets_is_from_one_call_to_every_turn_and_a_forced_one() -> None:
    settings = settings_of(turns=9, context_tokens=10_000, reply_tokens=1_000)
    window = settings.budget_tokens - 1_000
    pace = EarlierRun(calls=2.0, usage=Usage(), seconds=72.0)
    found = _of_budgets("react", "offline", 5, PROMPTS, pace, settings)
    assert found.basis == "budgets"
    assert found.calls == EstimateRange(least=5, most=50)
    assert found.input_tokens == EstimateRange(least=5_000.0, most=50 * window)
    assert found.output_tokens == EstimateRange(least=0, most=50_000)
    assert found.hours == EstimateRange(least=pytest.approx(0.05), most=pytest.approx(0.5))  # type: ignore[arg-type]
    assert _of_budgets("react", "offline", 5, PROMPTS, None, settings).hours is None
    wide = FirstPrompts(agent="react", samples=1, message_tokens=1.0, schema_tokens=1.0, largest=99_000)
    assert _of_budgets("react", "offline", 5, wide, None, settings).input_tokens.most == 50 * 99_000


@pytest.mark.parametrize(
    ("price", "least", "most"),
    [
        (None, None, None),
        (Price(input=2.0, output=10.0), 2.0 + 10.0, 6.0 + 40.0),
        (Price(input=2.0, output=10.0, cached=0.5), 0.5 + 10.0, 6.0 + 40.0),
        (Price(input=2.0, output=10.0, cached=3.0), 2.0 + 10.0, 6.0 + 40.0),
    ],
)
def test_the_least_cost_is_of_cached_prompts_and_the_most_of_none(
    price: Price | None, least: float | None, most: float | None
) -> None:
    million = 1_000_000
    found = _priced(
        price, EstimateRange(least=million, most=3 * million), EstimateRange(least=million, most=4 * million)
    )
    assert (None if found is None else (found.least, found.most)) == (None if least is None else (least, most))


def test_episodes_alike_are_those_of_the_agent_and_its_model_or_else_of_the_agent() -> None:
    outcomes: Any = {("a", "m"): [{"n": 1}], ("a", "n"): [{"n": 2}], ("b", "m"): [{"n": 3}]}
    assert _like(outcomes, "a", "n") == [{"n": 2}]
    assert _like(outcomes, "a", "other") == [{"n": 1}, {"n": 2}]
    assert _like(outcomes, "c", "m") == []
    assert EstimateRange(least=1, most=2) + EstimateRange(least=10, most=20) == EstimateRange(least=11, most=22)


@pytest.mark.parametrize(("limit", "reached"), [(None, False), (2.0, False), (1.5, True), (1.0, True), (0.0, True)])
def test_a_limit_is_reached_when_it_is_spent(limit: float | None, reached: bool) -> None:
    assert Spending(cost=1.5, unpriced=0).reaches(limit) is reached


def test_a_limit_needs_a_price_of_every_model() -> None:
    settings = settings_of(models=("offline", "openai/x"))
    must_have_prices(settings, None)
    with pytest.raises(UserError, match=r"--max-cost needs the price of offline, openai/x: "):
        must_have_prices(settings, 1.0)
    must_have_prices(settings_of(models=("openai/x",), price=[1.0, 2.0]), 1.0)


def test_progress_counts_what_is_done_of_all_and_what_runs() -> None:
    counts = Counts(open=3, leased=2, done=5)
    assert counts.total == 10
    told = _progress(counts)
    assert (told.label, told.done, told.total, told.unit, told.running) == ("episodes", 5, 10, "episodes", 2)


def test_a_preset_is_named_with_its_hash_and_what_differs() -> None:
    assert _preset_facts(settings_of()) is None
    plain = RunSettings.read({"run": {"benchmark": "b", "store": "s", "preset": "retrosum"}})
    found = _preset_facts(plain)
    assert found is not None
    assert found["name"] == "retrosum"
    assert len(found["sha256"]) == 64
    assert _preset_facts(plain.changed(turns=3))["changed"] != found["changed"]  # type: ignore[index]


def entry(state: str = "finished", finish: str = "finish", turns: int = 1) -> EpisodeEntry:
    ending = {"finish": finish, "answer": []} if state == "finished" else None
    return EpisodeEntry(key="k", facts={}, state=state, outcome=ending, started="", ended="", turns=turns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "teaches"),
    [
        (entry(), True),
        (entry(finish="turn_limit"), True),
        (entry(finish="error"), False),
        (entry(state="started"), False),
        (entry(turns=0), False),
    ],
)
def test_an_episode_teaches_that_came_to_an_end_of_its_own(one: EpisodeEntry, teaches: bool) -> None:
    assert is_usable(one) is teaches


def said(text: str, purpose: str = "summarise", reason: str = "stop") -> Any:
    return SimpleNamespace(purpose=purpose, reply=Message(role="assistant", content=text), finish_reason=reason)


@pytest.mark.parametrize(
    ("turns", "summary"),
    [
        ([], ""),
        ([said("one"), said("two")], "two"),
        ([said("one"), said("")], "one"),
        ([said("one"), said("act", purpose="act")], "one"),
        ([said("act", purpose="act")], ""),
    ],
)
def test_the_last_summary_that_says_anything_is_the_final_one(turns: list[Any], summary: str) -> None:
    trajectory: Any = SimpleNamespace(turns=turns)
    assert _last_summary(trajectory) == summary


def test_tools_are_advised_on_once_each_in_order() -> None:
    calls = [ToolCall(id=str(n), name=name, arguments="{}") for n, name in enumerate(("sql", "finish", "sql"))]
    messages = tuple(Message(role="assistant", content=None, tool_calls=(one,)) for one in calls)
    material = Material(task="t", question="q", messages=messages, prediction=None, target=(), summary="", score=0.0)
    assert _tools_called(material) == ["finish", "sql"]


def test_strata_have_rows_of_their_own_where_there_are_several() -> None:
    strata = {1: "common", 2: "rare", 3: "common", 4: "rare"}
    baseline = [scored("labevents", n, 0.0, stratum=name) for n, name in strata.items()]
    contender = [scored("labevents", n, n / 10, stratum=name) for n, name in strata.items()]
    alone = scored("labevents", 9, 0.0, stratum="odd")
    rows = compare_all([Pair(names=("a", "b"), first=[*baseline, alone], second=contender)], seed=0)
    found = [(row.stratum, row.task, round(row.test.difference.estimate, 3), row.test.difference.n) for row in rows]
    assert found == [("common", "labevents", 0.2, 2), ("rare", "labevents", 0.3, 2), ("all", "labevents", 0.25, 4)]
    assert {(row.baseline, row.contender, row.metric) for row in rows} == {("a", "b", "F1")}


def test_several_contenders_are_corrected_for_within_a_metric_and_stratum() -> None:
    baseline = [scored("labevents", n, 0.0) for n in range(8)]
    clear = [scored("labevents", n, 0.5 + n / 100) for n in range(8)]
    faint = [scored("labevents", n, 0.5 if n % 2 else -0.4) for n in range(8)]
    alone = compare_all([Pair(names=("a", "c"), first=baseline, second=faint)], seed=0)[0]
    first, second = compare_all(
        [Pair(names=("a", "b"), first=baseline, second=clear), Pair(names=("a", "c"), first=baseline, second=faint)],
        seed=0,
    )
    assert first.adjusted_p == first.test.p_value == 2 / 256
    assert alone.adjusted_p == alone.test.p_value == second.test.p_value
    assert second.adjusted_p is not None
    assert second.test.p_value is not None
    assert second.adjusted_p >= second.test.p_value


def test_one_patient_has_no_p() -> None:
    pair = Pair(names=("a", "b"), first=[scored("labevents", 1, 0.0)], second=[scored("labevents", 1, 1.0)])
    (row,) = compare_all([pair], seed=0)
    assert (row.test.p_value, row.adjusted_p) == (None, None)


def trivial_of(task: str, **scores: list[float]) -> TrivialScores:
    made = {name: tuple(scored(task, n, f1, agent=name) for n, f1 in enumerate(some)) for name, some in scores.items()}
    return TrivialScores(task=task, metric="F1", scores=made, unavailable={"majority": "no training sample"})


def test_the_card_has_every_trivial_contender_and_who_is_best() -> None:
    low, high = TRIVIAL[:2]
    one = trivial_of("labevents", **{low: [0.1, 0.1], high: [0.2, 0.4], ORACLE: [1.0, 1.0]})
    (row,) = baseline_card([one], seed=1)
    assert (row.best, row.n, row.task, row.metric) == (high, 2, "labevents", "F1")
    assert row.means[low] == pytest.approx(0.1)
    assert row.means[ORACLE] == 1.0
    assert [name for name, mean in row.means.items() if mean is None] == [
        name for name in TRIVIAL if name not in (low, high)
    ]
    assert set(row.intervals) == {low, high, ORACLE}
    assert row.intervals[high].estimate == pytest.approx(0.3)
    assert baseline_card([one], intervals=False)[0].intervals == {}
    assert row.unavailable == {"majority": "no training sample"}
    groups = {"react": [scored("labevents", n, 0.9) for n in range(2)], "idle": [scored("transfers", 1, 1.0)]}
    (pair,) = against_trivial(groups, [one], seed=1)
    assert (pair.contender, pair.baseline, pair.task) == ("react", "best trivial", "labevents")
    assert pair.test.difference.estimate == pytest.approx(0.6)
    assert pair.adjusted_p == pair.test.p_value == 0.5


def test_who_is_compared_with_whom() -> None:
    def of(agent: str, model: str = "m") -> Any:
        return [scored("labevents", n, 0.5, agent=agent, model=model) for n in (1, 2)]

    def pairs(*groups: Any, baseline: str | None = None) -> list[tuple[str, str]]:
        summary = summarise_run([one for some in groups for one in some], seed=1, baseline=baseline)
        return [(row.baseline, row.contender) for row in summary.comparisons]

    assert pairs(of("react"), of("other")) == [("react · m", "other · m")]
    assert pairs(of("react"), of("resum"), of("other")) == [("react · m", "resum · m"), ("react · m", "other · m")]
    assert pairs(of("react"), of("resum"), baseline="react") == [("react · m", "resum · m")]
    assert pairs(of("resum"), of("react"), of("react", "n"), baseline="resum") == [("resum · m", "react · m")]
    assert pairs(of("react"), of("react", "n"), baseline="react · m") == [("react · m", "react · n")]
    with pytest.raises(UserError, match="no contender 'nobody'; there are react · m"):
        pairs(of("react"), baseline="nobody")
    apart = [scored("labevents", 9, 0.5, agent="other", model="m")]
    assert pairs(of("react"), apart) == []


def test_best_of_k_needs_as_many_epochs_of_every_sample() -> None:
    def of(subject: int, *f1: float) -> Any:
        return [
            scored("labevents", subject, value, epoch=epoch, score=SetScore(
                precision=value, recall=value, f1=value, hits=1, answered=1, wanted=1
            ))
            for epoch, value in enumerate(f1)
        ]  # fmt: skip

    (best,) = summarise_run([*of(1, 0.0, 1.0, 1.0), *of(2, 1.0, 1.0)], seed=1).best
    assert best.contender == "react · offline"
    assert best.values == pytest.approx(((2 / 3 + 1) / 2, 1.0))
    assert best.passes == pytest.approx(((2 / 3 + 1) / 2, (1 / 3 + 1) / 2))
    assert summarise_run([*of(1, 0.0, 1.0), *of(2, 1.0)], seed=1).best == ()
