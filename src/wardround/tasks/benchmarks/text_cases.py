"""Benchmarks whose questions tell the case in words: published reports, examination questions. From a user's files."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wardround import __version__
from wardround.core import UserError, content_hash, derive_seed, loaded_plugins
from wardround.records import NoRecords
from wardround.tasks.answers import JudgedText, OneOption
from wardround.tasks.answers.kinds import LETTERS
from wardround.tasks.benchmarks.benchmark import Benchmark, must_be_new, name_of_file, source_facts
from wardround.tasks.benchmarks.drawing import DEFAULT_FRACTIONS, Fractions, check_fractions, split_of
from wardround.tasks.benchmarks.sample import Sample, Split
from wardround.tasks.benchmarks.task import TASKS, QuestionText, Task, get_task

# The tasks on text cases: MedR-Bench's two, and the question sets of MedAgentsBench.


MEDR_BENCH = "medr-bench"
MEDAGENTSBENCH = "medagentsbench"
TEXT_CASES = "text-cases"
TEXT_CASE_FAMILIES = (MEDR_BENCH, MEDAGENTSBENCH, TEXT_CASES)
"""The last is both in one benchmark: what the paper's average is over, and one memory for both."""
PUBLISHED_COUNTS: Mapping[str, int] = {
    f"{MEDR_BENCH}.diagnosis": 329,
    f"{MEDR_BENCH}.treatment": 148,
    f"{MEDAGENTSBENCH}.medbullets": 89,
    f"{MEDAGENTSBENCH}.medqa": 457,
    f"{MEDAGENTSBENCH}.medmcqa": 100,
    f"{MEDAGENTSBENCH}.medexqa": 100,
    f"{MEDAGENTSBENCH}.medxpertqa": 100,
}
"""Test samples of each in the GSEM paper: 1,323. It leaves out four question sets of MedAgentsBench."""
AUTHORS_COUNTS: Mapping[str, int] = {
    f"{MEDR_BENCH}.diagnosis": 957,
    f"{MEDR_BENCH}.treatment": 496,
    f"{MEDAGENTSBENCH}.medqa": 100,
    f"{MEDAGENTSBENCH}.pubmedqa": 100,
    f"{MEDAGENTSBENCH}.medmcqa": 100,
    f"{MEDAGENTSBENCH}.medbullets": 89,
    f"{MEDAGENTSBENCH}.mmlu": 73,
    f"{MEDAGENTSBENCH}.mmlu-pro": 100,
    f"{MEDAGENTSBENCH}.afrimedqa": 32,
    f"{MEDAGENTSBENCH}.medexqa": 100,
    f"{MEDAGENTSBENCH}.medxpertqa": 200,
}
"""Cases of each as their authors publish them (MedR-Bench's case files; MedAgentsBench's hard sets, both of MedXpertQA
together)."""
QUESTION_SETS: Mapping[str, str] = {
    "medbullets": "MedBullets",
    "medqa": "MedQA",
    "medmcqa": "MedMCQA",
    "medexqa": "MedExQA",
    "medxpertqa": "MedXpertQA",
    "pubmedqa": "PubMedQA",
    "mmlu": "MMLU (medical)",
    "mmlu-pro": "MMLU-Pro (health)",
    "afrimedqa": "AfriMedQA",
}
SPELLINGS: Mapping[str, str] = {
    **{name: name for name in QUESTION_SETS},
    "medqa_5options": "medqa",
    "medxpertqa-r": "medxpertqa",
    "medxpertqa-u": "medxpertqa",
}
"""The names of the question sets in the published files."""


def _judged(what: str, title: str, description: str, wanted: str) -> Task:
    words = QuestionText(category="Case report", description=description)
    name = f"{MEDR_BENCH}.{what}"
    return Task(
        name=name, title=title, answer=JudgedText(wanted=wanted), template="text_case", family=MEDR_BENCH, words=words
    )


def _question(what: str, title: str) -> Task:
    words = QuestionText(category=title, description="Answer the examination question.")
    name = f"{MEDAGENTSBENCH}.{what}"
    return Task(name=name, title=title, answer=OneOption(), template="text_case", family=MEDAGENTSBENCH, words=words)


TEXT_CASE_TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        _judged("diagnosis", "Diagnosis of a case report", "What is the patient's diagnosis?", "final diagnosis"),
        _judged("treatment", "Treatment of a case report", "How is this patient to be treated now?", "treatment plan"),
        *(_question(what, title) for what, title in QUESTION_SETS.items()),
    )
}
"""Every task, by its name here."""

for _name, _task in TEXT_CASE_TASKS.items():
    TASKS.add(_name, _task)


# Text cases out of a user's files: what the published files of MedR-Bench and MedAgentsBench hold, row by row.
#
# A file is a JSON list, JSON lines or, of MedR-Bench, one object by report; plain or gzipped. Both benchmarks are read
# as their authors publish them and as the GSEM paper's repository has them.


_NO_WORD = re.compile(r"[\W_]+")
_LETTER = re.compile(r"\s*([A-Z])\s*(?:[.):]|$)")
_MEDR_FIELDS = {
    "diagnosis": ("diagnosis_results", "differential_diagnosis", "final_diagnosis"),
    "treatment": ("treatment_plan_results", "treatment_planning_analysis", "treatment_plan_results"),
}
"""By task, the published fields of the answer, the experts' reasoning and its conclusion."""
_MEDR_TASKS = tuple(_MEDR_FIELDS)
PUBLISHED_NAME = "test_hard.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCase:
    """One case. ``report`` names the published report it is from, empty of a question; ``answer`` is the right one (a
    letter where there are ``options``), ``reference`` how its authors got there."""

    task: str
    id: str
    text: str
    answer: str
    report: str = ""
    reference: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @property
    def stem(self) -> str:
        """Its words alone, so that one question in two layouts is one."""
        return _NO_WORD.sub(" ", self.text.casefold()).strip()

    @property
    def subject_id(self) -> int:
        """The number of the report, else of the question: what subjects are elsewhere."""
        return derive_seed("text-case", self.report or self.stem)


def read_cases(family: str, path: Path) -> list[TextCase]:
    """Read a file of a family's cases; UserError names the row that is none. Questions are rows with options."""
    readers = {MEDR_BENCH: _medr_case, MEDAGENTSBENCH: _case_question}
    read = readers.get(family, _either)
    found = []
    for number, body in enumerate(_rows(path), start=1):
        try:
            found.append(read(body, path, number))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise UserError(f"{path}, row {number}: not a case of {family}: {what}") from None
    return found


def case_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files of cases; a folder stands for every ``test_hard.jsonl`` within it, as MedAgentsBench lies."""
    found: list[Path] = []
    for path in paths:
        within = sorted(path.rglob(PUBLISHED_NAME)) if path.is_dir() else [path]
        if not within:
            raise UserError(f"{path} holds no {PUBLISHED_NAME}: name the files of cases")
        found += within
    return tuple(found)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if not path.is_file():
        raise UserError(f"no file {str(path)!r}; docs/text-cases.md says what a file of cases holds")
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    by_report = _by_report(text)
    if by_report is not None:
        yield from by_report
        return
    try:
        if text.lstrip().startswith("["):
            yield from json.loads(text)
        else:
            yield from (json.loads(line) for line in text.splitlines() if line.strip())
    except ValueError as error:
        raise UserError(f"{path} is neither JSON nor JSON lines: {error}") from None


def _by_report(text: str) -> list[Mapping[str, Any]] | None:
    """The cases of one object by report, as MedR-Bench's authors publish them; None: the text is something else."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        cases = json.loads(text)
    except ValueError:
        return None  # JSON lines
    if not cases or not all(isinstance(case, dict) and "generate_case" in case for case in cases.values()):
        return None
    return [{"case_id": name, **case} for name, case in cases.items()]


def _medr_case(body: Mapping[str, Any], path: Path, number: int) -> TextCase:
    if "generate_case" in body:
        return _published_report(body)
    what = body["task_type"]
    if what not in _MEDR_TASKS:
        raise ValueError(f"task_type is {what!r}, not {' or '.join(_MEDR_TASKS)}")
    return TextCase(
        task=f"{MEDR_BENCH}.{what}",
        id=str(body["id"]),
        text=_said(body, "task"),
        answer=_said(body, "answer"),
        report=str(body.get("metadata", {}).get("source_id") or ""),
        reference=str(body.get("reference_analysis") or ""),
    )


def _published_report(body: Mapping[str, Any]) -> TextCase:
    """A case as MedR-Bench's authors publish it. The task is the one whose answer the case holds; the experts'
    reasoning ends in their conclusion, as their own evaluation puts them together."""
    name, case = str(body["case_id"]), body["generate_case"]
    what = "treatment" if "treatment_plan_results" in case else "diagnosis"
    answer, reasoning, conclusion = _MEDR_FIELDS[what]
    return TextCase(
        task=f"{MEDR_BENCH}.{what}",
        id=name,
        text=_said(case, "case_summary"),
        answer=_said(case, answer),
        report=name,
        reference="\n".join(text for field in (reasoning, conclusion) if (text := str(case.get(field) or "").strip())),
    )


def _case_question(body: Mapping[str, Any], path: Path, number: int) -> TextCase:
    named = _question_set(body, path)
    options = tuple((str(letter), str(text)) for letter, text in body["options"].items())
    answer = _letter(_said(body, "answer_idx" if "answer_idx" in body else "answer"), options)
    if "answer_idx" in body and str(body.get("answer", dict(options)[answer])).strip() not in (
        dict(options)[answer].strip(),
        answer,
    ):
        raise ValueError(f"its answer {str(body['answer'])[:40]!r} is not its option {answer}")
    place = next((body[key] for key in ("source_realidx", "realidx", "case_id") if key in body), number)
    return TextCase(
        task=f"{MEDAGENTSBENCH}.{SPELLINGS[named]}",
        id=f"{named}-{place}",
        text=_said(body, "question"),
        answer=answer,
        reference=str(body.get("reference_analysis") or ""),
        options=options,
    )


def _question_set(body: Mapping[str, Any], path: Path) -> str:
    """The question set of a row: as it says, else as its folder (``medqa/test_hard.jsonl``) or its file is called."""
    named = str(body.get("source_dataset") or "")
    if named:
        if named not in SPELLINGS:
            raise ValueError(f"source_dataset is {named!r}, not one of {', '.join(SPELLINGS)}")
        return named
    for name in (path.parent.name, path.name.partition(".")[0]):
        if name.casefold() in SPELLINGS:
            return name.casefold()
    raise ValueError(
        f"it has no source_dataset, and neither folder nor file is called after a question set ({', '.join(SPELLINGS)})"
    )


def _either(body: Mapping[str, Any], path: Path, number: int) -> TextCase:
    return _case_question(body, path, number) if "options" in body else _medr_case(body, path, number)


def _letter(answer: str, options: tuple[tuple[str, str], ...]) -> str:
    """The letter of the right option: as it stands in front of the answer, else by the option's words."""
    letters = [letter for letter, _ in options]
    if len(letters) < 2 or len(set(letters)) < len(letters) or not set(letters) <= set(LETTERS):
        raise ValueError(f"its options are lettered {', '.join(letters) or 'not at all'}")
    found = _LETTER.match(answer)
    if found and found[1] in letters:
        return found[1]
    same = [letter for letter, text in options if text.strip() == answer]
    if len(same) != 1:
        raise ValueError(f"its answer {answer[:40]!r} is none of its options")
    return same[0]


def _said(body: Mapping[str, Any], name: str) -> str:
    """A text that has to be there."""
    text = str(body[name]).strip()
    if not text:
        raise ValueError(f"its {name} is empty")
    return text


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
