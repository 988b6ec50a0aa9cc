"""The notebook in examples/ runs from its first cell to its last, as in Jupyter inside a running event loop."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from extras import needs

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_steps.ipynb"


def code_cells() -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


async def run_cells() -> dict[str, Any]:
    """What the names of the notebook hold after its last cell."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in code_cells():
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    return names


def test_no_output_is_kept() -> None:
    assert [(cell["outputs"], cell["execution_count"]) for cell in code_cells()] == [([], None)] * len(code_cells())


def test_it_uses_nothing_but_the_front_door() -> None:
    imports = [line for cell in code_cells() for line in cell["source"] if line.startswith(("import ", "from "))]
    assert [line.strip() for line in imports] == [
        "import tempfile",
        "import wardround as wd",
        "from datetime import timedelta",
    ]


@needs("pandas")
def test_the_cells_run_in_order() -> None:
    names = asyncio.run(run_cells())
    assert 0 < names["before"].table("labevents").num_rows < names["labs"].num_rows == len(names["labs"].to_pandas())
    scores = names["scores"]
    assert scores[scores.stratum == "all"].set_index("task")["episodes"].to_dict()["all"] == 4
    assert set(scores["task"]) == {"labevents", "transfers", "all"}
    assert "call finish {" in names["episode"].transcript
    assert not Path(names["folder"]).exists()
