"""``wardround train``: training data of runs, fine-tuning, a trainer's world, classical predictors."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

from wardround.cli.parser import Command, add_action, port
from wardround.cli.run import add_flag
from wardround.cli.terminal import add_json_option, print_json, print_rows
from wardround.core import TerminalProgress, UserError, leaves, needs_extra
from wardround.learning import (
    FORMATS,
    BaseWeights,
    RowTokenizer,
    RunToolUse,
    TrainingRecipe,
    TrainingRow,
    export_folder,
    fine_tune,
    read_recipe,
    read_rows,
    serving_template,
    tool_use_shift,
    training_template,
    write_model,
)
from wardround.learning.world import MOST_CALLS, RewardKind, World, WorldSettings
from wardround.predictors import FitRow, PredictorSettings, fit_predictors
from wardround.records import Store
from wardround.reports import predictor_rows
from wardround.runs import RunFolder
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.scoring import PairedTest, render_classes

# ``wardround train env`` and ``reward``: the training environment for a trainer's policy, in the trainer's form.


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
    parser.add_argument("--split", default="train", choices=["train", "dev", "test"], help="whose samples are used")
    parser.add_argument("--task", nargs="+", default=[], help="only these tasks")
    parser.add_argument("--calls", type=int, default=MOST_CALLS, help="tool calls of an episode")
    add_reward_kind(parser)
    parser.add_argument("--port", type=port, help=f"port on 127.0.0.1 (openenv, verifiers); default {PORT}")
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
    """Declare the benchmark and store of a world."""
    parser.add_argument("--store", type=Path, required=True, help="folder of the store")
    parser.add_argument("--benchmark", type=Path, required=True, help="folder of the benchmark")


def add_reward_kind(parser: argparse.ArgumentParser) -> None:
    """Declare the reward of an episode."""
    parser.add_argument(
        "--reward",
        choices=get_args(RewardKind),
        default="score",
        help="score: the task's; gain (recommended): what is cited, read and right, less the best constant and repeats",
    )


def open_env(arguments: argparse.Namespace) -> int:
    """Serve a world, or write its files."""
    settings = WorldSettings(
        split=arguments.split, tasks=tuple(arguments.task), calls=arguments.calls, reward=arguments.reward
    )
    _must_heed(arguments)
    from wardround.learning.adapters import write_harbor_tasks, write_trl_module, write_verifiers_config

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
    """Raise UserError for an option that this trainer's adapter does not use, and for a missing one."""
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

        from wardround.learning.adapters import openenv_app
    print(f"{url} ({len(world.ids):,} samples); Ctrl-C stops it", flush=True)
    uvicorn.run(openenv_app(world), host=_LOOPBACK, port=port, log_level="warning")
    return 0


def print_reward(arguments: argparse.Namespace) -> int:
    """Print the reward of an answer in a file, parsed as the world does; 0 without one."""
    settings = WorldSettings(split=World.split_of(arguments.benchmark, arguments.sample))
    episode = World.open(arguments.store, arguments.benchmark, settings).begin(arguments.sample)
    episode.answer_with(_read_answer(arguments.answer))
    print(episode.reward)
    episode.close()
    return 0


def _read_answer(file: Path) -> Any:
    """Return the JSON value of a file; None, which is no answer, if it has none."""
    try:
        return json.loads(file.read_text(encoding="utf-8"), strict=False)
    except (OSError, ValueError, RecursionError):
        return None


# ``wardround train``: make training data from runs, fine-tune on it, and compare tool use before and after.


DEFAULT_TEMPLATE = "wardround_compact"
MAX_TOKENS = "data.max_tokens"
EXAMPLES = """
  wardround run --benchmark bench --store store --split train --agent react --model offline --out teacher
  wardround train export teacher --out data
  wardround train export teacher --out data --recipe my.toml --tokenizer smollm2.gguf --keep-from other-bench
  wardround train sft --rows data/rows.jsonl --base smollm2.gguf --out tuned --set sft.learning_rate=2e-4
  wardround train sft --rows data/rows.jsonl --base smollm2.gguf --out tuned --resume
  wardround train base --base smollm2.gguf --out before.gguf
      the weights before training, de-quantised and with the template of training, to compare with on equal terms
  wardround models serve --weights before.gguf
  wardround models serve --weights tuned/model.gguf
  wardround train rl --base tuned/model --store store --benchmark bench --out reinforced --set rl.steps=10
  wardround train compare before after
  wardround train compare before after-1 after-2 after-3 --beside schema
      three seeds: mean and range; beside them the untrained weights, with calls forced into shape by a schema
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _configure_export(actions.add_parser("export", help="write conversations of training runs", examples=EXAMPLES))
    sft = actions.add_parser("sft", help="fine-tune a model on exported rows", examples=EXAMPLES)
    sft.add_argument("--rows", type=Path, required=True, help="rows.jsonl of an export")
    sft.add_argument("--base", type=Path, required=True, help="a model's folder, or a .gguf file")
    sft.add_argument("--out", type=Path, required=True, help="folder of the trained model")
    sft.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    _add_recipe(sft)
    base = actions.add_parser("base", help="write weights as they were before training", examples=EXAMPLES)
    base.add_argument("--base", type=Path, required=True, help="a .gguf file")
    base.add_argument("--out", type=Path, required=True, help="the .gguf file to write")
    _add_template(base)
    rl = actions.add_parser("rl", help="reinforce a model in the world of a benchmark (GRPO)", examples=EXAMPLES)
    rl.add_argument("--base", type=Path, required=True, help="a model's folder, or a .gguf file")
    add_world(rl)
    rl.add_argument("--task", nargs="+", default=[], help="only these tasks")
    rl.add_argument("--calls", type=int, default=MOST_CALLS, help="tool calls of an episode")
    add_reward_kind(rl)
    rl.add_argument("--out", type=Path, required=True, help="folder of the trained model")
    _add_recipe(rl)
    env = actions.add_parser("env", help="open the world that a trainer's policy acts in", examples=WORLD_EXAMPLES)
    configure_env(env)
    reward = actions.add_parser("reward", help="print the reward of an answer", examples=WORLD_EXAMPLES)
    configure_reward(reward)
    add_action(actions, "predictors", PREDICTORS, "fit the classical baselines on a benchmark whose tasks have classes")
    compare = actions.add_parser("compare", help="compare two runs in how a model used its tools", examples=EXAMPLES)
    compare.add_argument("before", type=Path, help="folder of the run before training")
    compare.add_argument(
        "after", type=Path, nargs="+", help="folders of the runs after it, on the same samples: one for each seed"
    )
    compare.add_argument(
        "--beside",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help="other runs on the same samples, a column each: the untrained weights with model.tool_calls=schema, say",
    )
    add_json_option(compare)


def _configure_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs with --split train")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--format", nargs="+", choices=FORMATS, default=list(FORMATS), help="which files: JSON lines, Parquet, ATIF 1.8"
    )
    parser.add_argument(
        "--tokenizer", type=Path, help="a model's folder or .gguf file: counts tokens, drops rows above data.max_tokens"
    )
    parser.add_argument(
        "--keep-from",
        type=Path,
        nargs="+",
        default=[],
        metavar="BENCHMARK",
        help="benchmarks whose held-out people must teach nothing, beside the runs' own",
    )
    _add_recipe(parser)
    add_json_option(parser)


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", type=Path, help="TOML file with [data] and [sft]")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one setting of a recipe")
    _add_template(parser)


def _add_template(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--template", default=DEFAULT_TEMPLATE, help="chat template with {%% generation %%} marks: ours, or a file"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    if "do" in arguments:
        return int(arguments.do(arguments))
    actions: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "export": _export,
        "sft": _sft,
        "rl": _rl,
        "base": _base,
        "env": open_env,
        "reward": print_reward,
        "compare": _compare,
    }
    return actions[arguments.action](arguments)


def _export(arguments: argparse.Namespace) -> int:
    progress = TerminalProgress()
    recipe = _recipe(arguments, "data.")
    template, row_tokenizer = training_template(arguments.template), None
    if arguments.tokenizer is not None:
        row_tokenizer = RowTokenizer(tokenizer=BaseWeights(path=arguments.tokenizer).tokenizer(), template=template)
    elif arguments.template != DEFAULT_TEMPLATE or any(_set_name(text) == MAX_TOKENS for text in arguments.set):
        raise UserError(f"--template and {MAX_TOKENS} say how rows are counted and which are too long: add --tokenizer")
    counts = export_folder(
        [RunFolder.open(path) for path in arguments.runs],
        arguments.out,
        recipe.data,
        formats=arguments.format,
        keep_from=arguments.keep_from,
        row_tokenizer=row_tokenizer,
        report=progress,
    )
    progress.close()
    if arguments.json:
        print_json(counts.to_json())
        return 0
    tokens = "" if counts.tokens is None else f", {counts.tokens:,} tokens of which {counts.learnt_tokens:,} learnt"
    print(f"{counts.rows:,} rows with {counts.learnt_replies:,} learnt replies{tokens}: {arguments.out}")
    print(f"{counts.redundant_calls:,} redundant calls left out")
    for reason, count in sorted(counts.dropped.items()):
        print(f"dropped: {count:,} {reason}")
    if counts.not_in_parquet:
        print(f"left out of rows.parquet: {counts.not_in_parquet:,} rows with pictures; rows.jsonl holds them")
    return 0


def _recipe(arguments: argparse.Namespace, *heeded: str) -> TrainingRecipe:
    """Read a recipe. UserError: a ``--set`` that this action does not use; ``heeded``: prefixes of names."""
    recipe = read_recipe(arguments.recipe, arguments.set)
    for name in map(_set_name, arguments.set):
        if not name.startswith(heeded):
            raise UserError(f"train {arguments.action} does not use --set {name}; it uses {', '.join(heeded)}")
    return recipe


def _set_name(assignment: str) -> str:
    return assignment.partition("=")[0].strip()


def _sft(arguments: argparse.Namespace) -> int:
    recipe = _recipe(arguments, "sft.", MAX_TOKENS)
    rows: list[TrainingRow] = read_rows(arguments.rows)
    done = fine_tune(
        BaseWeights(path=arguments.base),
        rows,
        training_template(arguments.template),
        recipe,
        arguments.out,
        resume=arguments.resume,
        report=TerminalProgress(),
    )
    print(f"{done.as_text()}: {arguments.out}")
    return 0


def _rl(arguments: argparse.Namespace) -> int:
    from wardround.learning.adapters import reinforce

    recipe = _recipe(arguments, "rl.")
    settings = WorldSettings(tasks=tuple(arguments.task), calls=arguments.calls, reward=arguments.reward)
    done = reinforce(
        BaseWeights(path=arguments.base),
        World.open(arguments.store, arguments.benchmark, settings),
        training_template(arguments.template),
        recipe.rl,
        arguments.out,
        report=TerminalProgress(),
    )
    print(f"{done.steps:,} steps, mean reward {done.rewards[0]:.3f} at first, {done.rewards[-1]:.3f} at last")
    return 0


def _base(arguments: argparse.Namespace) -> int:
    base = BaseWeights(path=arguments.base)
    if not base.is_gguf:
        raise UserError(f"{str(arguments.base)!r} is no .gguf file; a model's folder is served as it is")
    write_model(base, base.model(), serving_template(training_template(arguments.template)), arguments.out)
    print(arguments.out)
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    after, beside = (list(map(RunFolder.open, paths)) for paths in (arguments.after, arguments.beside))
    shift = tool_use_shift(RunFolder.open(arguments.before), after, beside=beside)
    if arguments.json:
        print_json(shift)
        return 0
    figures: tuple[tuple[str, Callable[[RunToolUse], float | None], PairedTest | None], ...] = (
        ("valid share of calls", lambda run: run.valid_share, None),
        ("useful calls per episode", lambda run: run.useful, shift.useful_test),
        ("episodes finished", lambda run: run.finished_share, shift.finished_test),
        ("score", lambda run: run.score, shift.score_test),
    )
    columns = [[shift.before], *([run] for run in shift.beside), list(shift.after)]
    header = [f"{shift.samples} samples", "before", *(run.run for run in shift.beside), "after"]
    rows = [
        [name, *(mean_and_range(list(map(value, runs))) for runs in columns), *_test_cells(test)]
        for name, value, test in figures
    ]
    print_rows([*header, "after - before", "95 % interval", "p"], rows)
    print(f"the best constant answer, fitted on training people, scores {shift.constant:.3f} on the same samples")
    names = sorted({name for runs in columns for run in runs for name in run.calls})
    calls = [
        [name, *(mean_and_range([run.calls.get(name, 0.0) for run in runs], digits=2) for runs in columns)]
        for name in names
    ]
    print()
    print_rows(["calls per episode", *header[1:]], calls)
    return 0


def mean_and_range(values: Sequence[float | None], *, digits: int = 3) -> str:
    """Return mean and range of several seeds, or the value of one; a run without calls has no share."""
    known = [value for value in values if value is not None]
    if not known:
        return "no calls"
    mean = f"{fmean(known):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({min(known):.{digits}f} to {max(known):.{digits}f})"


def _test_cells(test: PairedTest | None) -> list[str]:
    if test is None:
        return ["", "", ""]
    shown = test.difference
    known = shown.low is not None and shown.high is not None
    interval = f"{shown.low:+.3f} to {shown.high:+.3f}" if known else "of one patient: none"
    p_value = "" if test.p_value is None else f"{test.p_value:.4f}" if test.p_value >= 0.0001 else "<0.0001"
    return [f"{shown.estimate:+.3f}", interval, p_value]


# ``wardround train predictors``: the classical baselines on a benchmark, with EHRSHOT's few-shot protocol.


PREDICTORS_EXAMPLES = """
  wardround train predictors --benchmark bench --store store --out run
      both count baselines on every task with classes, 1 to 256 samples per class and all of them, five replicates
  wardround train predictors --benchmark bench --store store --out run --predictor count-lr --shots all \\
      --task lab_anemia
  wardround train predictors --benchmark bench --store store --out run --predictor clmbr-lr \\
      --representations clmbr.parquet
  wardround train predictors --benchmark bench --store store --out run-ehrshot --gbm-grid ehrshot \\
      --without-valued-events --final-iterations 100 --ties first
      as EHRSHOT's code does it

The same command goes on where it was interrupted. With --out of a run of agents on the same benchmark,
`wardround report` shows both.
"""


def configure_predictors(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--benchmark", type=Path, required=True, help="folder of a benchmark with class tasks")
    parser.add_argument("--store", type=Path, required=True, help="folder of the store it was built from")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results; may be that of a run")
    parser.add_argument("--task", nargs="+", default=[], metavar="TASK", help="only these tasks")
    parser.add_argument("--processes", type=int, default=1, help="processes that count events and fit")
    _add_predictor_options(parser)
    add_json_option(parser)


def _add_predictor_options(parser: argparse.ArgumentParser) -> None:
    """Declare the settings of fits: a flag for each common one, and two that switch a part off."""
    group = parser.add_argument_group("predictors")
    for leaf in leaves(PredictorSettings):
        if leaf.setting.flag:
            add_flag(group, leaf)
    group.add_argument(
        "--no-hierarchy", action="store_true", help="count an event for its own code only, not for its ancestors"
    )
    group.add_argument(
        "--without-valued-events", action="store_true", help="leave out events with a value, as EHRSHOT's counts do"
    )


def predictor_settings(arguments: argparse.Namespace) -> PredictorSettings:
    """Return the settings given by the options."""
    given = {leaf.name: getattr(arguments, leaf.name) for leaf in leaves(PredictorSettings) if leaf.name in arguments}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if given.get("representations"):
        given["representations"] = str(Path(given["representations"]).resolve())
    return PredictorSettings(
        **given,
        tasks=tuple(arguments.task),
        hierarchy="none" if arguments.no_hierarchy else "auto",
        valued_events=not arguments.without_valued_events,
    )


def run_predictors(arguments: argparse.Namespace) -> int:
    """Fit, and print the table of fits on all samples."""
    if arguments.processes < 1:
        raise UserError("--processes must be at least 1")
    progress = TerminalProgress()
    rows = fit_predictors(
        Store.open(arguments.store),
        Benchmark.open(arguments.benchmark),
        arguments.out,
        predictor_settings(arguments),
        processes=arguments.processes,
        report=progress,
    )
    progress.close()
    if arguments.json:
        print_json([row.to_json() for row in rows])
        return 0
    print_predictions(rows)
    print(f"\n{len(rows):,} fits: {arguments.out}")
    return 0


def print_predictions(rows: list[FitRow]) -> None:
    """Print a table of the fits on all samples, or on the largest number, and how many did not converge."""
    print(render_classes(predictor_rows(rows)))
    stopped = sum(not row.converged for row in rows)
    if stopped:
        print(f"{stopped:,} of {len(rows):,} fits ended at the solver's limit of iterations")


TRAIN = Command(EXAMPLES, configure, run)
PREDICTORS = Command(PREDICTORS_EXAMPLES, configure_predictors, run_predictors)
