"""Build a benchmark of text cases, with overlaps between splits reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wardround import __version__
from wardround.core import UserError, content_hash, loaded_plugins
from wardround.records import NoRecords
from wardround.tasks.benchmarks.benchmark import Benchmark, must_be_new, name_of_file, source_facts
from wardround.tasks.benchmarks.drawing import DEFAULT_FRACTIONS, Fractions, check_fractions, split_of
from wardround.tasks.benchmarks.sample import Sample, Split
from wardround.tasks.benchmarks.task import get_task
from wardround.tasks.benchmarks.text_cases.cases import (
    AUTHORS_COUNTS,
    PUBLISHED_COUNTS,
    PUBLISHED_NAME,
    TextCase,
    case_files,
    read_cases,
)

# What training and test share that they must not: a source report, or the words of a question.


Shared = Literal["report", "question"]
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Two cases of one report or question, one in training and one in the test."""

    shared: Shared
    training: TextCase
    test: TextCase


def overlaps(training: Sequence[TextCase], test: Sequence[TextCase]) -> list[Overlap]:
    """Return every training case that has its report or its question in common with a test case, once for each."""
    reports = {case.report: case for case in test if case.report}
    stems = {case.stem: case for case in test}
    found = []
    for case in training:
        if case.report in reports:
            found.append(Overlap(shared="report", training=case, test=reports[case.report]))
        if case.stem in stems:
            found.append(Overlap(shared="question", training=case, test=stems[case.stem]))
    return found


def must_not_overlap(training: Sequence[TextCase], test: Sequence[TextCase]) -> None:
    """Raise UserError where training and test share a report or a question."""
    found = overlaps(training, test)
    if not found:
        return
    kinds = {kind: sum(one.shared == kind for one in found) for kind in ("report", "question")}
    counts = " and ".join(f"{number:,} by their {kind}" for kind, number in kinds.items() if number)
    named = ", ".join(f"{one.training.id} = {one.test.id}" for one in found[:_SHOWN])
    named += ", ..." if len(found) > _SHOWN else ""
    raise UserError(
        f"cases to learn from are in the test too, {counts} ({named}): take them "
        "out of the files, or leave them out of training with --drop-overlaps"
    )


# From files of text cases to a benchmark: splits in which no report and no question is twice, samples, a manifest.


PAPER = "GSEM, section 5.1 and appendix A (MedR-Bench, MedAgentsBench)"
Placed = tuple[TextCase, Split]
"""A case and the split it is in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFiles:
    """The files of a build. ``cases`` are split by hash of their report or question; where there is a ``test`` file,
    all of it is the test, and ``cases`` are for training and dev alone."""

    cases: tuple[Path, ...] = ()
    test: tuple[Path, ...] = ()


def build_text_cases(
    family: str,
    files: CaseFiles,
    folder: Path,
    *,
    seed: int = 0,
    fractions: Fractions = DEFAULT_FRACTIONS,
    drop_overlaps: bool = False,
) -> Benchmark:
    """Build a family's tasks from files and save them; the same files and seed give the same samples.

    UserError: a file holds something else, or what may teach shares a report or a question with the test. With
    ``drop_overlaps`` such training cases are left out and counted.
    """
    must_be_new(folder)
    check_fractions(fractions)
    files = CaseFiles(cases=case_files(files.cases), test=case_files(files.test))
    dropped: Counter[str] = Counter()
    placed = _placed(family, files, seed, fractions)
    training = [case for case, split in placed if split != "test"]
    test = [case for case, split in placed if split == "test"]
    if drop_overlaps:
        shared = {id(overlap.training) for overlap in overlaps(training, test)}
        dropped["shares_a_report_or_question_with_the_test"] = len(shared)
        placed = [(case, split) for case, split in placed if split == "test" or id(case) not in shared]
    else:
        must_not_overlap(training, test)
    samples = _samples(placed, dropped)
    if not samples:
        raise UserError(f"no case of {family} in these files; nothing was written (--cases FILE, --test-cases FILE)")
    cases, test_cases = ([_named(path) for path in paths] for paths in (files.cases, files.test))
    manifest: dict[str, Any] = {
        "kind": family,
        "name": family,
        "paper": PAPER,
        "wardround": __version__,
        "plugins": [plugin.to_json() for plugin in loaded_plugins()],
        "policy": "known_at",
        "clocks": "none: every question tells its case in words, and there is no chart",
        "seed": seed,
        "fractions": list(fractions),
        "files": {one["name"]: one["sha256"] for one in (*cases, *test_cases)},
        "recipe": {
            "seed": seed,
            "fractions": list(fractions),
            "options": {"cases": cases, "test": test_cases, "drop_overlaps": drop_overlaps},
        },
        "splits": "the test file is the test" if files.test else "by hash of seed and report or question",
        "source": source_facts(NoRecords()),
        "tasks": {name: _facts(name, samples) for name in sorted({sample.task for sample in samples})},
        "answer_rules": {},
        "drops": {family: dict(dropped)},
    }
    last = dict.fromkeys(manifest["tasks"], "every case occurs once, so there is no earlier answer")
    when = dict.fromkeys(manifest["tasks"], "a text case has no prediction time")
    return Benchmark(manifest=manifest, all_samples=samples, last=last, when=when).save(folder)


def _named(path: Path) -> dict[str, str]:
    """A file's name and hash; MedAgentsBench's files are all called alike, so theirs is named with its folder."""
    named = name_of_file(path)
    return named | {"name": f"{path.parent.name}/{path.name}"} if path.name == PUBLISHED_NAME else named


def _placed(family: str, files: CaseFiles, seed: int, fractions: Fractions) -> list[Placed]:
    """Every case with its split."""
    test: list[Placed] = [(case, "test") for path in files.test for case in read_cases(family, path)]
    cases = [case for path in files.cases for case in read_cases(family, path)]
    if files.test:
        fractions = _without_test(fractions)
    return [*((case, split_of(case.subject_id, seed, fractions)) for case in cases), *test]


def _without_test(fractions: Fractions) -> Fractions:
    """The shares of train and dev where the test is a file of its own."""
    train, dev, _ = fractions
    if not train + dev:
        raise UserError("the shares leave nothing to train and dev, and the test has a file of its own")
    return train / (train + dev), dev / (train + dev), 0.0


def _samples(placed: Sequence[Placed], dropped: Counter[str]) -> tuple[Sample, ...]:
    """The samples in the order of their ids; a row that is there twice is one."""
    found: dict[str, Sample] = {}
    for case, split in placed:
        sample = _sample(case, split)
        dropped["twice_in_the_files"] += sample.id in found
        found.setdefault(sample.id, sample)
    return tuple(found[name] for name in sorted(found))


def _sample(case: TextCase, split: Split) -> Sample:
    facts: dict[str, Any] = {
        "asked": case.text,
        "report": case.report,
        "reference": case.reference,
        "options": [list(option) for option in case.options],
        "row_ids": [],
        "event_time": None,
    }
    return Sample(
        id=f"{case.task}-{case.id}-{content_hash([case.text, list(case.options)])[:8]}",
        task=case.task,
        subject_id=case.subject_id,
        prediction_time=None,
        target=(case.answer,),
        split=split,
        stratum="any",
        facts=facts,
    )


def _facts(task: str, samples: Sequence[Sample]) -> Mapping[str, Any]:
    of_it = [sample for sample in samples if sample.task == task]
    return {
        "title": get_task(task).title,
        "samples": len(of_it),
        "reports_or_questions": len({sample.person for sample in of_it}),
        "test_samples_in_the_paper": PUBLISHED_COUNTS.get(task),
        "cases_as_published": AUTHORS_COUNTS[task],
    }
