"""What of two runs may judge a bank: the episodes both played, and runs that differ in the bank alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runs.score_doubles import scored
from wardround.core import UserError
from wardround.learning.validation import _judged, held_out_pairs
from wardround.tasks.scoring import HeldOutPairs


def test_only_what_both_played_in_the_same_epoch_is_paired_by_task() -> None:
    without = [scored("b", 2, 0.1), scored("a", 1, 0.2), scored("a", 1, 0.3, epoch=1), scored("a", 9, 0.9)]
    with_it = [scored("a", 1, 0.4), scored("b", 2, 0.5), scored("a", 1, 0.6, epoch=2), scored("a", 1, 0.7, epoch=1)]
    assert held_out_pairs(without, with_it) == {
        "a": HeldOutPairs(without=[0.2, 0.3], with_it=[0.4, 0.7], subjects=[1, 1]),
        "b": HeldOutPairs(without=[0.1], with_it=[0.5], subjects=[2]),
    }
    with pytest.raises(UserError, match="no scored episode in common"):
        held_out_pairs(without[:1], with_it[:1])


def run(bank: str | None, **changed: Any) -> Any:
    """A run's folder as far as a judge looks at it."""
    said = {"split": "dev", "agents": ("gsem",), "models": ("m",), "gate": "ignore", "banks": {}} | changed
    manifest = {"benchmark_digest": "b", "store_digest": "s", "policy": "known_at", "bank": {"revision": "7"}}
    return SimpleNamespace(
        path="run",
        manifest=manifest | {name: said[name] for name in manifest if name in said},
        settings=SimpleNamespace(
            run=SimpleNamespace(split=said["split"], agents=said["agents"], models=said["models"]),
            memory=SimpleNamespace(bank=bank, banks=said["banks"], gate=said["gate"]),
        ),
    )


@pytest.mark.parametrize(
    ("without", "with_it", "problem"),
    [
        ({}, {}, None),
        ({"agents": ("react",)}, {}, None),
        ({"split": "test"}, {}, "is on 'test'"),
        ({}, {"split": "train"}, "is on 'train'"),
        ({"agents": ("a", "b")}, {}, "several agents or models"),
        ({}, {"models": ("m", "n")}, "several agents or models"),
        ({"benchmark_digest": "x"}, {}, "differ in benchmark_digest"),
        ({}, {"store_digest": "x"}, "differ in store_digest"),
        ({}, {"policy": "charted"}, "differ in policy"),
        ({"models": ("n",)}, {}, "judge the same model with the bank and without any"),
        ({"bank": "bank"}, {}, "judge the same model with the bank and without any"),
        ({"banks": {"gsem": "own"}}, {}, "judge the same model with the bank and without any"),
        ({}, {"bank": None}, "did not read"),
        ({}, {"bank": "other"}, "did not read"),
        ({}, {"gate": "heed"}, "did not read"),
    ],
)
def test_runs_that_show_something_else_judge_nothing(
    without: dict[str, Any], with_it: dict[str, Any], problem: str | None, tmp_path: Path
) -> None:
    for name in ("bank", "other"):
        (tmp_path / name).write_text(name)
    places = {"bank": str(tmp_path / "bank"), "other": str(tmp_path / "other"), None: None}
    first = run(places[without.pop("bank", None)], **without)
    second = run(places[with_it.pop("bank", "bank")], **with_it)
    bank = cast(Any, SimpleNamespace(path=tmp_path / "bank"))
    if problem is None:
        assert _judged(bank, first, second)["revision"] == "7"
        return
    with pytest.raises(UserError, match=problem):
        _judged(bank, first, second)
