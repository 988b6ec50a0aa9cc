"""Our tools inside Inspect's own ReAct agent: each question is asked of one patient's record as of one moment.

    inspect eval examples/inspect_react.py -T store=store -T questions=questions.jsonl --model NAME --model-base-url URL

A line of questions.jsonl:

    {"input": "...", "target": "...", "metadata": {"subject_id": 10000032, "as_of": "2180-05-06 22:23"}}
"""

from inspect_ai import Task, task
from inspect_ai.agent import as_solver, react
from inspect_ai.dataset import json_dataset
from inspect_ai.model import get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver

from wardround import open_store
from wardround.learning.adapters.inspect_tasks import chart_tools


@solver
def react_on_chart(store: str) -> Solver:
    records = open_store(store)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        with chart_tools(records, state.metadata["subject_id"], state.metadata["as_of"], model=get_model()) as tools:
            return await as_solver(react(tools=tools))(state, generate)

    return solve


@task
def questions_of_charts(store: str, questions: str) -> Task:
    return Task(dataset=json_dataset(questions), solver=react_on_chart(store), scorer=includes())
