"""``wardround train env`` and ``reward``: the world that a trainer's policy acts in, through its trainer's door."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from wardround.core import UserError, needs_extra
from wardround.training.doors.harbor import write_harbor_tasks
from wardround.training.doors.trl import write_trl_module
from wardround.training.doors.verifiers import write_verifiers_config
from wardround.training.rewards import RewardKind
from wardround.training.world import MOST_CALLS, World, WorldSettings

KINDS = ("trl", "verifiers", "openenv", "harbor")
WORLD_EXAMPLES = """
  wardround train env --kind trl --store store --benchmark bench --out world.py
      a Python file with the environment class and the rows for GRPOTrainer
  wardround train env --kind openenv --store store --benchmark bench --port 8765
      the server that OpenEnv's clients and verifiers' taskset openenv read
  wardround train env --kind verifiers --store store --benchmark bench --port 8765 --out verifiers.toml
      what vf-eval reads, beside that server: vf-eval @ verifiers.toml --model NAME
  wardround train env --kind harbor --store store --benchmark bench --out tasks
  wardround train reward --store store --benchmark bench --sample diagnoses-12345678 --answer answer.json
"""
_LOOPBACK = "127.0.0.1"
PORT = 8765


def configure_env(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``train env``."""
    add_world(parser)
    parser.add_argument("--kind", choices=KINDS, required=True, help="whose door")
    parser.add_argument("--split", default="train", choices=["train", "dev", "test"], help="whose samples are played")
    parser.add_argument("--task", nargs="+", default=[], help="only these tasks")
    parser.add_argument("--calls", type=int, default=MOST_CALLS, help="tool calls of an episode")
    add_reward_kind(parser)
    parser.add_argument("--port", type=int, help=f"port on 127.0.0.1 (openenv, verifiers); default {PORT}")
    parser.add_argument("--out", type=Path, help="what to write: a file (trl, verifiers) or a folder (harbor)")


def configure_reward(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``train reward``."""
    add_world(parser)
    parser.add_argument("--sample", required=True, help="the sample that was answered")
    parser.add_argument(
        "--answer",
        type=Path,
        required=True,
        help="file of a JSON list of names, read as the tool `finish` reads one; none: no answer",
    )


def add_world(parser: argparse.ArgumentParser) -> None:
    """Declare where a world lies."""
    parser.add_argument("--store", type=Path, required=True, help="folder of the store")
    parser.add_argument("--benchmark", type=Path, required=True, help="folder of the benchmark")


def add_reward_kind(parser: argparse.ArgumentParser) -> None:
    """Declare what an episode is worth."""
    parser.add_argument(
        "--reward",
        choices=get_args(RewardKind),
        default="score",
        help="score: the task's; gain (recommended): what is cited, read and right, less the best constant and repeats",
    )


def open_env(arguments: argparse.Namespace) -> int:
    """Serve or write a world."""
    settings = WorldSettings(
        split=arguments.split, tasks=tuple(arguments.task), calls=arguments.calls, reward=arguments.reward
    )
    _must_heed(arguments)
    world = World.open(arguments.store, arguments.benchmark, settings)
    port = PORT if arguments.port is None else arguments.port
    url = f"http://{_LOOPBACK}:{port}"
    if arguments.kind == "openenv":
        return _serve(world, url, port)
    writers: dict[str, Callable[[], int]] = {
        "trl": lambda: write_trl_module(world, arguments.out, store=arguments.store, benchmark=arguments.benchmark),
        "verifiers": lambda: write_verifiers_config(world, arguments.out, url),
        "harbor": lambda: write_harbor_tasks(world, arguments.out),
    }
    print(f"{writers[arguments.kind]():,} samples: {arguments.out}")
    return 0


def _must_heed(arguments: argparse.Namespace) -> None:
    """Raise UserError for an option that this kind of door has no use for, and for one that it lacks."""
    if arguments.kind == "openenv" and arguments.out is not None:
        raise UserError("--kind openenv writes nothing: leave --out away")
    if arguments.kind != "openenv" and arguments.out is None:
        raise UserError(f"--kind {arguments.kind} needs --out")
    if arguments.kind == "harbor" and arguments.reward != "score":
        raise UserError("--kind harbor pays the score: an answer in a file does not show what was read")
    if arguments.kind == "verifiers" and arguments.reward != "score":
        raise UserError("--kind verifiers reads a server: give --reward to --kind openenv")
    if arguments.kind not in ("openenv", "verifiers") and arguments.port is not None:
        raise UserError(f"--kind {arguments.kind} is no server: leave --port away")


def _serve(world: World, url: str, port: int) -> int:
    with needs_extra("openenv"):
        import uvicorn
        import websockets  # noqa: F401  # uvicorn speaks the protocol through it

        from wardround.training.doors.openenv import openenv_app
    print(f"{url} ({len(world.ids):,} samples); Ctrl-C stops it", flush=True)
    uvicorn.run(openenv_app(world), host=_LOOPBACK, port=port, log_level="warning")
    return 0


def print_reward(arguments: argparse.Namespace) -> int:
    """Print the reward of an answer in a file, read as the world reads one; 0 where there is none."""
    settings = WorldSettings(split=World.split_of(arguments.benchmark, arguments.sample))
    episode = World.open(arguments.store, arguments.benchmark, settings).begin(arguments.sample)
    episode.answer_with(_read_answer(arguments.answer))
    print(episode.reward)
    episode.close()
    return 0


def _read_answer(file: Path) -> Any:
    """The JSON value of a file; None, which answers nothing, where there is none."""
    try:
        return json.loads(file.read_text(encoding="utf-8"), strict=False)
    except (OSError, ValueError, RecursionError):
        return None
