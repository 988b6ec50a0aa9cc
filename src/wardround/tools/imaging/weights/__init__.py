"""Weights of imaging networks: which are known and where they are published, files read without running them, graphs
built of their tensors, and the folder in which a user's own lie.
"""

from wardround.tools.imaging.weights.model_store import InstalledModel, KnownModel, ModelStore, find_known, known_models
from wardround.tools.imaging.weights.torch_file import read_torch_file

__all__ = ["InstalledModel", "KnownModel", "ModelStore", "find_known", "known_models", "read_torch_file"]
