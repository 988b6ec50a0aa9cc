"""Columns that tell how a stay ends while it goes on are named; honest ones are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foreign_hospitals import FOREIGN, kreisklinik, stadtspital
from records.small_source import small_store
from wardround.cli import main
from wardround.core import UserError
from wardround.records import Store, ingest, load_source_spec
from wardround.tasks.benchmarks.early_columns import _auc, _rank_auc, _standard_error, audit_columns

LATE = '"entlassung, fachabteilung, verweildauer, entlassungsart" = "entlassung"'


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("raw")
    return {
        "kreisklinik": kreisklinik(folder / "kreisklinik", patients=50),
        "stadtspital": stadtspital(folder / "stadtspital", patients=50),
    }


def store_of(raw: dict[str, Path], folder: Path, name: str, now: str = "", then: str = "") -> Store:
    text = (FOREIGN / f"{name}.toml").read_text(encoding="utf-8")
    assert now in text
    (folder / "spec.toml").write_text(text.replace(now, then) if now else text, encoding="utf-8")
    ingest(load_source_spec(folder / "spec.toml"), raw[name], folder / "store")
    return Store.open(folder / "store")


@pytest.mark.parametrize("name", ["kreisklinik", "stadtspital"])
def test_honest_columns_of_a_fair_coin_tell_nothing(raw: dict[str, Path], tmp_path: Path, name: str) -> None:
    report = audit_columns(store_of(raw, tmp_path, name))
    assert report.suspects == ()
    assert (report.stays, report.columns > 10) == (100, True)
    assert "none predicts" in report.as_text()


@pytest.mark.parametrize(
    ("name", "now", "then", "column", "outcome"),
    [
        ("kreisklinik", LATE, LATE.replace(", verweildauer", ""), "faelle.verweildauer", "a long rest"),
        ("kreisklinik", LATE, LATE.replace(", entlassungsart", ""), "faelle.entlassungsart", "death"),
        ("stadtspital", 'todestag = "todestag"\n', "", "personen.todestag", "death"),
    ],
)
def test_a_column_that_tells_the_end_is_named_with_nobody_asked(
    raw: dict[str, Path], tmp_path: Path, name: str, now: str, then: str, column: str, outcome: str
) -> None:
    report = audit_columns(store_of(raw, tmp_path, name, now, then))
    assert report.suspects == (column,), report.as_text()
    at_once = [sign for sign in report.signs if (sign.column, sign.outcome, sign.day) == (column, outcome, 0)]
    assert at_once[0].auc > 0.99


def test_the_command_lists_and_gives_no_verdict(
    raw: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(raw, tmp_path, "kreisklinik", LATE, LATE.replace(", entlassungsart", ""))
    assert main(["audit", "columns", "--store", str(store.path), "--stays", "80"]) == 0
    said = capsys.readouterr().out
    assert "34 columns of 'kreisklinik' against how 80 stays go on" in said
    assert "1 to explain: faelle.entlassungsart" in said


def test_a_source_without_stays_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="role `admission`"):
        audit_columns(small_store(tmp_path))


def test_the_auc_is_that_of_the_pairs_and_its_error_that_of_the_formula() -> None:
    chance = np.random.default_rng(4)
    scores, truth = chance.integers(0, 9, 60).astype(float), chance.random(60) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in scores[truth] for b in scores[~truth]]
    assert _rank_auc(scores, truth) == pytest.approx(np.mean(pairs), abs=1e-12)
    # By hand: q1 = 0.8 / 1.2, q2 = 1.28 / 1.8; (0.16 + 9 x (q1 - 0.64) + 9 x (q2 - 0.64)) / 100 = 0.0104.
    assert _standard_error(0.8, 10, 10) == pytest.approx(0.0104**0.5, abs=1e-9)


def test_what_is_learnt_of_one_half_is_judged_on_the_other() -> None:
    """A word of its own for every stay tells nothing of another: fitted and judged on all it would have an AUC of 1."""
    truth = np.arange(200) % 2 == 0
    half = np.arange(200) < 100
    _, auc, _, stays = _auc([f"w{n}" for n in range(200)], np.ones(200, bool), truth, half)
    assert (auc, stays) == (0.5, 200)
    _, auc, _, _ = _auc(np.where(truth, -1.0, 1.0), np.ones(200, bool), truth, half)
    assert auc == 1.0, "a low number tells as much as a high one"
