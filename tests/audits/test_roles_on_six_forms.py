"""One hospital in six forms: AgentEHR's tasks where a form's roles allow them, a reason where not; the offline policy
plays them without an error of a tool."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from invented import Invented

from effort import drawn
from wardround.agents import Limits, Prompt, get_agent, run_episode
from wardround.log import ToolRecord
from wardround.models import ModelSettings, OfflineModel, Reply, Request
from wardround.records import Store
from wardround.tasks.benchmarks import AGENTEHR_TASKS, Benchmark, build_agentehr, leak_check, render_prompt
from wardround.tools import Environment, EnvironmentOptions

REFUSED: Mapping[str, Mapping[str, str]] = {
    "mimiciv": {},
    "mimiciii": {"procedures": "wardround codes add icd9-procedures"},
    "eicu": {"diagnoses": "entered while the stay lasts", "procedures": "no procedure that was done"},
    "omop": {"microbiology": "does not tell cultures from other measurements"},
    "fhir": {},
    "meds": {"microbiology": "no table plays the role `culture` (a culture or another test of microbiology)"},
}
"""Of each form the tasks that it does not have, and a part of the reason."""


class Failures:
    """Keeps the calls of an episode that failed."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []

    def turn(self, request: Request, reply: Reply, results: Sequence[ToolRecord] = (), *, purpose: str = "act") -> None:
        failed = (result for result in results if result.is_error)
        self.calls += [(result.call.name, result.call.arguments, result.result_text) for result in failed]

    def note(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Nothing of it matters here."""


def played(store: Store, benchmark: Benchmark, task: str) -> tuple[str, list[tuple[str, str, str]]]:
    """Play the first question of a task; return how it ended and the calls that failed."""
    sample, asked = benchmark.samples(task)[0], AGENTEHR_TASKS[task]
    chart = store.chart(sample.subject_id, sample.prediction_time)
    space, failures = benchmark.space(asked), Failures()
    assert space is not None
    environment = Environment(chart, options=EnvironmentOptions(candidates=benchmark.spaces, answer_space=space.name))
    outcome = asyncio.run(
        run_episode(
            get_agent("react"),
            model=OfflineModel(store.spec.roles),
            environment=environment,
            prompt=Prompt(user=render_prompt(asked, sample, space)),
            limits=Limits(),
            settings=ModelSettings(),
            recorder=failures,
            episode=sample.id,
        )
    )
    environment.close()
    assert outcome.answer, task
    return outcome.finish, failures.calls


@pytest.mark.parametrize("source", sorted(REFUSED))
def test_the_tasks_that_a_form_allows_are_played_without_a_tool_error(
    invented: Invented, source: str, tmp_path: Path
) -> None:
    store, refused = invented.store(source), REFUSED[source]
    offered = [task for task in AGENTEHR_TASKS if task not in refused]
    tasks = drawn(offered, 2, seed=zlib.crc32(source.encode()))
    benchmark = build_agentehr(store, tmp_path / "b", seed=3, tasks=[*tasks, *refused])
    said = benchmark.manifest["tasks"]
    for task, reason in refused.items():
        assert reason in said[task]["unavailable"], task
    assert leak_check(benchmark, store) == ()
    for task in tasks:
        assert played(store, benchmark, task) == ("finish", []), task
