"""Training: trajectories as rows to learn from, fine-tuning on them, and the world as trainers ask for it."""

from wardround.training.export import ExportCounts, export_rows
from wardround.training.files import FORMATS, export_folder, read_rows
from wardround.training.gguf_file import write_model
from wardround.training.held_out import HeldOut
from wardround.training.masking import RowTokenizer, TokenRow
from wardround.training.recipe import DataSettings, RlSettings, SftSettings, TrainingRecipe, read_recipe
from wardround.training.redundant_calls import without_redundant_calls
from wardround.training.rl import Reinforced, reinforce
from wardround.training.rows import TrainingRow, training_rows
from wardround.training.sft import Trained, fine_tune
from wardround.training.templates import serving_template, training_template
from wardround.training.tool_use import RunToolUse, ToolUse, ToolUseShift, tool_use, tool_use_shift
from wardround.training.weights import BaseWeights

__all__ = [
    "FORMATS",
    "BaseWeights",
    "DataSettings",
    "ExportCounts",
    "HeldOut",
    "Reinforced",
    "RlSettings",
    "RowTokenizer",
    "RunToolUse",
    "SftSettings",
    "TokenRow",
    "ToolUse",
    "ToolUseShift",
    "Trained",
    "TrainingRecipe",
    "TrainingRow",
    "export_folder",
    "export_rows",
    "fine_tune",
    "read_recipe",
    "read_rows",
    "reinforce",
    "serving_template",
    "tool_use",
    "tool_use_shift",
    "training_rows",
    "training_template",
    "without_redundant_calls",
    "write_model",
]
