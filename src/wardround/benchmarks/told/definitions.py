"""The tasks on cases told in words: MedR-Bench's two, and the question sets of MedAgentsBench."""

from __future__ import annotations

from collections.abc import Mapping

from wardround.answers import JudgedText, OneOption
from wardround.benchmarks.task import TASKS, QuestionText, Task

MEDR_BENCH = "medr-bench"
MEDAGENTSBENCH = "medagentsbench"
TEXT_CASES = "text-cases"
TOLD_FAMILIES = (MEDR_BENCH, MEDAGENTSBENCH, TEXT_CASES)
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
"""How the published files spell the question sets."""


def _judged(what: str, title: str, description: str, wanted: str) -> Task:
    words = QuestionText(category="Case report", description=description)
    name = f"{MEDR_BENCH}.{what}"
    return Task(
        name=name, title=title, answer=JudgedText(wanted=wanted), template="told", family=MEDR_BENCH, words=words
    )


def _question(what: str, title: str) -> Task:
    words = QuestionText(category=title, description="Answer the examination question.")
    name = f"{MEDAGENTSBENCH}.{what}"
    return Task(name=name, title=title, answer=OneOption(), template="told", family=MEDAGENTSBENCH, words=words)


TOLD_TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        _judged("diagnosis", "Diagnosis of a case report", "What is the patient's diagnosis?", "final diagnosis"),
        _judged("treatment", "Treatment of a case report", "How is this patient to be treated now?", "treatment plan"),
        *(_question(what, title) for what, title in QUESTION_SETS.items()),
    )
}
"""Every task, by its name here."""

for _name, _task in TOLD_TASKS.items():
    TASKS.add(_name, _task)
