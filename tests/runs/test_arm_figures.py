"""Curated input against evidence seeking: figures worked out by hand, and Student's t against a library's."""

from __future__ import annotations

import math

import pytest
from score_doubles import scored

from wardround.core import Usage
from wardround.tasks.scoring import EpisodeScore, arm_cells, arm_rows, student_quantile, student_radius


def _group(task: str) -> str | None:
    return {"a": "one", "b": "two"}.get(task)


def _played(
    agent: str, values: dict[tuple[str, int], float], *, model: str = "m", tokens: int = 100
) -> list[EpisodeScore]:
    return [
        scored(task, person, value, agent=agent, model=model, use_usage=Usage(input_tokens=tokens, output_tokens=5))
        for (task, person), value in values.items()
    ]


CURATED = {("a", 1): 0.0, ("a", 2): 1.0, ("b", 1): 0.5, ("b", 3): 0.5}
SEEKING = {("a", 1): 1.0, ("a", 2): 1.0, ("b", 1): 0.0, ("b", 3): 0.5}


def test_both_arms_their_groups_and_the_paired_difference() -> None:
    scores = _played("curated", CURATED, tokens=300) + _played("react", SEEKING, tokens=9000)
    one, two, overall = arm_rows(scores, _group, curated="curated", seed=0)
    assert (one.group, two.group, overall.group) == ("one", "two", "overall")
    assert one.seeking is not None
    assert one.difference is not None
    assert (one.curated.mean, one.seeking.mean, one.difference.difference.estimate) == (0.5, 1.0, 0.5)
    assert two.difference is not None
    assert two.difference.difference.estimate == -0.25
    assert overall.difference is not None
    assert overall.difference.difference.estimate == pytest.approx((1 + 0 - 0.5 + 0) / 4)
    assert (overall.curated.input_tokens, overall.seeking.input_tokens if overall.seeking else None) == (300, 9000)
    # of 0 and 1 the standard deviation is sqrt(1/2), over sqrt(2); t of one degree of freedom is tan(0.95 pi / 2)
    assert one.curated.radius == pytest.approx(math.tan(0.95 * math.pi / 2) * 0.5)


def test_a_model_that_only_played_curated_inputs_has_no_difference() -> None:
    rows = arm_rows(_played("curated", CURATED), _group, curated="curated", seed=0)
    assert [row.difference for row in rows] == [None, None, None]
    assert arm_rows(_played("react", SEEKING), _group, curated="curated", seed=0) == ()


def test_tasks_without_two_arms_are_left_out_and_epochs_are_one_observation() -> None:
    other = [scored("c", 1, 1.0, agent=agent) for agent in ("curated", "react")]
    assert arm_rows(other, _group, curated="curated", seed=0) == ()
    twice = [scored("a", 1, value, agent="curated", epoch=n) for n, value in enumerate((0.0, 1.0))]
    (row,) = arm_rows([*twice, scored("a", 2, 0.5, agent="curated")], _group, curated="curated", seed=0)
    assert (row.curated.n, row.curated.mean) == (2, 0.5)
    assert arm_cells([*twice, *other], _group, curated="curated") == ()


def test_a_cell_is_the_mean_difference_over_the_samples_that_both_arms_have() -> None:
    scores = _played("curated", CURATED) + _played("react", {("a", 1): 1.0, ("b", 9): 1.0})
    (cell,) = arm_cells(scores, _group, curated="curated")
    assert (cell.task, cell.n, cell.difference) == ("a", 1, 1.0)


def test_students_t_is_that_of_a_library() -> None:
    library = pytest.importorskip("scipy.stats", reason="needs scipy to compare with")
    for probability in (0.5, 0.75, 0.975, 0.995):
        for degrees in (1, 2, 5, 39, 719, 1799):
            expected = float(library.t.ppf(probability, degrees))
            assert student_quantile(probability, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_radius_needs_two_values() -> None:
    assert student_radius([1.0]) is None
    assert student_radius([1.0, 1.0]) == 0.0
    with pytest.raises(ValueError, match="degree of freedom"):
        student_quantile(0.975, 0)
