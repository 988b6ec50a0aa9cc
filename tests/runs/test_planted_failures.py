"""The two failures that GSEM's paper shows in tables 8 and 9, planted in invented cases: what a memory that knows its
boundaries and its company does with them, and what one without does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, text
from text_cases import report, write_list
from wardround.log import LogReader
from wardround.memory import (
    Bank,
    Edge,
    Experience,
    GraphRecallSettings,
    MemorySettings,
    Provenance,
    SeedSettings,
    Subject,
    text_key,
)
from wardround.runs import RunSettings, execute, score_run, start
from wardround.tasks.benchmarks import CaseFiles, build_text_cases
from wardround.tools.retrieval import LexicalEncoder

REGRESSION = (
    "- **Patient Information:** 50-year-old man.\n- **History:** metastatic fable sarcoma after two lines of inventol. "
    "The PET scan shows spontaneous regression of the lung nodules."
)
TRAUMA = (
    "- **Patient Information:** 49-year-old man.\n- **History:** fell on a fable bar. Retroperitoneal bleeding from "
    "the vena cava. The pancreatic head is beyond repair."
)


def planted(bank: Bank, name: str, condition: str, content: str, *exclusions: str) -> Experience:
    """An experience of somebody else's report."""
    subject = bank.subject_hash(Subject(source="told", subject_id=len(name)))
    one = Experience(
        kind="indication",
        title=name,
        description="",
        content=content,
        condition=condition,
        exclusions=exclusions,
        task="medr-bench.treatment",
        task_type="treatment",
        provenance=Provenance(sample=f"report of {name}", subject=subject, split="train"),
    )
    bank.add([one], key=text_key(LexicalEncoder(), f"{condition}\n{content}"), reason="planted")
    return one


def played(place: Path, case: str, right: str, bank: Path, solve: Any, *, seeds: int = 5) -> tuple[float, list[str]]:
    """The score of gsem-walk on one invented case, and the titles of what it was served."""
    graph = GraphRecallSettings(seeds=SeedSettings(k=seeds), seed_pool=seeds, serve_unchecked=True)
    row = report(1, "treatment", "R1", task=case, answer=right)
    build_text_cases("medr-bench", CaseFiles(test=(write_list(place / "case.json.gz", [row]),)), place / "bench")
    with FakeServer(lambda body: _answer(solve, body)) as server:
        settings = RunSettings.of(
            benchmark=str(place / "bench"),
            agents=("gsem-walk",),
            models=("openai/test-model",),
            base_url=server.url,
            memory=MemorySettings(bank=str(bank), graph=graph),
            judge="words",
        )
        folder = start(place / "run", settings)
        execute(folder)
    with LogReader(folder.logs) as logs, Bank.open(bank) as held:
        titles = {one.id: one.title for one in held.experiences()}
        notes = [note.detail for one in logs.trajectories() for note in one.notes if note.kind == "experiences"]
    (score,) = score_run(folder)
    return score.value, [titles[one["id"]] for note in notes for one in note["served"]]


def _answer(solve: Any, body: Any) -> Answer:
    return text(f"Reasoning: as it stands.\nAnswer: {solve(json.dumps(body['messages']))}")


@pytest.mark.parametrize("bounded", [True, False])
def test_boundary_failure_is_met_only_where_the_boundary_was_lost(bounded: bool, tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    with Bank.open(path) as bank:
        planted(bank, "watch", "metastatic fable sarcoma; regression", "Keep watching while nodules of sarcoma shrink.")
        boundary = ("spontaneous regression",) if bounded else ()
        treat = "In metastatic fable sarcoma with conflicting PET scan results start fabtinib at once."
        planted(bank, "treat", "metastatic fable sarcoma", treat, *boundary)

    def solve(said: str) -> str:
        return "Start fabtinib" if "start fabtinib" in said else "Close surveillance"

    score, served = played(tmp_path, REGRESSION, "Close surveillance", path, solve)
    assert "watch" in served
    assert ("treat" in served) != bounded
    assert score == (1.0 if bounded else 0.0)


PLAN = ("vena cava repair", "pancreatic head resection", "fable resuscitation")


@pytest.mark.parametrize("joined", [True, False])
def test_collaboration_failure_is_met_only_where_nothing_joins_what_belongs_together(
    joined: bool, tmp_path: Path
) -> None:
    """One seed: the words find the bleeding, and only edges lead to what is done beside it."""
    path = tmp_path / "bank.sqlite"
    with Bank.open(path) as bank:
        bleeding = planted(bank, "bleeding", "retroperitoneal bleeding from the vena cava", "Do the vena cava repair.")
        resect = planted(bank, "resect", "organ beyond mending", "Do the pancreatic head resection on the spot.")
        support = planted(bank, "support", "hemodynamic collapse", "Do the fable resuscitation.")
        defer = planted(bank, "defer", "stable organ", "Defer every resection to a second operation.")
        edges = [Edge(source=bleeding.id, target=one.id, weight=0.9) for one in (resect, support)]
        edges += [Edge(source=resect.id, target=defer.id, weight=0.9, relation="conflict")]
        ranks = {one.id: 0.9 for one in (bleeding, resect, support)} | {defer.id: 0.5}
        bank.set_graph(qualities=ranks, edges=edges if joined else [], reason="planted")

    def solve(said: str) -> str:
        return ", ".join(part for part in PLAN if f"Do the {part}" in said)

    score, served = played(tmp_path, TRAUMA, ", ".join(PLAN), path, solve, seeds=1)
    assert served[0] == "bleeding"
    assert "defer" not in served
    assert set(served) == ({"bleeding", "resect", "support"} if joined else {"bleeding"})
    assert score == (1.0 if joined else 0.0)
