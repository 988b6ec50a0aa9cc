"""Plays the script through GRPOTrainer's own rollout: its tool loop, its reading of calls, its asking for the reward.

python read_trl.py plan.json rewards.json

What the model would generate is the script's next call, in the template that we train with; a random model of one tiny
layer stands in its place. A group is two rollouts of one sample: both are played, and must be paid the same.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from runpy import run_path

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl.chat_template_utils import qwen3_template

from wardround.learning import serving_template, training_template


class ScriptedTrainer(trl.GRPOTrainer):
    """Generates the script."""

    script: dict
    turn = 0

    def _generate_and_score_completions(self, inputs):
        self.turn = 0
        return super()._generate_and_score_completions(inputs)

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False):
        calls = self.script[self.environments[0].sample]
        text = wire(*calls[self.turn]) if self.turn < len(calls) else "done<|im_end|>"
        self.turn += 1
        ids = self.processing_class(text, add_special_tokens=False)["input_ids"]
        return [list(ids) for _ in prompt_ids], None


def wire(name, arguments):
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>{call}</tool_call><|im_end|>"


def tiny(texts, folder):
    """A byte-pair tokenizer learnt from the texts and a random model of one layer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|im_start|>", "<|im_end|>"]
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=3000, special_tokens=special, initial_alphabet=alphabet)
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>")
    fast.chat_template = serving_template(training_template("wardround_compact"))
    fast.response_template = qwen3_template
    torch.manual_seed(0)
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = LlamaConfig(vocab_size=len(fast), num_key_value_heads=1, max_position_embeddings=32_768, **shape)
    return fast, LlamaForCausalLM(config)


def main(plan: dict, out: Path) -> None:
    script = json.loads(Path(plan["script"]).read_text())
    made = written(plan, out.parent / "world.py")
    rewards: dict[str, set] = {}

    class Recorded(made["Environment"]):
        def reset(self, *, sample, **row):
            self.sample = sample
            return super().reset(sample=sample, **row)

        def get_reward(self):
            reward = super().get_reward()
            rewards.setdefault(self.sample, set()).add(reward)
            return reward

    wanted = {episode["sample"] for episode in script}
    rows = [row for row in made["ROWS"] if row["sample"] in wanted]
    probe = made["Environment"]()
    tokenizer, model = tiny([probe.reset(**row) for row in rows[:20]], out.parent)
    ScriptedTrainer.script = {episode["sample"]: episode["calls"] for episode in script}
    with tempfile.TemporaryDirectory() as folder:
        arguments = trl.GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=2,
            num_generations=2,
            max_steps=len(rows),
            max_completion_length=8000,
            max_tool_calling_iterations=plan["calls"],
            learning_rate=0.0,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            bf16=False,
            use_cpu=True,
        )
        trainer = ScriptedTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            environment_factory=Recorded,
        )
        trainer.train()
    out.write_text(json.dumps({sample: paid.pop() for sample, paid in rewards.items() if len(paid) == 1}))


def written(plan, file):
    where = ["--store", plan["store"], "--benchmark", plan["benchmark"], "--calls", str(plan["calls"])]
    words = ["train", "env", "--kind", "trl", *where, "--out", str(file)]
    subprocess.run([sys.executable, "-m", "wardround", *words], check=True)
    return run_path(str(file))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
