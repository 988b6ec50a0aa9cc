"""Equations 4, 5 and 8 to 15 against values computed by hand."""

from __future__ import annotations

import math

import pytest

from wardround.memory import RoleEdge
from wardround.memory.construction.linking import (
    edge_weight,
    entity_similarity,
    inverse_document_frequency,
    role_paths,
    structure_similarity,
    task_similarity,
)
from wardround.memory.credit import (
    EdgeHistory,
    ScoreBaseline,
    edge_credit,
    first_quality,
    moved_edge,
    moved_quality,
    node_credit,
    signal,
)
from wardround.memory.experience import Role


def test_equation_11_and_12_entities() -> None:
    assert inverse_document_frequency(9, 4) == pytest.approx(math.log(2) + 1)
    assert inverse_document_frequency(9, 9) == 1.0
    idf = {"a": 1.0, "b": 2.0, "c": 3.0}
    # (2a, b) = (2, 2, 0) and (a, c) = (1, 0, 3): 2 / (sqrt(8) * sqrt(10))
    assert entity_similarity(["a", "a", "b"], ["a", "c"], idf) == pytest.approx(2 / math.sqrt(80))
    assert entity_similarity(["a", "b"], ["b", "a"], idf) == pytest.approx(1.0)
    assert entity_similarity(["a"], ["c"], idf) == 0.0
    assert entity_similarity([], ["c"], idf) == 0.0


ROLES: dict[str, Role] = {"a": "condition", "b": "action", "c": "outcome", "d": "rationale"}


def edges(*pairs: str) -> list[RoleEdge]:
    return [RoleEdge(source=pair[0], target=pair[1]) for pair in pairs]


def test_equation_13_and_14_role_paths() -> None:
    chain = edges("ab", "bc")
    assert role_paths(chain, ROLES, 1) == {(("condition", "action"),), (("action", "outcome"),)}
    assert role_paths(chain, ROLES, 2) == {(("condition", "action"), ("action", "outcome"))}
    assert role_paths(chain, ROLES, 3) == frozenset()
    one = {length: role_paths(chain, ROLES, length) for length in range(1, 5)}
    other = {length: role_paths(edges("ab", "bd", "dc"), ROLES, length) for length in range(1, 5)}
    # length 1: {ca, ao} and {ca, ar, ro}: 1 of 4; length 2: none in common of 3; length 3: none of 1; length 4: none
    assert structure_similarity(one, other) == pytest.approx(0.1 * 1 / 4)
    # the same chain: lengths 1 and 2 whole, 3 and 4 empty on both sides count 0
    assert structure_similarity(one, one) == pytest.approx(0.1 + 0.2)
    long = edges("ab", "bd", "db", "bc")
    whole = {length: role_paths(long, ROLES, length) for length in range(1, 5)}
    assert whole[4] == {
        (("condition", "action"), ("action", "rationale"), ("rationale", "action"), ("action", "outcome"))
    }
    assert structure_similarity(whole, whole) == pytest.approx(1.0)


def test_equation_5_leaves_out_what_nobody_judged() -> None:
    judged = edge_weight(entity=0.4, structure=0.2, synergy=0.6, task=1.0)
    assert judged == pytest.approx(0.55)
    assert edge_weight(entity=0.4, structure=0.2, synergy=None, task=1.0) == pytest.approx(1.6 / 3)
    assert edge_weight(entity=0.4, structure=0.2, synergy=0.0, task=1.0) == pytest.approx(0.4)
    assert edge_weight(entity=None, structure=None, synergy=None, task=None) == 0.0
    assert (task_similarity("diagnosis", "diagnosis"), task_similarity("diagnosis", "test")) == (1.0, 0.0)


def test_equation_4_reliability() -> None:
    # five trials: mu = 3/5; four successes: 1 / (1 + e^-0.2)
    assert first_quality(4, 5) == pytest.approx(1 / (1 + math.exp(-0.2)))
    assert first_quality(3, 5) == 0.5
    assert first_quality(2, 4) == 0.5
    with pytest.raises(ValueError, match="6 successes"):
        first_quality(6, 5)


def test_equation_8_and_9_credit() -> None:
    credit = node_credit(["a", "b", "c"])
    # 0.8, 0.64, 0.512 of 1.952
    assert credit == pytest.approx({"a": 0.8 / 1.952, "b": 0.64 / 1.952, "c": 0.512 / 1.952})
    pairs = edge_credit(credit, [("a", "b"), ("b", "c"), ("c", "x")])
    # 0.8 * 0.64 = 0.512 and 0.64 * 0.512 = 0.32768; the edge to what was not used has none
    assert pairs == pytest.approx({("a", "b"): 0.512 / 0.83968, ("b", "c"): 0.32768 / 0.83968})
    assert edge_credit(credit, []) == {}
    assert node_credit([]) == {}
    with pytest.raises(ValueError, match="twice"):
        node_credit(["a", "a"])


def test_equation_10_updates() -> None:
    assert (signal(1.0), signal(0.5), signal(0.0)) == (1.0, 0.0, -1.0)
    assert moved_quality(0.5, 0.4, 1.0) == pytest.approx(0.54)
    assert moved_quality(0.5, 0.4, -1.0) == pytest.approx(0.46)
    assert moved_quality(0.99, 1.0, 1.0) == 1.0
    assert moved_quality(0.01, 1.0, -1.0) == 0.0
    prior = compounding = EdgeHistory(prior=0.45, weight=0.45)
    for _ in range(3):
        prior = moved_edge(prior, 0.5, 1.0)
        compounding = moved_edge(compounding, 0.5, 1.0, reading="compounding")
    # phi is 0.025, 0.05, 0.075: added to the prior once, or to the last weight each time
    assert (prior.phi, prior.weight) == pytest.approx((0.075, 0.525))
    assert (compounding.phi, compounding.weight) == pytest.approx((0.075, 0.6))
    assert moved_edge(EdgeHistory(prior=0.01, weight=0.01), 1.0, -1.0).weight == 0.0


def test_a_baseline_takes_the_drift_out_of_delta() -> None:
    baseline = ScoreBaseline()
    assert baseline.signal(1.0) == 0.5  # nothing is known yet: against 1/2
    baseline = baseline.with_score(1.0)  # mean 0.75
    assert (baseline.signal(1.0), baseline.signal(0.75), baseline.signal(0.0)) == (0.25, 0.0, -0.75)
    printed = against = 0.5
    after = []
    for number in range(400):
        score = float(number % 5 > 0)  # four of five succeed, whatever is served
        printed = moved_quality(printed, 0.2, signal(score))
        against = moved_quality(against, 0.2, baseline.signal(score))
        baseline = baseline.with_score(score)
        after.append(against)
    # printed, 200 episodes move it by 200 * 0.1 * 0.2 * 0.6 = 2.4; against the mean, once known, by next to nothing
    assert printed == 1.0
    assert after[-1] == pytest.approx(after[199], abs=0.01)
