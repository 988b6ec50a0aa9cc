"""Adapters from the world of :mod:`wardround.learning.world` to the interfaces of trainers."""

from __future__ import annotations

from wardround.learning.adapters.harbor import write_harbor_tasks, write_verifiers_config
from wardround.learning.adapters.openenv import openenv_app
from wardround.learning.adapters.trl import RlResult, reinforce, write_trl_module

__all__ = [
    "RlResult",
    "openenv_app",
    "reinforce",
    "write_harbor_tasks",
    "write_trl_module",
    "write_verifiers_config",
]
