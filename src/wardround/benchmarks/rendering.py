"""A sample's prompt: the task's template with the subject and the time, then what its kind of answers says of them."""

from __future__ import annotations

from wardround.benchmarks.questions import question_of
from wardround.benchmarks.sample import Sample
from wardround.benchmarks.task import Task
from wardround.core import format_time
from wardround.tools.candidates import CandidateSpace


def render_prompt(task: Task, sample: Sample, space: CandidateSpace | None) -> str:
    """Return the first user message of an episode. ``space`` is the table its answers come from, None where from none.

    Nothing of the target reaches it: only the subject, the prediction time and names that all samples share.
    """
    question = question_of(task, sample)
    asked = task.prompt_named(sample.facts.get("prompt")).render(
        subject_id=sample.subject_id, current_time=format_time(sample.prediction_time), question=question
    )
    table = "" if space is None else space.name
    return f"{asked}\n\n{task.answer.explain(part='task', candidate_table=table, instructions=question.instructions)}"
