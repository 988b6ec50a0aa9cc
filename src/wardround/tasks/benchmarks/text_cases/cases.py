"""Text cases: the published files of MedR-Bench and MedAgentsBench, and their tasks."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.core import UserError, derive_seed
from wardround.tasks.answers import JudgedText, OneOption
from wardround.tasks.answers.kinds import LETTERS
from wardround.tasks.benchmarks.task import TASKS, QuestionText, Task

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
