"""Judge a bank by two runs on held-out samples, with and without it; the bank stores the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from wardround.core import UserError
from wardround.memory import Bank
from wardround.memory.rows import GateRecord, look_of
from wardround.runs.folder import RunFolder
from wardround.runs.results import score_run
from wardround.tasks.scoring import EpisodeScore, HeldOutPairs, gate
from wardround.tasks.scoring.gate import GateStandard, look_level

HELD_OUT = "dev"


def gate_bank(
    bank: Bank, without: RunFolder, with_it: RunFolder, *, standard: GateStandard = "benefit", seed: int = 0
) -> GateRecord:
    """Judge the content of a bank that a run read, task by task, and keep numbers, budget and level in the bank.

    Every further pair of runs is a further look, which spends less of the level
    (:func:`wardround.tasks.scoring.look_level`).

    Raises UserError unless both runs are on the same samples of the dev split, of one agent each, and one of them with
    this bank.
    """
    judged = _judged(bank, without, with_it)
    pairs = held_out_pairs(score_run(without), score_run(with_it))
    look = look_of(bank.file, without.provenance, with_it.provenance)
    level = look_level(look)
    verdicts = gate(pairs, seed=seed, standard=standard, level=level)
    settings = {"standard": standard, "level": level, "without": without.provenance, "with": with_it.provenance}
    kept: dict[str, dict[str, Any]] = {task: {**asdict(one), **settings} for task, one in verdicts.items()}
    record = GateRecord(revision=judged["revision"], content=judged["sha256"], look=look, verdicts=kept)
    bank.record_gate(record)
    return record


def held_out_pairs(without: list[EpisodeScore], with_it: list[EpisodeScore]) -> dict[str, HeldOutPairs]:
    """Return the scores of samples in both runs, by task; samples are matched by epoch."""
    first = {(one.task, one.sample, one.epoch): one for one in without}
    second = {(one.task, one.sample, one.epoch): one for one in with_it}
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise UserError("the two runs have no scored episode in common, so nothing can be judged")
    names = {task: [key for key in shared if key[0] == task] for task, _, _ in shared}
    return {
        task: HeldOutPairs(
            without=[first[key].value for key in keys],
            with_it=[second[key].value for key in keys],
            subjects=[first[key].subject_id for key in keys],
        )
        for task, keys in names.items()
    }


def _judged(bank: Bank, without: RunFolder, with_it: RunFolder) -> Mapping[str, Any]:
    """Return the manifest's entry about the bank of the run."""
    for folder in (without, with_it):
        run = folder.settings.run
        if run.split != HELD_OUT:
            raise UserError(f"{folder.path} is on {run.split!r}: a bank is judged on {HELD_OUT!r} (--split {HELD_OUT})")
        if len(run.agents) > 1 or len(run.models) > 1:
            raise UserError(f"{folder.path} has several agents or models: judge one at a time")
    for name in ("benchmark_digest", "store_digest", "policy"):
        if without.manifest[name] != with_it.manifest[name]:
            raise UserError(f"the two runs differ in {name}: they show nothing of the bank")
    if (
        without.settings.run.models != with_it.settings.run.models
        or without.settings.memory.bank
        or without.settings.memory.banks
    ):
        raise UserError("judge the same model with the bank and without any")
    read = with_it.settings.memory
    if read.bank is None or not bank.path.samefile(read.bank) or read.gate != "ignore":
        raise UserError(f"{with_it.path} did not read {bank.path}, ungated: play it with --set memory.gate=ignore")
    judged: Mapping[str, Any] = with_it.manifest["bank"]
    return judged
