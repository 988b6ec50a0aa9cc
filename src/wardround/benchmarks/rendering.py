"""A sample's prompt: the task's template with the subject, the time and what may be answered filled in."""

from __future__ import annotations

from wardround.benchmarks.questions import question_of
from wardround.benchmarks.sample import Sample
from wardround.benchmarks.task import Task
from wardround.core import format_time
from wardround.tools.candidates import CandidateSpace


def render_prompt(task: Task, sample: Sample, space: CandidateSpace | None) -> str:
    """Return the first user message of an episode. ``space`` is the table its answers come from, None with classes.

    Nothing of the target reaches it: only the subject, the prediction time and names that all samples share.
    """
    prompt = task.prompt_named(sample.facts.get("prompt"))
    when = format_time(sample.prediction_time)
    if task.classes:
        question = question_of(task, sample)
        return prompt.render(subject_id=sample.subject_id, current_time=when, question=question, answers=task.classes)
    if space is None:
        raise ValueError(f"task {task.name!r} is asked with a candidate space")
    return prompt.render(subject_id=sample.subject_id, current_time=when, candidate_table=space.name)
