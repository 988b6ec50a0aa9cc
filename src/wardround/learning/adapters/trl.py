"""The door for TRL: an environment class whose public methods are the tools (``GRPOTrainer(environment_factory=...)``).

TRL makes one object for every rollout, calls ``reset(**row)`` with a row of the data set, offers every other public
method as a tool, described by its docstring, and asks ``get_reward()`` at the end.
"""

from __future__ import annotations

import inspect
import json
import keyword
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from wardround.core import Reporter, ToolSchema, UserError, must_be_new, private_folder, silent, write_atomically
from wardround.learning.recipe import RlSettings, reporting
from wardround.learning.rows import serving_template
from wardround.learning.weights import BaseWeights, needed
from wardround.learning.world import World, WorldEpisode

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}


def trl_environment(world: World) -> type:
    """Return a class for ``environment_factory``: one method per tool, with types and a docstring in Google's style."""
    first = world.begin(world.ids[0])
    methods = {tool.name.replace(".", "_"): _method(tool) for tool in first.tools}
    first.close()
    return type("WardroundEnvironment", (_Environment,), {"world": world, **methods})


def trl_rows(world: World) -> list[dict[str, Any]]:
    """Return the rows of the data set: an empty prompt, which ``reset`` fills, and the sample's id."""
    return [{"prompt": [{"role": "user", "content": ""}], "sample": sample} for sample in world.ids]


def write_trl_module(world: World, out: Path, *, store: Path, benchmark: Path) -> int:
    """Write a Python file with the class and the rows; importing it opens these folders. Return how many rows."""
    settings = world.settings
    values = {
        "store": str(store.resolve()),
        "benchmark": str(benchmark.resolve()),
        "split": settings.split,
        "tasks": settings.tasks,
        "calls": settings.calls,
        "reward": settings.reward,
    }
    source = resources.files("wardround.learning").joinpath("prompts", "trl_world.jinja").read_text(encoding="utf-8")
    template = jinja2.Template(source, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    write_atomically(out, template.render({name: repr(value) for name, value in values.items()}))
    return len(world.ids)


class _Environment:
    """The base of every rollout; the subclass of a world adds the tools."""

    world: World

    def __init__(self) -> None:
        self._episode: WorldEpisode | None = None

    def reset(self, *, sample: str, **_row: Any) -> str:
        """Begin an episode and return the question."""
        if self._episode is not None:
            self._episode.close()
        self._episode = self.world.begin(sample)
        return self._episode.prompt

    def get_reward(self) -> float:
        """Return the score of the answer given so far."""
        return self._played.reward

    @property
    def _played(self) -> WorldEpisode:
        if self._episode is None:
            raise UserError("reset comes first")
        return self._episode


def _method(tool: ToolSchema) -> Callable[..., str]:
    def called(self: _Environment, **arguments: Any) -> str:
        return self._played.call(tool.name, {name: value for name, value in arguments.items() if value is not None})

    called.__name__ = tool.name.replace(".", "_")
    called.__doc__ = _docstring(tool)
    parameters = _parameters(tool)
    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by inspect.signature
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *parameters], return_annotation=str
    )
    called.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": str}
    return called


def _parameters(tool: ToolSchema) -> list[inspect.Parameter]:
    required = set(tool.parameters.get("required", ()))
    made = []
    for name, parameter in tool.parameters.get("properties", {}).items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UserError(f"tool {tool.name!r}: the argument {name!r} cannot be one of a Python method")
        kind = _TYPES.get(str(parameter.get("type")), Any)
        default = inspect.Parameter.empty if name in required else None
        annotation = kind if name in required or kind is Any else kind | None
        made.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    return made


def _docstring(tool: ToolSchema) -> str:
    properties = tool.parameters.get("properties", {})
    lines = [tool.description, ""]
    if properties:
        lines += ["Args:"] + [
            f"    {name}: {_line(parameter.get('description', name))}" for name, parameter in properties.items()
        ]
        lines += [""]
    return "\n".join([*lines, "Returns:", "    What the tool answers, as text."])


def _line(text: str) -> str:
    return " ".join(text.split())


# Reinforcement: group-relative policy optimisation (GRPO, package trl) in the world, with the world's own reward.


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
    # The tokenizer with our template; calls are read back as that of Qwen 3 has them: JSON between the same tags
    tokenizer = base.tokenizer()
    tokenizer.chat_template = serving_template(template)
    tokenizer.response_template = needed("trl.chat_template_utils").qwen3_template
    tokenizer = tokenizer
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
