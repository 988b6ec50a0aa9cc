"""A sample's prompt: the task's template with the subject, the time and the candidate table filled in."""

from __future__ import annotations

from wardround.benchmarks.sample import Sample
from wardround.benchmarks.task import Task
from wardround.core import format_time
from wardround.tools.candidates import CandidateSpace


def render_prompt(task: Task, sample: Sample, space: CandidateSpace) -> str:
    """Return the first user message of an episode. ``space`` is the table its answers come from.

    Nothing of the target reaches it: only the subject, the prediction time and names that all samples share.
    """
    return task.prompt_named(sample.facts.get("prompt")).render(
        subject_id=sample.subject_id, current_time=format_time(sample.prediction_time), candidate_table=space.name
    )
