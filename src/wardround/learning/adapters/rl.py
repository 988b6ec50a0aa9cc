"""Reinforcement: group-relative policy optimisation (GRPO, package trl) in the world, with the world's own reward.

A rollout is an episode: the model calls tools and ends with ``finish``; its reward is the task's score. Of each sample
a group of rollouts is played, and each is judged against its group's mean.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wardround.core import Reporter, must_be_new, private_folder, silent, write_atomically
from wardround.learning.adapters.trl import trl_environment, trl_rows
from wardround.learning.masking import serving_template
from wardround.learning.recipe import RlSettings, reporting
from wardround.learning.weights import BaseWeights, needed
from wardround.learning.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class RlResult:
    """What was done. ``rewards`` are the mean rewards of every step's rollouts, ``tool_calls`` their calls each."""

    steps: int
    rewards: tuple[float, ...]
    tool_calls: tuple[float, ...]
    losses: tuple[float, ...]


def reinforce(
    base: BaseWeights, world: World, template: str, settings: RlSettings, out: Path, *, report: Reporter = silent
) -> RlResult:
    """Train in a world and write ``out/model`` and ``out/reinforced.json``. UserError where ``out`` holds something."""
    must_be_new(out)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    private_folder(out)
    tokenizer = _tokenizer(base, serving_template(template))
    trainer = _trainer(base, tokenizer, world, settings, out)
    trainer.add_callback(reporting(report, unit="steps"))
    trainer.train()
    trainer.model.save_pretrained(out / "model", safe_serialization=True)
    tokenizer.save_pretrained(out / "model")
    log_history = trainer.state.log_history
    done = RlResult(
        steps=trainer.state.global_step,
        rewards=_every(log_history, "reward"),
        tool_calls=_every(log_history, "tools/call_frequency"),
        losses=_every(log_history, "loss"),
    )
    body = {"schema": 1, "base": base.path.name, "settings": asdict(settings), "done": asdict(done)}
    write_atomically(out / "reinforced.json", json.dumps(body, indent=2) + "\n")
    return done


def _tokenizer(base: BaseWeights, template: str) -> Any:
    """The tokenizer with our template; calls are read back as that of Qwen 3 has them: JSON between the same tags."""
    tokenizer = base.tokenizer()
    tokenizer.chat_template = template
    tokenizer.response_template = needed("trl.chat_template_utils").qwen3_template
    return tokenizer


def _trainer(base: BaseWeights, tokenizer: Any, world: World, settings: RlSettings, out: Path) -> Any:
    trl, datasets = needed("trl"), needed("datasets")
    arguments = trl.GRPOConfig(
        output_dir=str(out / "checkpoints"),
        max_steps=settings.steps,
        per_device_train_batch_size=settings.group,
        num_generations=settings.group,
        max_completion_length=settings.completion_tokens,
        max_tool_calling_iterations=world.settings.calls,
        learning_rate=settings.learning_rate,
        temperature=settings.temperature,
        beta=settings.beta,
        seed=settings.seed,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        bf16=False,
        use_cpu=not needed("torch").cuda.is_available(),
    )
    return trl.GRPOTrainer(
        model=base.model(),
        args=arguments,
        train_dataset=datasets.Dataset.from_list(trl_rows(world)),
        processing_class=tokenizer,
        environment_factory=trl_environment(world),
    )


def _every(log_history: list[dict[str, Any]], name: str) -> tuple[float, ...]:
    return tuple(float(entry[name]) for entry in log_history if name in entry)
