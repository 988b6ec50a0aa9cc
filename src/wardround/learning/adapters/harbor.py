"""Tasks for Harbor, verifiers and SkyRL: one folder per sample."""

from __future__ import annotations

import json
import shlex
from importlib import resources
from pathlib import Path

import jinja2

from wardround.core import must_be_new, private_folder, write_atomically
from wardround.learning.world import World

# instruction.md     the question, and how to answer it: an MCP server that holds the chart, or ``answer.json``
# task.toml          what it is
# environment/       a Dockerfile that installs wardround; store and benchmark are mounted, never copied in
# tests/test.sh      writes the reward to /logs/verifier/reward.txt by ``wardround train reward``
# solution/solve.sh  writes an empty answer: the floor (a solution would hold the target)
#
# The target stays in the benchmark, which only the verifier mounts.


ANSWER = "answer.json"
_FILES = {
    "instruction.md": "harbor_instruction",
    "task.toml": "harbor_task",
    "environment/Dockerfile": "harbor_dockerfile",
    "tests/test.sh": "harbor_test",
    "solution/solve.sh": "harbor_solve",
}
_TEMPLATES = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)
_TEMPLATES.filters["shell"] = shlex.quote


def write_harbor_tasks(world: World, out: Path) -> int:
    """Write one folder per sample; return how many. Raises UserError where ``out`` holds something."""
    must_be_new(out)
    private_folder(out)
    for sample in world.ids:
        episode = world.begin(sample)
        values = {
            "sample": sample,
            "task": episode.sample.task,
            "prompt": episode.prompt,
            "calls": world.settings.calls,
        }
        episode.close()
        for name, template in _FILES.items():
            file = out / sample / name
            private_folder(file.parent)
            write_atomically(
                file,
                _TEMPLATES.from_string(
                    resources.files("wardround.learning")
                    .joinpath("prompts", f"{template}.jinja")
                    .read_text(encoding="utf-8")
                ).render(answer=ANSWER, **values),
                durable=False,
            )
            if file.suffix == ".sh":
                file.chmod(0o700)
    return len(world.ids)


# The door for verifiers 0.4: a configuration of its taskset ``openenv``, which reads the server of ``--kind openenv``.
#
# ``vf-eval @ FILE --model NAME`` plays every sample once; in a trainer's own configuration the table ``[env.taskset]``
# is what is needed.


_HEAD = '[env.taskset]\nid = "openenv"\nbase_url = '


def write_verifiers_config(world: World, out: Path, url: str) -> int:
    """Write it, one reset per sample; ``url`` is where the server answers. Return how many."""
    resets = "".join(f"  {{ sample = {json.dumps(sample)} }},\n" for sample in world.ids)
    write_atomically(out, f"{_HEAD}{json.dumps(url)}\nresets = [\n{resets}]\n")
    return len(world.ids)
