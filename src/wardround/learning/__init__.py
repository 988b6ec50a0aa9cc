"""Learning: banks and rules out of training runs, and models fine-tuned on their episodes.

Training: trajectories as rows to learn from, fine-tuning on them, and the world as trainers ask for it.
"""

from __future__ import annotations

from wardround.learning.constructing import Construction, ConstructionSettings, build_peer, construct, stages
from wardround.learning.evolve import Evolution, evolve, training_changes, training_strata, walks_a_graph
from wardround.learning.evolving import StreamEvolution, evolve_stream
from wardround.learning.export import FORMATS, ExportCounts, export_folder, export_rows, read_rows
from wardround.learning.forgetting import ForgottenSource, forget_source
from wardround.learning.recipe import DataSettings, RlSettings, SftSettings, TrainingRecipe, read_recipe
from wardround.learning.rows import (
    HeldOut,
    RowTokenizer,
    TokenRow,
    TrainingRow,
    serving_template,
    training_rows,
    training_template,
    without_redundant_calls,
)
from wardround.learning.sft import SftResult, fine_tune
from wardround.learning.tool_use import RunToolUse, ToolUse, ToolUseShift, tool_use, tool_use_shift
from wardround.learning.validation import gate_bank
from wardround.learning.weights import BaseWeights, write_model

__all__ = [
    "FORMATS",
    "BaseWeights",
    "Construction",
    "ConstructionSettings",
    "DataSettings",
    "Evolution",
    "ExportCounts",
    "ForgottenSource",
    "HeldOut",
    "RlSettings",
    "RowTokenizer",
    "RunToolUse",
    "SftResult",
    "SftSettings",
    "StreamEvolution",
    "TokenRow",
    "ToolUse",
    "ToolUseShift",
    "TrainingRecipe",
    "TrainingRow",
    "build_peer",
    "construct",
    "evolve",
    "evolve_stream",
    "export_folder",
    "export_rows",
    "fine_tune",
    "forget_source",
    "gate_bank",
    "read_recipe",
    "read_rows",
    "serving_template",
    "stages",
    "tool_use",
    "tool_use_shift",
    "training_changes",
    "training_rows",
    "training_strata",
    "training_template",
    "walks_a_graph",
    "without_redundant_calls",
    "write_model",
]
