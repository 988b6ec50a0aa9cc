"""The recipe of ClinSeek-35B-A3B holds what its paper prints (table 9)."""

from __future__ import annotations

from pathlib import Path

from wardround.learning.recipe import read_recipe


def test_table_9() -> None:
    recipe = read_recipe(Path(__file__).parents[2] / "examples" / "clinseek-35b.toml")
    sft = recipe.sft
    assert (recipe.data.max_tokens, sft.epochs, sft.batch, sft.rows_at_once) == (52_000, 3, 32, 1)
    assert (sft.learning_rate, sft.last_learning_rate, sft.warmup_steps) == (2e-5, 2e-6, 10)
    assert (sft.weight_decay, sft.clip, sft.precision, sft.seed) == (0.1, 1.0, "bf16", 42)
