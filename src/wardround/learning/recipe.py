"""Training recipes: every setting of export and fine-tuning, and progress reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from wardround.core import (
    Progress,
    Reporter,
    UserError,
    check_settings,
    leaves,
    read_toml,
    refuse_unknown,
    setting,
    strict,
)
from wardround.core.settings import merged, nested
from wardround.learning.weights import needed
from wardround.runs.experiment import read_value

# A recipe: all settings of training data and fine-tuning, in a TOML file; each is declared once, here.


Precision = Literal["float32", "bf16"]
Adapter = Literal["none", "lora"]
TABLE_9 = "ClinSeekAgent Table 9"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSettings:
    """Settings that choose the conversations of an export."""

    least_score: float | None = setting(None, "only episodes that scored at least this", least=0, most=1)
    finishes: tuple[str, ...] = setting(("finish", "text"), "only episodes that ended so; all where empty")
    purposes: tuple[str, ...] = setting((), "only replies to calls of these purposes are learnt; all where empty")
    compress: bool = setting(True, "leave out repeated calls that got the same result")
    episodes_per_task: int | None = setting(None, "at most so many episodes of a task, drawn by the seed", least=1)
    seed: int = setting(0, "seed of that draw")
    max_tokens: int | None = setting(
        52_000, "longer rows are dropped and counted", unit="tokens", source=TABLE_9, least=1
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SftSettings:
    """Settings of supervised fine-tuning."""

    epochs: float = setting(3.0, "passes over the rows", above=0, source=TABLE_9)
    batch: int = setting(32, "rows of one update", least=1, source=TABLE_9)
    rows_at_once: int = setting(1, "rows in memory at once; the rest of a batch is accumulated", least=1)
    learning_rate: float = setting(2e-5, "highest learning rate", above=0, source=TABLE_9)
    last_learning_rate: float = setting(2e-6, "where the cosine ends", least=0, source=TABLE_9)
    warmup_steps: int = setting(10, "updates until the highest rate", least=0, source=TABLE_9)
    weight_decay: float = setting(0.1, "of AdamW", least=0, source=TABLE_9)
    clip: float = setting(1.0, "largest norm of a gradient", above=0, source=TABLE_9)
    precision: Precision = setting("bf16", "of the computation", source=TABLE_9)
    seed: int = setting(42, "seed of the order of rows", source=TABLE_9)
    most_steps: int | None = setting(None, "end after so many updates", least=1)
    validation_share: float = setting(
        0.1, "share of people whose rows measure the loss and teach nothing", least=0, most=0.5
    )
    save_steps: int = setting(50, "updates between checkpoints, from which it is resumed", least=1)
    adapter: Adapter = setting("none", "all weights, or low-rank adapters beside them")
    rank: int = setting(16, "rank of the adapters", least=1)
    adapter_scale: float = setting(32.0, "alpha of the adapters", above=0)
    recompute: bool = setting(False, "recompute activations in the backward pass: less memory, more time")

    def __post_init__(self) -> None:
        check_settings(self)
        if self.batch % self.rows_at_once:
            raise UserError(f"rows_at_once ({self.rows_at_once}) must divide batch ({self.batch})")
        if self.last_learning_rate > self.learning_rate:
            raise UserError("last_learning_rate must not be above learning_rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class RlSettings:
    """Settings of reinforcement learning. The paper trains on trajectories only: these are ours."""

    steps: int = setting(100, "updates", least=1)
    group: int = setting(8, "rollouts of a sample, compared with each other", least=2)
    completion_tokens: int = setting(4096, "tokens of a rollout after its prompt", unit="tokens", least=1)
    learning_rate: float = setting(1e-6, "learning rate", above=0)
    temperature: float = setting(1.0, "sampling temperature of rollouts", above=0)
    beta: float = setting(0.0, "weight of the distance from the model at the start", least=0)
    seed: int = setting(42, "seed")

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecipe:
    """A recipe. ``title`` names what it reproduces."""

    title: str = ""
    data: DataSettings = field(default_factory=DataSettings)
    sft: SftSettings = field(default_factory=SftSettings)
    rl: RlSettings = field(default_factory=RlSettings)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return asdict(self)


def read_recipe(path: Path | None, assignments: Iterable[str] = ()) -> TrainingRecipe:
    """Return the recipe of a file (the defaults without one) with ``NAME=VALUE`` assignments over it.

    Raises UserError: unknown names, with the nearest; values out of range.
    """
    body = {} if path is None else read_toml(path)
    known = {leaf.name: leaf.kind for leaf in leaves(TrainingRecipe)}
    for text in assignments:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise UserError(f"{text!r} sets nothing; write --set NAME=VALUE, for example --set sft.epochs=1")
        refuse_unknown([name], known, "--set")
        body = merged(body, nested({name: read_value(value, known[name], name)}))
    return strict(TrainingRecipe, body, str(path or "recipe"))


# Progress of a trainer.


def reporting(report: Reporter, *, unit: str) -> Any:
    """A callback of a trainer (package transformers) that reports every step, counted in ``unit``."""

    class Reporting(needed("transformers").TrainerCallback):  # type: ignore[misc]  # its base is imported lazily
        def on_step_end(self, _arguments: Any, state: Any, _control: Any, **_: Any) -> None:
            report(Progress(label="training", done=state.global_step, total=state.max_steps, unit=unit))

    return Reporting()
