"""A sample's prompt: the task's template with the subject and the time, then what its kind of answers says of them."""

from __future__ import annotations

from wardround.benchmarks.questions import question_of
from wardround.benchmarks.sample import Sample
from wardround.benchmarks.task import Task
from wardround.core import format_time
from wardround.tools.candidates import CandidateSpace


def render_prompt(task: Task, sample: Sample, space: CandidateSpace | None) -> str:
    """Return the first user message of an episode. ``space`` is the table that its answers come from as questions about
    its person are asked with, None where they come from none.

    Nothing of the target reaches it but, where a sample lists names of its own, that it is among them: only the
    subject, the prediction time and names that all samples share.
    """
    question = question_of(task, sample)
    asked = task.prompt_named(sample.facts.get("prompt")).render(
        subject_id=sample.subject_id,
        current_time="" if sample.told else format_time(sample.moment),
        question=question,
        asked=sample.facts.get("asked", ""),
        images=question.images,
    )
    table = "" if space is None else space.name
    own = sample.facts.get("listed")
    listed = own or (() if space is None else space.most_used(task.answer.listed))
    explained = question.answer.explain(
        part="task", candidate_table=table, instructions=question.instructions, listed=listed, chosen=own is not None
    )
    return f"{asked}\n\n{explained}"
