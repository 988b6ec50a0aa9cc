"""One episode's score, its cost and its grounding, from a hand-made trajectory."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest
from trajectories import call, new_trial, trajectory

from wardround.clinical.codes import LabelSet
from wardround.core import Usage
from wardround.log import Note
from wardround.tasks.benchmarks import Sample
from wardround.tasks.scoring import (
    EpisodeScore,
    ErrorClass,
    GroundingCounts,
    NoPrediction,
    episode_use,
    grounding_counts,
    score_episode,
)

LABELS = LabelSet(name="units", labels=("Medicine", "Surgery"), aliases={"Med": "Medicine"})
SAMPLE = Sample(
    id="labevents-1",
    task="labevents",
    subject_id=1,
    prediction_time=datetime(2150, 1, 1),
    target=("Medicine", "Elsewhere"),
    split="test",
    stratum="rare",
    unwinnable=("Elsewhere",),
)
FACTS = {"agent": "react", "model": "offline", "epoch": 2}
LOOK = [call("get_candidates_by_keyword", table_name="t", keyword="med")]
END = [call("finish", response=["Med"])]


def citation(row: str, answer: str = "Med", **checks: bool) -> dict[str, object]:
    return {"answer": answer, "row_id": row, "exists": True, "read": True, "supports": True} | checks


def test_an_episode_is_scored_against_its_sample() -> None:
    made = trajectory(
        [LOOK, END], answer=["Med"], facts=FACTS, citations=[citation("a:1"), citation("a:2", read=False)]
    )
    score = score_episode(made, SAMPLE, LABELS, ["get_candidates_by_keyword"])
    assert (score.agent, score.model, score.epoch, score.sample) == ("react", "offline", 2, "labevents-1")
    assert (score.score.precision, score.score.recall) == (1.0, 0.5)
    assert score.winnable_recall == 0.5
    assert score.grounding.share == 0.5
    assert score.errors == frozenset()
    assert score.no_prediction is None


def test_scores_survive_json() -> None:
    made = trajectory([LOOK, "nothing"], answer=None, finish="turn_limit", facts=FACTS, refused=[0])
    score = score_episode(made, SAMPLE, LABELS, ["get_candidates_by_keyword"])
    assert score.errors == {ErrorClass.NO_PREDICTION, ErrorClass.TOOL_USAGE}
    assert score.no_prediction == NoPrediction.INCOMPLETE
    body = json.loads(json.dumps(score.to_json()))
    assert body["schema"] == 1, "files of other versions are made again"
    assert EpisodeScore.from_json(body) == score


def test_what_an_episode_cost() -> None:
    use = episode_use(trajectory([LOOK, LOOK, END], purposes=["act", "summarise", "act"], cost=0.25, refused=[1]))
    assert (use.turns, use.model_calls) == (2, 3)
    assert use.usage == Usage(input_tokens=300, output_tokens=30, cached_tokens=120)
    assert use.cost == pytest.approx(0.75)
    assert use.model_seconds == pytest.approx(6.0)
    assert use.tool_seconds == pytest.approx(1.5)
    assert use.tool_calls == {"finish": 1, "get_candidates_by_keyword": 1}, (
        "a call that was not the actor's was not made"
    )
    assert use.tool_errors == 1


def test_calls_that_were_only_proposed_are_not_counted_as_made() -> None:
    """ReflecTool proposes the same action twice and makes it once."""
    made = trajectory([LOOK, LOOK, LOOK, END, END], purposes=["candidate", "choose", "act", "candidate", "act"])
    use = episode_use(made)
    assert use.tool_calls == {"finish": 1, "get_candidates_by_keyword": 1}
    assert (use.turns, use.trial_turns, use.model_calls) == (2, (2,), 5)


def test_turns_are_counted_trial_by_trial() -> None:
    made = replace(trajectory([LOOK, LOOK, END, LOOK, END]), notes=(new_trial(2, acts=3),))
    assert (episode_use(made).turns, episode_use(made).trial_turns) == (5, (3, 2))
    skipped = replace(made, notes=(Note(n=0, kind="trial", detail={"turn": 3, "skipped": "the endpoint is down"}),))
    assert episode_use(skipped).trial_turns == (5,)


def test_what_is_not_known_is_not_a_number() -> None:
    use = episode_use(trajectory([LOOK, END], cost=None))
    assert use.cost is None
    assert use.prefix_share is None
    assert GroundingCounts().share is None


def test_grounding_by_hand() -> None:
    checks = [
        citation("a:1", answer="Asthma"),
        citation("a:2", answer="asthma ", supports=False),
        citation("a:3", answer="Gout", exists=False),
        citation("a:4", answer="Gout", read=False),
    ]
    counts = grounding_counts(checks, ["Asthma", "ASTHMA", "Gout", "Burns"])  # three answers, one of them backed
    assert counts == GroundingCounts(citations=4, existing=3, read=3, supporting=3, passed=1, answers=3, backed=1)
    assert counts.share == 0.25
    assert GroundingCounts.total([counts, counts]).citations == 8


def test_the_probabilities_of_an_episode_are_those_noted_last() -> None:
    noted = (
        Note(n=0, kind="probabilities", detail={"turn": 1, "labels": {"0": 0.6, "1": 0.4}}),
        Note(n=1, kind="answer", detail={"labels": ("0", "1")}),
        Note(n=2, kind="probabilities", detail={"turn": 2, "labels": {"0": 0.2, "1": 0.8}}),
    )
    made = trajectory([LOOK, END], facts=FACTS)
    assert score_episode(replace(made, notes=noted), SAMPLE, LABELS, []).probabilities == {"0": 0.2, "1": 0.8}
    refused = replace(made, notes=(Note(n=0, kind="probabilities", detail={"turn": 1, "unavailable": "none"}),))
    assert score_episode(refused, SAMPLE, LABELS, []).probabilities == {}
    assert score_episode(made, SAMPLE, LABELS, []).probabilities == {}


def test_only_notes_of_their_own_kind_are_counted() -> None:
    notes = (
        Note(n=0, kind="summary", detail={"by": "window"}),
        Note(n=1, kind="summary", detail={"failed": "no room"}),
        Note(n=2, kind="summary", detail={"by": "answer"}),
        Note(n=3, kind="experiences", detail={"served": ["a", "b"]}),
        Note(n=4, kind="experiences", detail={}),
        Note(n=5, kind="evidence", detail={"events_left_out": 3}),
        Note(n=6, kind="evidence", detail={"events_left_out": 7}),
        Note(n=7, kind="other", detail={"events_left_out": 99, "served": ["c"], "labels": {"x": 1.0}}),
        Note(n=8, kind="probabilities", detail={"labels": {"Medicine": 0.25}}),
        Note(n=9, kind="other", detail={"labels": {"x": 1.0}}),
    )
    made = replace(trajectory([LOOK, END], answer=["Med"], facts=FACTS), notes=notes)
    use = episode_use(made)
    assert (use.summaries, use.failed_summaries, use.summarises, use.summarised) == (2, 1, True, True)
    assert (use.experiences, use.evidence_left_out) == (2, 7)
    assert score_episode(made, SAMPLE, LABELS, []).probabilities == {"Medicine": 0.25}
    nothing = episode_use(replace(made, notes=()))
    assert (nothing.summaries, nothing.summarises, nothing.experiences, nothing.evidence_left_out) == (
        0,
        False,
        None,
        None,
    )
    asked = episode_use(replace(made, notes=notes[4:5]))
    assert (asked.experiences, asked.summarises) == (0, False)
    assert episode_use(replace(made, notes=(Note(n=0, kind="summarising", detail={}),))).summarises


def test_time_and_money_are_added_over_calls_and_results() -> None:
    made = trajectory([LOOK, LOOK, END], answer=["Med"], facts=FACTS, cost=0.25, refused=[1])
    use = episode_use(made)
    assert (use.turns, use.model_calls, use.cost, use.model_seconds) == (3, 3, 0.75, 6.0)
    assert use.tool_seconds == pytest.approx(0.5 * sum(len(turn.results) for turn in made.turns))
    assert use.tool_errors == 1
    turns = tuple(replace(turn, prompt_bytes=100, prefix_bytes=20 * place) for place, turn in enumerate(made.turns))
    assert episode_use(replace(made, turns=turns)).prefix_share == pytest.approx(0.2)
    assert use.prefix_share is None
    unknown = replace(made, turns=(*made.turns[:2], replace(made.turns[2], cost=None)))
    assert episode_use(unknown).cost is None


def test_tokens_that_one_call_did_not_report_are_not_known_of_the_episode() -> None:
    made = trajectory([LOOK, LOOK, END])
    assert episode_use(made).usage == Usage(input_tokens=300, output_tokens=30, cached_tokens=120)
    silent = replace(made.turns[1], unreported=("output_tokens",))
    assert episode_use(replace(made, turns=(made.turns[0], silent, made.turns[2]))).usage is None
    without_cache = replace(made.turns[1], unreported=("cached_tokens",))
    assert episode_use(replace(made, turns=(without_cache,))).usage is not None
