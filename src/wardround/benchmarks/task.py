"""Task definitions: what is asked, where its answers come from, which prompt asks it."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.core import PromptFile, UserError, load_prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of question. ``candidate_space`` names the table its answers must come from; ``table`` is the record
    table whose rows are the label. ``fallback_space`` stands in where the first cannot be built (no ATC map)."""

    name: str
    title: str
    table: str
    candidate_space: str
    fallback_space: str | None = None
    family: str = "agentehr"

    @property
    def prompt(self) -> PromptFile:
        """The template that asks this task."""
        return self.prompt_named(None)

    def prompt_named(self, name: str | None) -> PromptFile:
        """Return a template that asks this task as another source's records allow, the task's own for None."""
        return load_prompt("wardround.benchmarks", name or self.name)

    @property
    def candidate_spaces(self) -> tuple[str, ...]:
        """The space names this task can be asked with, best first."""
        return (self.candidate_space, *((self.fallback_space,) if self.fallback_space else ()))


AGENTEHR_TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="diagnoses",
            title="Diagnoses coded for the stay",
            table="diagnoses_icd",
            candidate_space="diagnoses_ccs_candidates",
        ),
        Task(
            name="labevents",
            title="Laboratory tests of the next draw",
            table="labevents",
            candidate_space="labevents_candidates",
        ),
        Task(
            name="microbiology",
            title="Cultures and other microbiology tests sent next",
            table="microbiologyevents",
            candidate_space="microbiologyevents_candidates",
        ),
        Task(
            name="prescriptions",
            title="Drugs of the next prescription",
            table="prescriptions",
            candidate_space="prescriptions_atc_candidates",
            fallback_space="prescriptions_drug_candidates",
        ),
        Task(
            name="procedures",
            title="Procedures of the day",
            table="procedures_icd",
            candidate_space="procedures_ccs_candidates",
        ),
        Task(
            name="transfers",
            title="Care unit of the next transfer",
            table="transfers",
            candidate_space="transfers_candidates",
        ),
    )
}
"""The six tasks of AgentEHR (section 2.2), by name."""


def get_task(name: str) -> Task:
    """Return a task by name; UserError lists the known names."""
    if name not in AGENTEHR_TASKS:
        raise UserError(f"unknown task {name!r}; known tasks are {', '.join(sorted(AGENTEHR_TASKS))}")
    return AGENTEHR_TASKS[name]


def list_tasks() -> tuple[Task, ...]:
    """Every task, in name order."""
    return tuple(AGENTEHR_TASKS[name] for name in sorted(AGENTEHR_TASKS))
