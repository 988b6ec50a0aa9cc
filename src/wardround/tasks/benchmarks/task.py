"""Task definitions: question, source of the answers, prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from wardround.core import PromptFile, Registry, UserError, load_prompt
from wardround.tasks.answers import (
    AnswerClass,
    AnswerKind,
    Candidates,
    CareUnits,
    Classes,
    OneClass,
    SeveralClasses,
    StepActions,
    answer_kind,
)

PAPER_CONTEXT_TOKENS: Mapping[str, int] = {
    "agentehr": 64_000,
    "ehrshot": 128_000,
    "clinseek": 128_000,
    "clinseek-mm": 128_000,
    "trace": 8_000,
    "medr-bench": 64_000,
    "medagentsbench": 64_000,
}
"""By family: the RetroSum paper's (appendix D.2), and that of EHR-RAG (appendix A), whose tasks are EHRSHOT's.
ClinSeekAgent's prints none, and results of 100,000 characters. TRACE fixes a
budget (section 5) and prints none: that value is ours. So are those of text cases, which need little."""

OWN_CONTEXT_TOKENS = 64_000
"""The context size of tasks that no paper has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionText:
    """A task in words, for prompts and for methods that search with queries.

    Both queries default to the description.
    """

    category: str
    description: str
    factual_query: str = ""
    counterfactual_query: str = ""
    instructions: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of question. ``answer`` is its kind of answers.

    ``role``: the role of the rows that form the label, where it consists of rows. ``about``: the subject of the
    question, where a family has several (a ``stay``, a ``result``, a ``diagnosis``, a ``report``). ``template``: the
    prompt file, where it differs from the task's own.
    """

    name: str
    title: str
    answer: AnswerKind
    role: str = ""
    about: str = ""
    template: str | None = None
    family: str = "agentehr"
    words: QuestionText | None = None
    """The question text, except for the papers' tasks: theirs is in ``questions.toml``."""

    @property
    def prompt(self) -> PromptFile:
        """The prompt template of this task."""
        return self.prompt_named(None)

    def prompt_named(self, name: str | None) -> PromptFile:
        """Return the task's template for another source's records; the task's own for None."""
        return load_prompt("wardround.tasks.benchmarks", name or self.template or self.name)

    def to_json(self) -> dict[str, Any]:
        """Return the declaration for a manifest, for tasks that are not the papers'."""
        return {
            "name": self.name,
            "title": self.title,
            "answer": self.answer.to_json(),
            "role": self.role,
            "template": self.template,
            "family": self.family,
            "words": None if self.words is None else asdict(self.words),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Task:
        """Read the output of :meth:`to_json`. UserError: unknown kind of answers."""
        words = body.get("words")
        return cls(
            **{
                **body,
                "answer": answer_kind(body["answer"]),
                "words": None if words is None else QuestionText(**words),
            }
        )


AGENTEHR_TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="diagnoses",
            title="Diagnoses coded for the stay",
            role="diagnosis",
            answer=Candidates(tables=("diagnoses_ccs_candidates", "diagnoses_candidates")),
        ),
        Task(
            name="labevents",
            title="Laboratory tests of the next draw",
            role="lab",
            answer=Candidates(tables=("labevents_candidates",)),
        ),
        Task(
            name="microbiology",
            title="Cultures and other microbiology tests sent next",
            role="culture",
            answer=Candidates(tables=("microbiologyevents_candidates",)),
        ),
        Task(
            name="prescriptions",
            title="Drugs of the next prescription",
            role="order",
            answer=Candidates(tables=("prescriptions_atc_candidates", "prescriptions_drug_candidates")),
        ),
        Task(
            name="procedures",
            title="Procedures of the day",
            role="procedure",
            answer=Candidates(tables=("procedures_ccs_candidates", "procedures_candidates")),
        ),
        Task(
            name="transfers",
            title="Care unit of the next transfer",
            role="transfer",
            answer=CareUnits(tables=("transfers_candidates",), exactly_one=True),
        ),
    )
}
"""The six tasks of AgentEHR (section 2.2), by name."""


_SEVERITY: tuple[AnswerClass, ...] = (("0", "normal"), ("1", "mild"), ("2", "moderate"), ("3", "severe"))
CHEXPERT_LABELS = (
    "No Finding",
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Lesion",
    "Lung Opacity",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
)
"""The 14 labels of CheXpert, in its own order."""


def _ehrshot(
    about: str, name: str, title: str, classes: tuple[AnswerClass, ...], kind: type[Classes] = OneClass
) -> Task:
    answer = kind(classes=classes)
    return Task(name=name, title=title, answer=answer, about=about, template="classification", family="ehrshot")


def _yes_no(no: str, yes: str) -> tuple[AnswerClass, ...]:
    return (("0", no), ("1", yes))


_NEW_DIAGNOSIS = _yes_no("no diagnosis", "diagnosis")
EHRSHOT_TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        _ehrshot("stay", "guo_los", "Long length of stay", _yes_no("less than 7 days", "7 days or more")),
        _ehrshot("stay", "guo_readmission", "Readmission within 30 days", _yes_no("not readmitted", "readmitted")),
        _ehrshot("stay", "guo_icu", "Transfer to intensive care", _yes_no("no transfer", "transfer")),
        _ehrshot("result", "lab_thrombocytopenia", "Thrombocytopenia in the next platelet count", _SEVERITY),
        _ehrshot("result", "lab_hyperkalemia", "Hyperkalemia in the next potassium result", _SEVERITY),
        _ehrshot("result", "lab_hypoglycemia", "Hypoglycemia in the next glucose result", _SEVERITY),
        _ehrshot("result", "lab_hyponatremia", "Hyponatremia in the next sodium result", _SEVERITY),
        _ehrshot("result", "lab_anemia", "Anemia in the next hemoglobin result", _SEVERITY),
        _ehrshot("diagnosis", "new_hypertension", "New diagnosis of hypertension", _NEW_DIAGNOSIS),
        _ehrshot("diagnosis", "new_hyperlipidemia", "New diagnosis of hyperlipidemia", _NEW_DIAGNOSIS),
        _ehrshot("diagnosis", "new_pancan", "New diagnosis of pancreatic cancer", _NEW_DIAGNOSIS),
        _ehrshot("diagnosis", "new_celiac", "New diagnosis of celiac disease", _NEW_DIAGNOSIS),
        _ehrshot("diagnosis", "new_lupus", "New diagnosis of lupus", _NEW_DIAGNOSIS),
        _ehrshot("diagnosis", "new_acutemi", "New diagnosis of acute myocardial infarction", _NEW_DIAGNOSIS),
        _ehrshot(
            "report",
            "chexpert",
            "Findings of the next chest radiograph",
            (("0", "none of the others"), *((str(n), name) for n, name in enumerate(CHEXPERT_LABELS, start=1))),
            SeveralClasses,
        ),
    )
}
"""The fifteen tasks of EHRSHOT, by the names it gives them."""

TRACE_TASK = Task(
    name="next_bundle",
    title="What is done next, after every bundle of a stay",
    answer=StepActions(),
    about="stay",
    family="trace",
    words=QuestionText(
        category="next actions",
        description="the drugs started, the tests taken and the procedures performed next",
    ),
)
"""The task of TRACE: at every step, the decisions until the next bundle (section 3)."""

TASKS: Registry[Task] = Registry("tasks", one="task", of=Task)
"""Every task by name: the papers', those of plug-ins, and those that opened benchmarks declare."""

for _task in (*AGENTEHR_TASKS.values(), *EHRSHOT_TASKS.values(), TRACE_TASK):
    TASKS.add(_task.name, _task)


def declare(task: Task) -> None:
    """Register a task from a file or an opened benchmark. UserError: another task has its name."""
    must_be_free(task)
    if task.name not in TASKS:
        TASKS.add(task.name, task)


def must_be_free(task: Task) -> None:
    """Raise UserError where another task has the same name."""
    if task.name in TASKS and TASKS.get(task.name) != task:
        raise UserError(f"another task is already named {task.name!r}; rename one of them")


def get_task(name: str) -> Task:
    """Return a task by name; UserError lists the known names."""
    return TASKS.get(name)


def list_tasks() -> tuple[Task, ...]:
    """Return every task, in name order."""
    return tuple(TASKS.get(name) for name in sorted(TASKS.names))
