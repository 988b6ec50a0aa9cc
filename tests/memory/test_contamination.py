"""The contamination check: what it finds, and that it asks for everything on behalf of everybody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from memory_doubles import SOURCE, key, lesson, origin

from wardround.memory import KINDS, Bank, BankState, contamination_check
from wardround.memory.experience import Subject


@dataclass(frozen=True)
class Question:
    """A sample as the check needs it."""

    id: str
    subject_id: int
    split: str

    @property
    def person(self) -> int:
        return self.subject_id


QUESTIONS = (
    Question("sample-1", 1, "train"),
    Question("sample-2", 2, "train"),
    Question("t-3", 3, "test"),
    Question("t-4", 4, "test"),
    Question("d-5", 5, "dev"),
)


def test_a_bank_of_training_patients_is_clean(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.add([lesson(bank, "one", 1), lesson(bank, "two", 2, kind="summariser")], key=key(1, 0))
        report = contamination_check(bank, QUESTIONS, source=SOURCE)
    assert report.clean
    assert (report.experiences, report.samples, report.evaluation_samples) == (2, 5, 3)
    assert report.searches == 5 * len(KINDS)
    assert set(report.counts().values()) == {0}


def test_every_way_of_not_fitting_is_found_with_its_ids(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.add([lesson(bank, "good", 1)], key=key(1, 0))
        bank.add([lesson(bank, "tested", 9, split="test", sample="elsewhere")], key=key(1, 0))
        bank.add([lesson(bank, "relabelled", 3, split="train", sample="t-3")], key=key(1, 0))
        bank.add([lesson(bank, "same patient", 4, split="train", sample="other")], key=key(1, 0))
        bank.add([lesson(bank, "taught", 2)], key=key(1, 0))
        names = {one.title: one.id for one in bank.experiences()}
        bank.revise(names["taught"], content="More", by=origin(bank, 5, sample="x"), reason="r")
        report = contamination_check(bank, QUESTIONS, source=SOURCE)
    found = {(one.kind, one.experience, one.sample) for one in report.findings}
    assert found == {
        ("split", names["tested"], "elsewhere"),
        ("sample", names["relabelled"], "t-3"),
        ("subject", names["relabelled"], "t-3"),
        ("subject", names["same patient"], "t-4"),
        ("subject", names["taught"], "d-5"),
    }
    assert report.counts() == {"split": 1, "sample": 1, "subject": 3, "served": 0, "names_subject": 0}
    assert report.to_json()["counts"] == report.counts()
    assert not report.clean


def test_a_retired_experience_reaches_nobody(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.add([lesson(bank, "same patient", 4, sample="other")], key=key(1, 0))
        bank.retire(bank.experiences()[0].id, reason="found by the check")
        assert contamination_check(bank, QUESTIONS, source=SOURCE).clean


def test_a_text_that_names_a_patient_is_found(tmp_path: Path) -> None:
    questions = (*QUESTIONS, Question("t-6", 10009999, "test"))
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.add([lesson(bank, "one", 1, content="As in patient 10009999, read notes")], key=key(1, 0))
        report = contamination_check(bank, questions, source=SOURCE)
        assert [(one.kind, one.sample) for one in report.findings] == [("names_subject", "t-6")]
        assert contamination_check(bank, QUESTIONS, source=SOURCE).clean


@pytest.mark.parametrize("name", ["recall", "search"])
def test_a_search_that_served_its_own_patient_would_be_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check does not believe the search, with or without a key: break the guard and it must say so."""
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.add([lesson(bank, "mine", 1)], key=key(1, 0))
        stranger = Subject(source="nowhere", subject_id=0)
        honest = getattr(BankState, name)
        monkeypatch.setattr(
            BankState, name, lambda self, *key, **asked: honest(self, *key, **{**asked, "for_subject": stranger})
        )
        report = contamination_check(bank, QUESTIONS, source=SOURCE)
    assert [(one.kind, one.sample) for one in report.findings] == [("served", "sample-1")]
