"""The door for verifiers 0.4: a configuration of its taskset ``openenv``, which reads the server of ``--kind openenv``.

``vf-eval @ FILE --model NAME`` plays every sample once; in a trainer's own configuration the table ``[env.taskset]`` is
what is needed.
"""

from __future__ import annotations

import json
from pathlib import Path

from wardround.core import write_atomically
from wardround.training.world import World

_HEAD = '[env.taskset]\nid = "openenv"\nbase_url = '


def write_verifiers_config(world: World, out: Path, url: str) -> int:
    """Write it, one reset per sample; ``url`` is where the server answers. Return how many."""
    resets = "".join(f"  {{ sample = {json.dumps(sample)} }},\n" for sample in world.ids)
    write_atomically(out, f"{_HEAD}{json.dumps(url)}\nresets = [\n{resets}]\n")
    return len(world.ids)
