"""What the outcome swap counts, and by which clock it reads the two charts."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from wardround.audits import outcome_swap
from wardround.audits.outcome_swap import Compared, SwapReport, _compare
from wardround.audits.swap.knowledge import KnowledgeRule, SwapTable
from wardround.audits.swap.write import write_swapped

TABLE = SwapTable(
    name="invented",
    form="tables",
    subject="who",
    subject_by=None,
    minutes_of=None,
    fixed=("d_*",),
    anchors=(),
    rules={"labs": (KnowledgeRule(where={"kind": ("known",)}, row=()),)},
)
FILES = {
    "labs.csv": "who,kind,n\n1,odd,1\n1,odd,2\n2,odd,3\n3,odd,4\n2,odd,5\n",
    "d_words.csv": "id,word\n1,a\n",
    "other.csv": "who,x\n1,2\n",
}


def test_rows_that_fit_no_rule_and_files_without_one_are_copied_and_counted(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for name, text in {**FILES, "notes.txt": "x"}.items():
        (raw / name).write_text(text)
    moments = {1: datetime(2150, 1, 1), 2: datetime(2150, 1, 1)}
    (copy,), counts = write_swapped(TABLE, [raw], tmp_path / "copy", moments)
    assert counts.unruled == {"labs": 4}
    assert (counts.subjects, counts.rows, counts.written, counts.changed) == (2, 4, 4, 0)
    assert counts.uncovered == {"other"}
    assert sorted(path.name for path in copy.iterdir()) == ["d_words.csv", "labs.csv", "notes.txt", "other.csv"]
    assert sorted((copy / "labs.csv").read_text().splitlines()) == sorted(FILES["labs.csv"].splitlines())
    assert (copy / "other.csv").read_text() == FILES["other.csv"]


class Charts:
    """A store that notes by which clock it is asked."""

    def __init__(self, *subjects: int) -> None:
        self.subjects = subjects
        self.asked: list[tuple[int, datetime, str]] = []

    def chart(self, subject: int, as_of: datetime, *, policy: str = "known_at") -> str:
        self.asked.append((subject, as_of, policy))
        return f"chart of {subject}"


def test_both_charts_are_read_by_the_clock_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[Any] = []
    monkeypatch.setattr(outcome_swap, "compare_charts", lambda found, *words: pairs.append(words))
    as_of = datetime(2150, 1, 1)
    here, there = Charts(1, 2), Charts(1)
    found = SwapReport(policy="published")
    both = Compared(
        compared=Counter(questions=3), differences=["asked otherwise"], declared=Counter(rounded=2), left_out={"a": "b"}
    )
    _compare(
        found,
        cast(Any, here),
        cast(Any, there),
        {1: as_of, 2: as_of},
        [lambda shown, expected: iter([f"{shown}, {expected}"])],
        [lambda one, other, moments: both] * 2,
    )
    assert here.asked == [(1, as_of, "published"), (2, as_of, "published")]
    assert there.asked == [(1, as_of, "published")]
    assert pairs == [
        ("chart of 1", "chart of 1", "in the other future"),
        ("chart of 2", None, "in the other future"),
    ]
    assert (found.answers, found.questions) == (1, 2)
    assert found.compared == {"questions": 6}
    assert found.declared == {"rounded": 4}
    assert found.left_out == {"a": "b"}
    assert found.examples == [f"1 as of {as_of}: chart of 1, chart of 1", "asked otherwise", "asked otherwise"]
    assert not found.clean


def test_a_report_is_clean_without_any_difference_and_says_what_was_left_out() -> None:
    left_out = {
        "x": "none",
        "w": "none",
        "lupus": "lupus: no code of 'a' in it",
        "celiac": "celiac: no code of 'b' in it",
    }
    found = SwapReport(
        policy="known_at", samples=1, rounds=2, raw_rows=3000, changed_rows=1200,
        compared=Counter(b=1, a=2000), left_out=left_out, uncovered={"z", "y"}, unruled={"labs": 1500},
    )  # fmt: skip
    assert found.as_text().splitlines() == [
        "outcome swap, policy known_at: 1 samples, 2 rounds",
        "1,200 of 3,000 raw rows were changed or left out",
        "0 differences in charts, 0 in tool answers, 0 in questions",
        "compared: 2,000 a, 1 b",
        "not compared: celiac, lupus: the source has no code of it (--json names the codes that were looked for)",
        "not compared: w, x: none",
        "not in the swap table, copied as they are: y, z",
        "1,500 rows of labs fit no rule and were copied as they are",
        "clean",
    ]
    for field in ("answers", "questions"):
        assert SwapReport(policy="known_at", **{field: 1}).as_text().splitlines()[-1].startswith("LEAKS in")
    assert found.as_text().splitlines()[-1] == "clean"
    labs = found.of("labs")
    labs.extra, labs.differing = 1, 2
    labs.columns.update({"": 1, "storetime": 2})
    found.questions, found.places = 3, Counter({"clinseek: clinseek.ICU_Stay_7day (icustays.outtime)": 3})
    assert not found.clean
    assert found.as_text().splitlines()[-1] == (
        "LEAKS in charts: labs.rows (1); charts: labs.storetime (2); "
        "clinseek: clinseek.ICU_Stay_7day (icustays.outtime) (3)"
    )
