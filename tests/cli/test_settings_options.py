"""Settings by one name each: in a file, after ``--set``, as a flag and in Python; wrong ones are one clear line."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from wardround.cli.main import main
from wardround.cli.parser import Parser
from wardround.cli.run import add_run_options, asked_settings
from wardround.core import Message, UserError, leaves
from wardround.models import ModelOptions, Request
from wardround.models.wire import encode_request
from wardround.runs import RunSettings
from wardround.runs.banks import Memories
from wardround.runs.experiment import every_setting
from wardround.runs.models import candidates_for
from wardround.runs.settings import SECTIONS, EpisodeKey
from wardround.runs.worker import open_agents


def parsed(*words: str) -> argparse.Namespace:
    parser = Parser(prog="wardround run")
    add_run_options(parser)
    parser.set_defaults(plugin=[])
    return parser.parse_args(words)


def settings(*words: str) -> RunSettings:
    return RunSettings.read(asked_settings(parsed(*words)))


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(
        """
[run]
benchmark = "bench"
agents = ["retrosum", "react+ether"]
models = ["fast", "offline"]

[model]
temperature = 0.2

[models.fast]
name = "openai/qwen3-4b"
base_url = "http://127.0.0.1:8001/v1"

[budget]
turns = 30

[agent.retrosum]
window = 5
"""
    )
    return path


def test_a_file_a_flag_and_a_set_come_in_this_order(experiment: Path) -> None:
    of_file = settings(str(experiment))
    assert (of_file.budget.turns, of_file.agent["retrosum"].window) == (30, 5)
    assert of_file.run.benchmark == str(experiment.parent / "bench"), "paths begin where the file lies"
    changed = settings(str(experiment), "--turns", "40", "--set", "agent.retrosum.window=7")
    assert (changed.budget.turns, changed.agent["retrosum"].window) == (40, 7)
    assert settings(str(experiment), "--turns", "40", "--set", "budget.turns=50").budget.turns == 50
    assert changed.agent["retrosum"].window_share == 0.7, "what nobody said is the default"


def test_python_the_file_and_the_command_line_have_one_name(experiment: Path) -> None:
    names = {"turns": "20", "temperature": "0.5", "window": "4", "alpha": "0.25", "top_p": "none"}
    places = {"turns": "budget", "temperature": "model", "window": "agent.retrosum", "alpha": "retrieval"}
    words = [f"--set={places.get(name, 'model')}.{name}={value}" for name, value in names.items()]
    here = settings("--agent", "retrosum", *words, "--set=agent.resum.window=4")
    given: dict[str, Any] = {"turns": 20, "temperature": 0.5, "window": 4, "alpha": 0.25, "top_p": None}
    assert here == RunSettings.of(agents=("retrosum",), **given)
    assert RunSettings.read(json.loads(json.dumps(here.to_json()))) == here


@pytest.mark.parametrize(
    ("written", "section", "name", "value"),
    [
        ("run.tasks=diagnoses,transfers", "run", "tasks", ("diagnoses", "transfers")),
        ('run.tasks=["diagnoses"]', "run", "tasks", ("diagnoses",)),
        ("model.price=2,10,0.5", "model", "price", (2.0, 10.0, 0.5)),
        ("retrieval.births=true", "retrieval", "births", True),
        ("retrieval.encoder=embeddings/bge-m3", "retrieval", "encoder", "embeddings/bge-m3"),
        ("budget.episode_seconds=none", "budget", "episode_seconds", None),
        ("memory.bank=my bank.sqlite", "memory", "bank", "my bank.sqlite"),
    ],
)
def test_a_value_is_read_as_its_setting_asks(written: str, section: str, name: str, value: Any) -> None:
    assert getattr(getattr(settings("--set", written), section), name) == value


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "budget.turn=3"], "--set: there is no 'budget.turn'. Did you mean budget.turns?"),
        (["--set", "agent.retrosun.window=3"], "there is no 'retrosun'. Did you mean retrosum?"),
        (["--set", "agent.retrosum.windows=3"], "[agent.retrosum]: there is no 'windows'. Did you mean window?"),
        (["--set", "budget.turns=three"], "--set budget.turns: 'three' is no value for it"),
        (["--set", "budget.turns=0.5"], "[budget] turns: expected int, got float"),
        (["--set", "budget.turns=0"], "turns must be at least 1, not 0"),
        (["--set", "model.tool_calls=grammar"], "there is no 'grammar'. There are: native, schema, auto"),
        (["--set", "budget.turns"], "sets nothing; write --set NAME=VALUE"),
        (["--set", "models.fast.base_url=http://127.0.0.1:1/v1"], "a named model needs the name of a model"),
    ],
)
def test_a_wrong_setting_is_one_line(words: list[str], told: str) -> None:
    with pytest.raises(UserError) as caught:
        settings(*words)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[budgets]\nturns = 3\n", "there is no 'budgets'. Did you mean budget?"),
        ("[budget]\nturn = 3\n", "[budget]: there is no 'turn'. Did you mean turns?"),
        ("[budget]\nturns = 'x'\n", "[budget] turns: expected int, got str"),
        ("[budget\n", "is not valid TOML"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        settings(str(path))
    assert told in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("option", "assignment"),
    [
        ("--window", "--set agent.resum.window=VALUE or --set agent.retrosum.window=VALUE"),
        ("--alpha", "--set retrieval.alpha=VALUE"),
        ("--k", "--set memory.k=VALUE"),
        ("--candidates", "--set agent.reflectool-cs.candidates=VALUE"),
        ("--strata", "--set run.strata=VALUE"),
        ("--shots", "--set predictors.shots=VALUE"),
    ],
)
def test_a_setting_without_a_flag_is_said_to_be_assigned(
    capsys: pytest.CaptureFixture[str], option: str, assignment: str
) -> None:
    assert main(["run", option, "1"]) == 2
    said = capsys.readouterr().err
    assert f"unknown option {option}; write " in said
    assert assignment in said


def test_about_twenty_flags_stay_and_the_help_of_settings_shows_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [leaf for leaf in every_setting() if leaf.setting.flag and not leaf.name.startswith("predictors.")]
    assert len(flags) <= 20
    with pytest.raises(SystemExit):
        parsed("--help-settings")
    shown = capsys.readouterr().out
    for leaf in every_setting():
        section, _, name = leaf.name.rpartition(".")
        assert f"[{section}]" in shown
        assert f"  {name} " in shown


def test_a_flag_given_twice_names_both_times() -> None:
    read = settings("--agent", "react", "--agent", "retrosum", "resum", "--task", "diagnoses")
    assert read.run.agents == ("react", "retrosum", "resum")
    assert read.run.tasks == ("diagnoses",)


def test_every_setting_says_what_it_is() -> None:
    assert [leaf.name for leaf in every_setting() if not leaf.setting.help] == []


def test_several_models_have_endpoints_and_sampling_of_their_own(experiment: Path) -> None:
    read = settings(str(experiment))
    fast, offline = read.model_named("fast"), read.model_named("offline")
    assert (fast.name, fast.base_url, fast.temperature) == ("openai/qwen3-4b", "http://127.0.0.1:8001/v1", 0.2)
    assert (offline.name, offline.base_url, offline.temperature) == ("offline", None, 0.2)
    cooler = settings(str(experiment), "--set", "models.fast.temperature=0")
    key = EpisodeKey(agent="react", model="fast", task="t", sample="s", epoch=0)
    assert candidates_for(cooler, key).temperature == 0
    assert candidates_for(read, key).temperature == 0.2


def test_a_presence_penalty_reaches_the_request_and_none_is_sent_unless_set(experiment: Path) -> None:
    key = EpisodeKey(agent="react", model="fast", task="t", sample="s", epoch=0)

    def body(*words: str) -> Any:
        asked = candidates_for(settings(str(experiment), *words), key)
        request = Request(messages=(Message(role="user", content="?"),), settings=asked, episode="e", ordinal=0)
        return json.loads(encode_request(request, "m"))

    assert "presence_penalty" not in body()
    assert body("--set", "model.presence_penalty=1.0")["presence_penalty"] == 1.0
    both = ("--set", "model.presence_penalty=1.0", "--set", "models.fast.presence_penalty=-0.5")
    assert body(*both)["presence_penalty"] == -0.5


def test_a_budget_without_a_forced_finish_is_that_of_every_loop() -> None:
    def forced(**named: Any) -> set[bool]:
        agents = open_agents(RunSettings.of(agents=("react", "retrosum"), **named), Memories())
        return {one.loop.forced_finish for one in agents.values()}

    assert forced() == {True}
    assert forced(forced_finish=False) == {False}


def test_a_short_name_of_two_settings_is_not_guessed() -> None:
    with pytest.raises(UserError, match=r"'candidates' is the name of several settings: retrieval\.candidates, agent"):
        RunSettings.of(candidates=3)
    assert RunSettings.of(split="dev").predictors.split == "test", "a name of the run's own is the run's"


def test_no_section_declares_a_setting_twice() -> None:
    names = [leaf.name for name, section in SECTIONS.items() for leaf in leaves(section, f"{name}.")]
    assert len(set(names)) == len(names)
    assert {leaf.name for leaf in leaves(ModelOptions)} <= {name.partition(".")[2] for name in names}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_and_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    ask = "source {0}; COMP_WORDS=({1}); COMP_CWORD={2}; _shtab_wardround; echo ${{COMPREPLY[@]}}"

    def completed(*words: str) -> set[str]:
        line = ask.format(script, " ".join(words), len(words) - 1)
        return set(subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout.split())

    assert {"report", "run", "grid"} <= completed("wardround", "r") | completed("wardround", "g")
    assert "--context-tokens" in completed("wardround", "run", "--con")
    assert completed("wardround", "run", "--split", "d") == {"dev"}
