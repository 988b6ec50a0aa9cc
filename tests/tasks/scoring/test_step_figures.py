"""Rows of stays and gates, whole: what agents noted counted by hand, and every figure beside the formula's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from wardround.tasks.scoring import HeldOutPairs, gate, paired_test
from wardround.tasks.scoring.bootstrap import cluster_bootstrap, mean_of_rows
from wardround.tasks.scoring.episodes import StepCounts, step_counts
from wardround.tasks.scoring.gate import GATE_LEVEL, LEAST_SUBJECTS, TaskGate, benefit_p_value, harm_p_value
from wardround.tasks.scoring.stays import RecallRow, StepHits, recall_rows, step_hits


def played(*notes: dict[str, Any], kind: str = "step") -> Any:
    return SimpleNamespace(notes=[SimpleNamespace(kind=kind, detail=note) for note in notes])


def test_what_an_agent_noted_is_counted_by_step() -> None:
    failed = {"fired": ["risk"], "objections": [{"flaw": "duplicate"}, {"flaw": "allergy"}, {"flaw": "duplicate"}]}
    trajectory = played(
        {"read": ["R1"], "held": ["R1", "R2"], "actions": [{"because": ["R2", "S-01"]}], "audit": {"fired": []}},
        {"read": ["R1"], "held": [], "citations": ["R1"], "audit": {"fired": ["risk"]}},
        {"read": [], "held": [], "actions": [{}], "audit": failed},
        {"read": ["R1"], "held": ["R1"], "actions": [{"because": ["R1"]}]},
        {},
    )
    assert step_counts(trajectory) == StepCounts(
        steps=5, activated=3, cited=2, strict=2, audited=2, failed=1, flaws={"allergy": 1, "duplicate": 2}
    )
    assert step_counts(played({"read": ["R1"]}, kind="prompt")) is None
    assert step_counts(played()) is None


def test_steps_come_in_order_with_their_types_and_none_is_the_first() -> None:
    target = ("00010|LABS|Sodium", "00002|PROCEDURES|EKG", "*|LABS|Sodium", "00002|LABS|Sodium")
    assert step_hits(("00002|PROCEDURES|EKG",), target) == [
        StepHits(step=0, kind="LABS", hits=0, targets=1, predicted=0),
        StepHits(step=2, kind="LABS", hits=0, targets=1, predicted=0),
        StepHits(step=2, kind="PROCEDURES", hits=1, targets=1, predicted=1),
        StepHits(step=10, kind="LABS", hits=0, targets=1, predicted=0),
    ]


def test_rows_are_whole_with_the_intervals_of_their_seed() -> None:
    stays = [
        (
            ("00000|LABS|Sodium", "00002|LABS|Lactate"),
            ("00000|LABS|Sodium", "00000|LABS|Glucose", "00002|LABS|Lactate"),
            1,
        ),
        (None, ("00000|LABS|Lactate", "00000|PROCEDURES|EKG"), 2),
        (("00000|PROCEDURES|EKG",), ("00001|PROCEDURES|EKG",), 2),
    ]
    labs = {"micro": [[2, 3], [0, 1]], "macro": [[0.75, 1], [0, 1]]}
    procedures = {"micro": [[0, 1], [0, 1]], "macro": [[0, 1], [0, 1]]}
    everything = {"micro": [[2, 3], [0, 2], [0, 1]], "macro": [[0.75, 1], [0, 1], [0, 1]]}

    def row(
        kind: str,
        matching: Any,
        tables: dict[str, Any],
        people: list[int],
        steps: int,
        targets: int,
        *,
        precision: float | None = 1.0,
    ) -> RecallRow:
        found = {
            name: cluster_bootstrap(np.array(table, float), people, mean_of_rows, seed=7)
            for name, table in tables.items()
        }
        return RecallRow(
            contender="x",
            kind=kind,
            matching=matching,
            micro=found["micro"],
            macro=found["macro"],
            steps=steps,
            targets=targets,
            stays=len(people),
            capped=sum(hits for hits, _ in tables["micro"]) / targets,
            precision=precision,
        )

    assert recall_rows("x", stays, seed=7) == [
        row("LABS", "name", labs, [1, 2], 3, 4),
        row("PROCEDURES", "name", procedures, [2, 2], 2, 2, precision=None),
        row("all", "name", everything, [1, 2, 2], 5, 6),
        row("LABS", "class", {"micro": [[2, 2], [0, 1]], "macro": [[1, 1], [0, 1]]}, [1, 2], 3, 3),
        row("all", "class", {"micro": [[2, 2], [0, 2], [0, 1]], "macro": [[1, 1], [0, 1], [0, 1]]}, [1, 2, 2], 5, 5),
    ]
    assert recall_rows("x", stays) == recall_rows("x", stays, seed=0)
    assert recall_rows("x", []) == []


def pair(better: int, worse: int, same: int) -> HeldOutPairs:
    without = [0.0] * better + [1.0] * worse + [0.5] * same
    with_it = [1.0] * better + [0.0] * worse + [0.5] * same
    return HeldOutPairs(without=without, with_it=with_it, subjects=range(len(without)))


def test_a_verdict_is_whole() -> None:
    pairs = pair(9, 2, 10)
    test = paired_test(pairs.without, pairs.with_it, pairs.subjects, seed=3, permutations=500)
    (found,) = gate({"t": pairs}, seed=3, permutations=500).values()
    assert found == TaskGate(
        state="open",
        difference=pytest.approx(7 / 21),
        low=test.difference.low,
        high=test.difference.high,
        p_harm=harm_p_value(test),
        p_benefit=benefit_p_value(test),
        subjects=21,
        episodes=42,
    )
    assert found.is_open
    assert (GATE_LEVEL, LEAST_SUBJECTS) == (0.1, 20)
    assert benefit_p_value(test) + harm_p_value(test) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("better", "worse", "same", "benefit", "no_harm"),
    [
        (9, 2, 9, "open", "open"),  # 20 patients are enough
        (9, 2, 8, "too_few", "too_few"),
        (0, 0, 20, "doubtful", "open"),
        (2, 3, 15, "doubtful", "doubtful"),
        (3, 2, 15, "doubtful", "open"),
        (0, 9, 11, "harm", "harm"),
        (0, 9, 0, "harm", "harm"),
    ],
)
def test_states_by_standard(better: int, worse: int, same: int, benefit: str, no_harm: str) -> None:
    pairs = {"t": pair(better, worse, same)}
    assert gate(pairs, seed=1, permutations=2000)["t"].state == benefit
    assert gate(pairs, seed=1, standard="no_harm", permutations=2000)["t"].state == no_harm


def test_p_of_no_difference_is_at_its_most_on_both_sides() -> None:
    still = cast(Any, SimpleNamespace(p_value=1.0, difference=SimpleNamespace(estimate=0.0)))
    assert (harm_p_value(still), benefit_p_value(still)) == (0.5, 0.5)
    tilted = cast(Any, SimpleNamespace(p_value=0.4, difference=SimpleNamespace(estimate=0.0)))
    assert (harm_p_value(tilted), benefit_p_value(tilted)) == (0.8, 0.8)
    alone = cast(Any, SimpleNamespace(p_value=None))
    assert (harm_p_value(alone), benefit_p_value(alone)) == (1.0, 1.0)


def test_at_the_level_itself_it_is_decided() -> None:
    pairs = {"t": pair(9, 2, 9)}
    found = gate(pairs, seed=1, permutations=2000)["t"]
    assert gate(pairs, seed=1, permutations=2000, level=found.p_benefit)["t"].state == "open"
    assert gate(pairs, seed=1, permutations=2000, level=found.p_benefit * 0.999)["t"].state == "doubtful"
    harmed = {"t": pair(2, 9, 9)}
    level = gate(harmed, seed=1, permutations=2000)["t"].p_harm
    assert gate(harmed, seed=1, permutations=2000, level=level)["t"].state == "harm"
    assert gate(harmed, seed=1, permutations=2000, level=level * 0.999)["t"].state == "doubtful"
    assert gate(pairs, seed=1, permutations=2000, least_subjects=21)["t"].state == "too_few"
