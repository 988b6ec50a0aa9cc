"""Masks of a real tokenizer, and fine-tuning of a tiny model made here; nothing is fetched. Needs the extra [train]."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest

from effort import LONG
from extras import needs
from wardround.core import UserError
from wardround.learning import (
    BaseWeights,
    DataSettings,
    RlSettings,
    RowTokenizer,
    SftSettings,
    TrainingRow,
    export_folder,
    fine_tune,
    read_recipe,
    read_rows,
    serving_template,
    training_template,
)
from wardround.learning.adapters import reinforce
from wardround.learning.sft import labels_of
from wardround.learning.world import World, WorldSettings
from wardround.runs import RunFolder

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    needs("trl"),
    pytest.mark.skipif(
        not (LONG or os.environ.get("WARDROUND_TEST_TRAIN") == "1"),
        reason="fine-tunes a model: runs with WARDROUND_TEST_TRAIN=1 (make test-train) and at length (make long)",
    ),
]

TEMPLATE = training_template("wardround_compact")
TOOL = {
    "type": "function",
    "function": {
        "name": "get_rows",
        "description": "Rows of a table. More words.",
        "parameters": {"properties": {"table": {}, "limit": {}}, "required": ["table"]},
    },
}


def row(number: int, *, weight: int = 1) -> TrainingRow:
    """A question, a call, its result and an answer in words; the numbers differ."""
    call = {"id": "c", "type": "function", "function": {"name": "get_rows", "arguments": {"table": f"labs{number}"}}}
    messages = (
        {"role": "system", "content": "You read records."},
        {"role": "user", "content": f"What is wrong with {number}?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call], "weight": weight},
        {"role": "tool", "content": "value | 3", "tool_call_id": "c"},
        {"role": "assistant", "content": f"Sepsis {number}.", "weight": 1},
    )
    return TrainingRow(messages=messages, tools=(TOOL,), about={})


ROWS = [row(number) for number in range(12)]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> BaseWeights:
    return make_base(tmp_path_factory.mktemp("base"))


def make_base(folder: Path) -> BaseWeights:
    """A random model of two small layers with a byte-pair tokenizer learnt from the rows."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([json.dumps(one.to_json()) for one in ROWS], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>")
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return BaseWeights(path=folder)


def learnt_text(counter: RowTokenizer, one: TrainingRow) -> str:
    tokens = counter.encode(one)
    tokenizer: Any = counter.tokenizer
    return str(tokenizer.decode([token for token, learnt in zip(tokens.ids, tokens.mask, strict=True) if learnt]))


def test_exactly_what_the_assistant_writes_is_learnt(base: BaseWeights) -> None:
    counter = RowTokenizer(tokenizer=base.tokenizer(), template=TEMPLATE)
    call = '<tool_call>{"name": "get_rows", "arguments": {"table": "labs7"}}</tool_call><|im_end|>'
    assert learnt_text(counter, row(7)) == f"I look.\n{call}Sepsis 7.<|im_end|>"
    assert learnt_text(counter, row(7, weight=0)) == "Sepsis 7.<|im_end|>"


def test_a_template_without_marks_is_refused(base: BaseWeights, tmp_path: Path) -> None:
    counter = RowTokenizer(tokenizer=base.tokenizer(), template=serving_template(TEMPLATE))
    with pytest.raises(UserError, match="marks no token as an assistant's"):
        counter.encode(row(1))
    (tmp_path / "plain.jinja").write_text("{{ messages[0]['content'] }}")
    with pytest.raises(UserError, match="nothing says what the model is to learn"):
        training_template(str(tmp_path / "plain.jinja"))


def rendered(template: str, one: TrainingRow) -> str:
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=one.messages, tools=one.tools)


def test_serving_renders_the_text_that_training_saw(base: BaseWeights) -> None:
    counter = RowTokenizer(tokenizer=base.tokenizer(), template=TEMPLATE)
    tokenizer: Any = counter.tokenizer
    assert rendered(serving_template(TEMPLATE), row(3)) == tokenizer.decode(counter.encode(row(3)).ids)
    assert "- get_rows(table, limit?): Rows of a table" in rendered(serving_template(TEMPLATE), row(3))


def little(**sft: Any) -> Any:
    settings = SftSettings(
        **{
            "epochs": 8.0,
            "batch": 4,
            "rows_at_once": 4,
            "learning_rate": 1e-2,
            "last_learning_rate": 1e-3,
            "warmup_steps": 2,
            "precision": "float32",
            "save_steps": 12,
            **sft,
        }
    )
    return replace(read_recipe(None), sft=settings, data=DataSettings(max_tokens=400))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def test_a_model_learns_the_replies_and_goes_on_where_it_stopped(base: BaseWeights, tmp_path: Path) -> None:
    whole = fine_tune(base, ROWS, TEMPLATE, little(), tmp_path / "whole")
    assert (whole.rows, whole.rows_dropped, whole.updates, len(whole.losses)) == (12, 0, 24, 24)
    assert mean(whole.losses[-3:]) < 0.5 * mean(whole.losses[:3])

    stopped = tmp_path / "whole"
    shutil.rmtree(stopped / "checkpoints" / "checkpoint-24")  # as if it had been killed after the first
    resumed = fine_tune(base, ROWS, TEMPLATE, little(), stopped, resume=True)
    assert resumed.updates == 24
    assert resumed.losses[-1] == pytest.approx(whole.losses[-1], rel=1e-3)
    with pytest.raises(UserError, match="begun with another rows_sha256"):
        fine_tune(base, ROWS[:5], TEMPLATE, little(), stopped, resume=True)
    with pytest.raises(UserError, match="go on with --resume"):
        fine_tune(base, ROWS, TEMPLATE, little(), stopped)


def test_trl_trains_on_the_exported_parquet_as_conversations(
    base: BaseWeights, teacher: RunFolder, tmp_path: Path
) -> None:
    """TRL's own path from messages to tokens: the ids and the mask are those of our own."""
    import datasets
    import trl

    export_folder([teacher], tmp_path / "data", DataSettings(finishes=(), max_tokens=None))
    files = str(tmp_path / "data" / "rows.parquet")
    data = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    rows = read_rows(tmp_path / "data" / "rows.jsonl")
    assert data[0]["tools"] == list(rows[0].tools)
    tokenizer = base.tokenizer()
    tokenizer.chat_template = TEMPLATE
    arguments = trl.SFTConfig(
        output_dir=str(tmp_path / "out"), assistant_only_loss=True, max_length=None, report_to=[], use_cpu=True
    )
    trainer = trl.SFTTrainer(model=base.model(), args=arguments, train_dataset=data, processing_class=tokenizer)
    counter = RowTokenizer(tokenizer=tokenizer, template=TEMPLATE)
    for tokens, one in zip(trainer.train_dataset, rows, strict=True):
        ours = counter.encode(one)
        assert tokens["input_ids"] == list(ours.ids)
        assert tokens["labels"] == labels_of(ours)


def test_adapters_are_merged_into_one_model(base: BaseWeights, tmp_path: Path) -> None:
    fine_tune(base, ROWS, TEMPLATE, little(adapter="lora", rank=4, most_steps=3), tmp_path / "tuned")
    before, after = base.model().state_dict(), BaseWeights(path=tmp_path / "tuned" / "model").model().state_dict()
    assert before.keys() == after.keys()
    changed = [name for name in before if not np.allclose(before[name].numpy(), after[name].numpy())]
    assert changed
    assert all("_proj" in name for name in changed)


def test_some_people_measure_the_loss_and_teach_nothing(base: BaseWeights, tmp_path: Path) -> None:
    rows = [replace(one, about={"subject_id": number % 6}) for number, one in enumerate(ROWS)]
    done = fine_tune(base, rows, TEMPLATE, little(epochs=4.0), tmp_path / "tuned")
    assert (done.rows, done.validation_rows, done.rows_dropped) == (10, 2, 0)
    assert len(done.validation_losses) == 5
    assert done.validation_losses[-1] < done.validation_losses[0]


def test_rows_above_the_most_tokens_are_dropped_and_none_left_is_an_error(base: BaseWeights, tmp_path: Path) -> None:
    recipe = replace(little(most_steps=1), data=DataSettings(max_tokens=10))
    with pytest.raises(UserError, match="none of 12 rows holds anything to learn within 10 tokens"):
        fine_tune(base, ROWS, TEMPLATE, recipe, tmp_path / "tuned")


def test_one_step_of_grpo_plays_in_the_world_and_takes_its_reward(
    base: BaseWeights, synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    settings = WorldSettings(tasks=("transfers",), calls=2)
    world = World.open(synthetic_store_path, synthetic_benchmark_path, settings)
    done = reinforce(base, world, TEMPLATE, RlSettings(steps=1, group=2, completion_tokens=16), tmp_path / "out")
    assert (done.steps, done.rewards, len(done.losses)) == (1, (0.0,), 1)  # sixteen random tokens answer nothing
    assert BaseWeights(path=tmp_path / "out" / "model").model() is not None
    with pytest.raises(UserError, match="is not empty"):
        reinforce(base, world, TEMPLATE, RlSettings(steps=1), tmp_path / "out")
