"""The way of "a real model learns" (docs/training.md) in little: one update, one held-out sample before and after.

It shows that the way can be gone from end to end, not that one update teaches anything. Two minutes on two cores.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.learning import read_rows
from wardround.models.local import LOCAL_MODELS, find_weights, model_of_file, serving

EXAMPLES = Path(__file__).parents[2] / "examples"
LITTLE = ["--set", "sft.batch=1", "--set", "sft.most_steps=1", "--set", "sft.warmup_steps=0"]
PLAYED = [str(EXAMPLES / "smollm2_episodes.toml"), "--agent", "react", "--task", "transfers", "--workers", "1"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(
    os.environ.get("WARDROUND_REAL_MODEL") != "1",
    reason="needs WARDROUND_REAL_MODEL=1, the extras [train] and [local], and the weights (make weights)",
)
def test_trajectories_train_the_real_model_which_is_served_and_compared(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = ["--recipe", str(EXAMPLES / "smollm2_training.toml")]
    weights = str(find_weights(LOCAL_MODELS["smollm2"]))
    where = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    teacher, data, tuned, base = (str(tmp_path / name) for name in ("teacher", "data", "tuned", "before.gguf"))
    done = [
        main(["run", *PLAYED, *where, "--split", "train", "--limit", "2", "--out", teacher]),
        main(["train", "export", teacher, "--out", data, *recipe, "--tokenizer", weights]),
        main(["train", "sft", "--rows", f"{data}/rows.jsonl", "--base", weights, "--out", tuned, *LITTLE, *recipe]),
        main(["train", "base", "--base", weights, "--out", base]),
    ]
    assert done == [0] * 4
    assert sum(row.learnt for row in read_rows(Path(data) / "rows.jsonl")) >= 2
    for name, file in (("before", Path(base)), ("after", Path(tuned) / "model.gguf")):
        with serving(model_of_file(file, context_tokens=8192), threads=2) as url:
            asked = ["--model", f"openai/{file.stem}", "--base-url", url, "--set", "model.temperature=0"]
            few = ["--limit", "1", "--set", "budget.turns=1", "--set", "budget.reply_tokens=48"]
            assert main(["run", *PLAYED, *where, *asked, *few, "--out", str(tmp_path / name)]) == 0
    capsys.readouterr()
    assert main(["train", "compare", str(tmp_path / "before"), str(tmp_path / "after"), "--json"]) == 0
    shift = json.loads(capsys.readouterr().out)
    assert shift["samples"] == 1
    for run in (shift["before"], *shift["after"]):
        assert run["valid_share"] is None or 0 <= run["valid_share"] <= 1
