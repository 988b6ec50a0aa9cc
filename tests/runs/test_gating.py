"""The gate before a bank: judged by paired dev runs, kept in the bank and the manifest, heeded where it is served."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from wardround.cli import main
from wardround.core import UserError
from wardround.learning import gate_bank
from wardround.log import LogReader
from wardround.memory import Bank, Experience, PinnedBank, Provenance, Subject, text_key
from wardround.memory.rows import GateRecord, GateUse, look_of
from wardround.records import Store
from wardround.runs import RunFolder, RunSettings, execute, gate_notes, start
from wardround.runs.banks import Memories
from wardround.tools.retrieval import LexicalEncoder

CLOSED = {"state": "harm", "difference": -0.2}
OPEN = {"state": "open", "difference": 0.2}


def filled(path: Path) -> None:
    """A bank with one experience that every question finds."""
    with Bank.open(path) as bank:
        subject = bank.subject_hash(Subject(source="elsewhere", subject_id=1))
        one = Experience(
            kind="indication",
            title="look at the admission",
            description="",
            content="Of the patient's admission, look at all.",
            condition="a patient in admission",
            task="diagnoses",
            task_type="diagnosis",
            provenance=Provenance(sample="elsewhere-1", subject=subject, split="train"),
        )
        bank.add([one], key=text_key(LexicalEncoder(), one.content))


@pytest.fixture(scope="module")
def settings(synthetic_benchmark_path: Path, synthetic_store_path: Path) -> RunSettings:
    return RunSettings.of(
        benchmark=str(synthetic_benchmark_path),
        store=str(synthetic_store_path),
        tasks=("diagnoses", "transfers"),
        split="dev",
        limit=1,
        agents=("react+gsem-walk",),
    )


def played(path: Path, settings: RunSettings) -> RunFolder:
    folder = start(path, settings)
    execute(folder)
    return folder


def notes(folder: RunFolder, kind: str) -> list[Any]:
    with LogReader(folder.logs) as reader:
        return [detail for _, detail in reader.notes(kind)]


def test_a_verdict_holds_from_its_revision_on_until_the_next(tmp_path: Path) -> None:
    filled(tmp_path / "bank.sqlite")
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        first = bank.revision
        assert bank.gate() == GateRecord()
        bank.record_gate(GateRecord(revision=first, content="x", look=1, verdicts={"diagnoses": CLOSED}))
        second = bank.set_graph(reason="moved")
        assert bank.gate().revision == first
        bank.record_gate(GateRecord(revision=second, content="y", look=2, verdicts={"diagnoses": OPEN}))
        assert bank.gate().verdicts == {"diagnoses": OPEN}
    with PinnedBank.open(tmp_path / "bank.sqlite", revision=first) as pinned:
        assert pinned.gate().verdicts == {"diagnoses": CLOSED}
    with PinnedBank.open(tmp_path / "bank.sqlite", revision="gated") as pinned:
        assert pinned.revision == second


def test_what_is_not_shown_to_help_is_served_only_where_the_gate_is_ignored() -> None:
    judged = GateRecord(revision=1, content="x", verdicts={"a": OPEN, "b": CLOSED, "c": {"state": "doubtful"}})
    uses: tuple[GateUse, ...] = ("heed", "require", "ignore")

    def served(content: str) -> dict[str, str]:
        return {use: "".join(task for task in "abcd" if judged.allows(task, use, content)) for use in uses}

    assert served("x") == {"heed": "ad", "require": "a", "ignore": "abcd"}
    assert served("y") == {"heed": "d", "require": "", "ignore": "abcd"}, "another bank than the one that was judged"
    assert [judged.state(task, "x") for task in "abcd"] == ["open", "harm", "doubtful", "never judged"]
    assert judged.state("a", "y") == "the bank changed since it was judged"


def test_two_dev_runs_judge_a_bank_and_runs_heed_it(
    settings: RunSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = tmp_path / "bank.sqlite"
    filled(bank)
    with_it = settings.changed(bank=str(bank), gate="ignore")
    played(tmp_path / "with", with_it)
    played(tmp_path / "without", settings.changed(agents=("react",)))
    words = ["memory", "gate", str(bank), "--without", str(tmp_path / "without"), "--with", str(tmp_path / "with")]
    assert main(words) == 1, "one patient opens nothing"
    said = capsys.readouterr().out
    assert said.count("too_few") == 2
    assert "look 1 at this bank, judged at level 0.0608" in said
    assert main(words) == 1
    assert "look 1 at this bank" in capsys.readouterr().out, "the same runs are one look"
    with Bank.open(bank, writable=False) as held:
        assert look_of(held.file, "another run", "with") == 2
    with Bank.open(bank, writable=False) as held:
        verdict = held.gate().verdicts["diagnoses"]
    assert (verdict["state"], verdict["standard"], verdict["episodes"]) == ("too_few", "benefit", 2)
    assert verdict["with"].startswith("with:")

    heeding = played(tmp_path / "heeding", settings.changed(split="test", tasks=("diagnoses",), bank=str(bank)))
    assert heeding.manifest["bank"]["gate"]["verdicts"]["diagnoses"] == verdict
    assert notes(heeding, "gate_closed") == [{"task": "diagnoses"}]
    assert not notes(heeding, "experiences")
    ignoring = played(tmp_path / "ignoring", heeding.settings.changed(gate="ignore"))
    assert notes(ignoring, "experiences")
    judged = heeding.manifest["bank"]
    with Bank.open(bank) as held:
        held.record_gate(
            GateRecord(revision=judged["revision"], content=judged["sha256"], look=2, verdicts={"diagnoses": OPEN})
        )
    opened = played(tmp_path / "opened", heeding.settings)
    assert notes(opened, "experiences")
    with Bank.open(bank) as held:
        held.set_graph(qualities={held.experiences()[0].id: 0.9}, reason="moved after it was judged")
    changed = played(tmp_path / "changed", heeding.settings)
    assert notes(changed, "gate_closed") == [{"task": "diagnoses"}], "the verdict is of another bank"
    label = "react+gsem-walk was served no experience, its bank's gate being closed, for diagnoses"
    assert gate_notes(heeding) == (f"{label} (too_few)",)
    assert gate_notes(changed) == (f"{label} (the bank changed since it was judged)",)
    assert gate_notes(opened) == gate_notes(ignoring) == ()
    capsys.readouterr()
    assert main(["report", str(changed.path)]) == 0
    assert f"{label} (the bank" in capsys.readouterr().out
    assert label in (changed.path / "report" / "index.html").read_text().replace("&#39;", "'")
    assert main(["compare", str(opened.path), str(changed.path)]) == 0
    printed = capsys.readouterr()
    assert f"{changed.path}: {label}" in printed.err
    why = "the scores of every sample are the same: the offline policy is a rule and does not read what a memory serves"
    assert f"+0.000 in 1 of 1 comparisons: {why}" in " ".join(printed.out.split())
    pinned = played(tmp_path / "pinned", heeding.settings.changed(bank_revision="gated"))
    assert notes(pinned, "experiences")


@pytest.mark.parametrize(
    ("gate", "tasks", "closed"),
    [
        ("heed", (), ("diagnoses (harm)",)),
        ("heed", ("diagnoses", "transfers"), ("diagnoses (harm)",)),
        ("require", (), ("diagnoses (harm)", "every other task (never judged)")),
        ("require", ("diagnoses", "transfers"), ("diagnoses (harm)", "transfers (never judged)")),
        ("ignore", (), ()),
    ],
)
def test_tasks_that_were_never_judged_are_named_where_a_verdict_is_required(
    settings: RunSettings, tmp_path: Path, gate: str, tasks: tuple[str, ...], closed: tuple[str, ...]
) -> None:
    filled(tmp_path / "bank.sqlite")
    with PinnedBank.open(tmp_path / "bank.sqlite") as pinned:
        judged = {"revision": pinned.revision, "content": pinned.content_hash()}
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.record_gate(GateRecord(**judged, look=1, verdicts={"diagnoses": CLOSED, "labevents": OPEN}))
    folder = start(tmp_path / "run", settings.changed(bank=str(tmp_path / "bank.sqlite"), gate=gate, tasks=tasks))
    said = "react+gsem-walk was served no experience, its bank's gate being closed, for"
    assert gate_notes(folder) == ((f"{said} {', '.join(closed)}",) if closed else ())


def is_open(path: Path) -> bool:
    """Whether this process holds a file open."""
    return any(os.path.realpath(one) == str(path.resolve()) for one in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="tells by /proc which files are open")
def test_the_banks_of_a_run_are_closed_with_it_and_where_one_of_them_cannot_be_opened(
    settings: RunSettings, synthetic_store: Store, tmp_path: Path
) -> None:
    shared, own = tmp_path / "shared.sqlite", tmp_path / "own.sqlite"
    filled(shared)
    filled(own)
    agents = ("react+gsem-walk", "gsem")
    folder = start(tmp_path / "run", settings.changed(agents=agents, bank=str(shared), banks={"gsem": str(own)}))
    memories = Memories.open(folder.settings, folder.manifest, synthetic_store)
    assert is_open(shared)
    assert is_open(own)
    memories.close()
    assert not is_open(shared)
    assert not is_open(own)
    another = {"gsem": folder.manifest["banks"]["gsem"] | {"sha256": "of another bank"}}
    with pytest.raises(UserError, match=r"own\.sqlite' is not the one this run was made with"):
        Memories.open(folder.settings, folder.manifest | {"banks": another}, synthetic_store)
    assert not is_open(shared)
    assert not is_open(own)


def test_only_paired_dev_runs_judge(settings: RunSettings, tmp_path: Path) -> None:
    bank = tmp_path / "bank.sqlite"
    filled(bank)
    test = start(tmp_path / "test", settings.changed(split="test", bank=str(bank), gate="ignore"))
    without = start(tmp_path / "without", settings.changed(agents=("react",)))
    heeding = start(tmp_path / "heeding", settings.changed(bank=str(bank)))
    with Bank.open(bank) as held:
        with pytest.raises(UserError, match="is on 'test': a bank is judged on 'dev'"):
            gate_bank(held, without, test)
        with pytest.raises(UserError, match=r"memory\.gate=ignore"):
            gate_bank(held, without, heeding)
        with pytest.raises(UserError, match="and without any"):
            gate_bank(held, heeding, heeding)
