"""Forgetting: no byte of it is left in any file, nothing comes back, what is pinned to it is refused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from memory_doubles import key, lesson, patient

from forking import commands, kill, wait_for
from wardround.core import UserError
from wardround.memory import (
    Bank,
    Edge,
    Entity,
    Experience,
    PinnedBank,
    RecallQuestion,
    SeenIn,
    export_bank,
    forget,
    import_bank,
    withdraw,
)
from wardround.memory.credit import EpisodeName
from wardround.memory.learning import EvolutionSettings, PlayedEpisode, learn
from wardround.memory.upkeep import REBUILD

SECRET = "zebrafish"
ROW = "labevents:4711"


def put(bank: Bank) -> tuple[Experience, Experience]:
    """Something to be forgotten, and something that stays and was touched by it in every way."""
    told = lesson(
        bank,
        f"{SECRET} title",
        1,
        sample=f"sample-{SECRET}",
        kind="indication",
        condition=f"{SECRET} condition; sepsis",
        content=f"the {SECRET} text",
        exclusions=(f"{SECRET} exclusion",),
        entities=(Entity(name=f"{SECRET} name", role="condition"),),
        evidence=(SeenIn(step=1, rows=(ROW,)),),
        facts={"note": f"{SECRET} fact"},
    )
    stays = lesson(bank, "stays", 2, kind="indication", entities=(Entity(name="fever", role="condition"),))
    bank.add([told], key=key(0.123, 1))
    bank.add([stays], key=key(1, 0.5))
    bank.set_graph(
        qualities={told.id: 0.5, stays.id: 0.5},
        edges=[Edge(source=told.id, target=stays.id, weight=0.5), Edge(source=stays.id, target=told.id, weight=0.5)],
        reason=f"linked {told.id}",
    )
    bank.add_alias("fever", of=f"{SECRET} name", reason="same")
    for sample in (f"sample-{SECRET}", "sample-2"):
        name = EpisodeName(run="run", agent="a", sample=sample, epoch=1)
        played = PlayedEpisode(name=name, sample=sample, task="t", split="train", score=1.0, shown=[stays.id])
        learn(bank, played, EvolutionSettings(quality="eq10", delta_baseline="none"))
    bank.add_feedback(stays.id, "used", value=1.0, episode=f"agent|model|task|sample-{SECRET}|0")
    bank.revise(told.id, content=f"the {SECRET} text, revised", reason=f"{SECRET} reason")
    return told, stays


def traces(folder: Path, *secrets: bytes) -> list[str]:
    return [
        f"{secret!r} in {file.name}"
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        for secret in secrets
        if secret in file.read_bytes()
    ]


@pytest.mark.parametrize("by", ["sample", "id", "row"])
def test_no_byte_of_what_is_forgotten_is_left_in_any_file(by: str, tmp_path: Path) -> None:
    path = tmp_path / "bank" / "bank.sqlite"
    with Bank.open(path) as bank:
        told, stays = put(bank)
        texts = (f"{SECRET} {what}".encode() for what in ("title", "condition", "text", "exclusion", "name", "fact"))
        secrets = (*texts, told.id.encode(), ROW.encode(), key(0.123, 1).vector.tobytes())
        assert len(traces(path.parent, *secrets)) >= len(secrets), "the search finds what is there"
        source = {"sample": f"sample-{SECRET}", "id": told.id, "row": ROW}[by]
        done = forget(bank, source, reason="asked for by the patient")
        assert done.experiences == (told.id,)
        if by == "sample":  # otherwise what its sample did to others stays, and names it
            secrets += (SECRET.encode(),)
        assert traces(path.parent, *secrets) == []
        assert bank.experiences() == (stays,)
        quality = 0.6 if by == "sample" else 0.7
        assert bank.graph().quality(stays.id) == pytest.approx(quality), "without the 0.1 that the sample gave"
        assert bank.graph().edges(stays.id) == ()
        assert bank.graph().entity("fever") == "fever"
        assert not any(bank.damage().values())
        assert bank.add([told]) == 0, "it does not come back"
        served = bank.seeds(RecallQuestion(text=f"{SECRET} sepsis", key=key(1, 1)), for_subject=patient(9))
        assert served.experiences == (stays,)
        with pytest.raises(UserError, match="came of"):
            forget(bank, source, reason="again")
    assert traces(path.parent, *secrets) == [], "closing writes nothing back"


@pytest.mark.parametrize("how", ["withdraw", "forget"])
def test_nothing_comes_back_through_new_experiences_outcomes_feedback_or_an_import(how: str, tmp_path: Path) -> None:
    """By every way in: what cites the row, what comes of the sample, what was revised by it elsewhere."""
    sample = f"sample-{SECRET}"
    with Bank.open(tmp_path / "bank.sqlite") as bank, Bank.open(tmp_path / "other.sqlite") as other:
        other.adopt_subject_key(bank.file.setting("subject_key"))
        told, stays = put(bank)
        taught = lesson(other, "taught", 3, kind="indication", content="as taught")
        other.add([taught])
        other.revise(taught.id, content=f"what {SECRET} taught", by=told.provenance, reason="seen")
        export_bank(other, tmp_path / "other.jsonl")
        (withdraw if how == "withdraw" else forget)(bank, ROW, reason="asked for")
        (withdraw if how == "withdraw" else forget)(bank, sample, reason="asked for")
        before = bank.graph().facts()
        citing = lesson(bank, "another", 4, kind="indication", evidence=(SeenIn(step=9, rows=("labevents:1", ROW)),))
        assert bank.add([citing]) == 0, "it shows the row"
        assert bank.add([lesson(bank, "more", 5, sample=sample)]) == 0
        with pytest.raises(UserError, match="nothing may be learnt from it"):
            bank.revise(stays.id, content="more", by=told.provenance, reason="seen")
        name = EpisodeName(run="run", agent="a", sample="elsewhere", epoch=2)
        played = PlayedEpisode(name=name, sample=sample, task="t", split="train", score=1.0, shown=[stays.id])
        assert learn(bank, played, EvolutionSettings(quality="eq10")) is None
        assert not bank.add_feedback(stays.id, "used", value=1.0, episode=f"agent|model|task|{sample}|7")
        bank.set_graph(qualities={stays.id: 0.9}, reason="said by it", sample=sample)
        assert import_bank(bank, tmp_path / "other.jsonl").experiences == 0
        assert bank.graph().facts() == before
        assert bank.experiences() == (stays,)
        near = lesson(bank, "near", 6, kind="indication", evidence=(SeenIn(step=1, rows=(f"{ROW}1",)),))
        assert bank.add([near]) == 1, "another row"


def test_who_is_pinned_to_it_is_refused_and_who_reads_is_asked_to_end(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    with Bank.open(path) as bank:
        told, _ = put(bank)
        with PinnedBank.open(path) as pinned:
            revision, before = pinned.revision, pinned.content_hash()
        with pytest.raises(UserError, match="do not name in it"):
            forget(bank, told.id, reason=f"because of {told.id}")
        forget(bank, told.id, reason="asked for")
        with PinnedBank.open(path, revision=revision) as pinned:
            assert pinned.content_hash() != before
            assert pinned.has_forgotten
        with pytest.raises(UserError, match="nothing in"):
            forget(bank, "sample-unknown", reason="x")


WORKER = """
import sys
from pathlib import Path
from wardround.memory import Bank, forget
with Bank.open(Path(sys.argv[1])) as bank:
    print("begin", flush=True)
    forget(bank, sys.argv[2], reason="asked for")
    print("done", flush=True)
"""


@pytest.mark.parametrize("wait", [0.0, 0.004, 0.012])
def test_a_forgetting_cut_short_is_whole_or_is_finished_by_asking_again(wait: float, tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    with Bank.open(path) as bank:
        told, stays = put(bank)
    printed = tmp_path / "printed"
    worker = commands().start_program(WORKER, [str(path), told.id], str(printed))
    wait_for(lambda: printed.exists() and printed.stat().st_size > 0, worker)
    time.sleep(wait)
    kill(worker)
    with Bank.open(path) as bank:
        assert not any(bank.damage().values())
        if bank.file.setting(REBUILD) is not None or bank.holds(told.id):
            forget(bank, told.id, reason="asked for")
        assert bank.experiences() == (stays,)
    assert traces(tmp_path, told.id.encode(), b"the zebrafish text") == []


def test_what_only_begins_with_the_same_letters_is_not_forgotten(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        stays = lesson(bank, "stays", 2, kind="indication")
        bank.add([stays], key=key(1, 0.5))
        for number in (2, 20, 29):
            bank.set_graph(
                qualities={stays.id: number / 100}, reason=f"moved by stream-{number}", sample=f"stream-{number}"
            )
            bank.add_feedback(stays.id, "used", value=1.0, episode=f"agent|model|task|stream-{number}|0")
        forget(bank, "stream-2", reason="asked to")
        kept = bank.file.rows("SELECT episode FROM feedback ORDER BY episode", ())
        reasons = {reason for (reason,) in bank.file.rows("SELECT reason FROM step", ())}
    assert [episode for (episode,) in kept] == [f"agent|model|task|stream-{number}|0" for number in (20, 29)]
    assert {"moved by stream-20", "moved by stream-29"} <= reasons
    assert "moved by stream-2" not in reasons
