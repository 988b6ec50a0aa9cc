"""An induction that was killed goes on: what was counted of a stay is kept, and the stay is not read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forking import commands
from wardround.cli import main
from wardround.clinical.protocols import GlobalProtocol, ProtocolRule, write_protocol
from wardround.learning.induction import inducing, step_table
from wardround.learning.induction.inducing import packed, unpacked
from wardround.learning.induction.step_table import RUNNING, TrainingStep
from wardround.log import LogReader
from wardround.log.database import LOG_SUFFIX
from wardround.records import Store
from wardround.tasks.benchmarks import Benchmark, Sample

LIMIT, DONE = 3, 2
"""So many stays, and so many of them when a process is killed."""
KILLER = Path(__file__).with_name("kill_induction.py")


class Read:
    """The stays that were read, by which pass: for measured values, and for steps."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self.steps: list[str] = []


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Read]:
    """Notes every stay that is read from now on; it is read all the same."""
    found = Read()

    def noting(names: list[str], reads: Callable[..., Any]) -> Callable[..., Any]:
        def reading(store: Store, sample: Sample) -> Any:
            names.append(sample.id)
            return reads(store, sample)

        return reading

    monkeypatch.setattr(inducing, "played_bundles", noting(found.values, inducing.played_bundles))
    monkeypatch.setattr(step_table, "played_bundles", noting(found.steps, step_table.played_bundles))
    return found


@pytest.fixture
def words(synthetic_store_path: Path, synthetic_stays_path: Path) -> list[str]:
    return ["--benchmark", str(synthetic_stays_path), "--store", str(synthetic_store_path), "--limit", str(LIMIT)]


def induce(out: Path, words: list[str]) -> bytes:
    assert main(["protocol", "induce", str(out), *words]) == 0
    return out.read_bytes()


def counted(folder: Path) -> list[str]:
    """The names of all counts in all logs of a folder: one that was made twice is there twice."""
    found: list[str] = []
    for file in folder.glob(f"*{LOG_SUFFIX}"):
        with LogReader(file) as reader:
            found += reader.finished()
    return found


def test_killed_twice_it_goes_on_and_counts_no_stay_twice(
    words: list[str], synthetic_store_path: Path, synthetic_stays_path: Path, read: Read, tmp_path: Path
) -> None:
    """Killed while values are measured, then while steps are counted; what it keeps is its owner's alone."""
    undisturbed = induce(tmp_path / "undisturbed" / "out.toml", words)
    assert (len(read.values), len(read.steps)) == (LIMIT, 2 * LIMIT)
    told = [str(synthetic_store_path), str(synthetic_stays_path), str(tmp_path / "induction"), str(LIMIT)]
    printed = tmp_path / "printed"
    killer = commands().start_program(
        KILLER.read_text(encoding="utf-8"), [*told, str(DONE), str(2 * LIMIT + DONE)], str(printed)
    )
    assert commands().status(killer) == 0
    assert printed.read_text().split() == ["-9", "-9"]
    assert len(counted(tmp_path / "induction")) == 2 * LIMIT + DONE
    for made in (tmp_path / "undisturbed", tmp_path):
        assert (made / "induction").stat().st_mode & 0o077 == 0
    before = set(read.steps)
    read.values.clear()
    read.steps.clear()
    assert induce(tmp_path / "out.toml", words) == undisturbed
    assert (read.values, len(read.steps), set(read.steps) < before) == ([], LIMIT - DONE, True)
    names = counted(tmp_path / "induction")
    assert len(names) == len(set(names)) == 3 * LIMIT


def test_other_rules_to_begin_with_count_anew_and_other_thresholds_do_not(
    words: list[str], read: Read, tmp_path: Path
) -> None:
    induce(tmp_path / "first.toml", words)
    assert (len(read.values), len(read.steps)) == (LIMIT, 2 * LIMIT)
    induce(tmp_path / "fewer.toml", [*words, "--rules", "2"])
    assert (len(read.values), len(read.steps)) == (LIMIT, 2 * LIMIT)
    rule = ProtocolRule(id="OURS", category="ANY", trigger="hours since stay >= 0", actions=("order Lactate",))
    write_protocol(tmp_path / "base.toml", GlobalProtocol(name="ours", rules=(rule,)))
    induce(tmp_path / "based.toml", [*words, "--base", str(tmp_path / "base.toml")])
    assert (len(read.values), len(read.steps)) == (LIMIT, 4 * LIMIT)  # by those rules, and by the vocabulary


def test_steps_are_kept_whole() -> None:
    lactate, fluids = ("LABS", "Lactate"), ("MEDICATIONS", "fluids")
    step = TrainingStep(
        stay=3,
        hour=1.1,
        triggers=frozenset({"lactate > 4", "hour of day >= 2"}),
        done={fluids: RUNNING, lactate: -0.1},
        decided=(lactate, fluids),
        predicted=(("PROCEDURES", "EKG"),),
    )
    empty = TrainingStep(stay=3, hour=2.0, triggers=frozenset(), done={}, decided=())
    assert list(unpacked(packed([step, empty]), 3)) == [step, empty]


def test_whose_stays_they_are_is_part_of_a_counts_name(synthetic_store: Store, synthetic_stays_path: Path) -> None:
    """The same stay of another benchmark may have other targets."""
    samples = inducing.training_stays(Benchmark.open(synthetic_stays_path), synthetic_store, limit=1, seed=0)
    names: list[str] = []

    def keep(name: str, count: Callable[[], Any]) -> Any:
        names.append(name)
        return count()

    for taught in ("one", "other"):
        inducing.training_steps(
            synthetic_store,
            samples,
            inducing.RuleIndex(GlobalProtocol(name="none", rules=())),
            source_name=taught,
            keep=keep,
        )
    assert len(set(names)) == 6
