"""The Reflector by a model: what it is asked about, what of its rules counts, and that nothing is asked twice."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, error, text
from forking import commands, kill, wait_for
from wardround.cli import main
from wardround.clinical.protocols import GlobalProtocol, ProtocolRule, RuleIndex, read_protocol
from wardround.core import UserError
from wardround.learning.induction import ReflectionSettings, reflect_by_model
from wardround.learning.induction.inducing import training_stays, training_steps, with_measures
from wardround.learning.induction.model_reflector import MissedDecision, in_turn
from wardround.learning.induction.step_table import StepTable
from wardround.log import LogReader
from wardround.records import Store
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.tasks.benchmarks import Benchmark

_WANTED = re.compile(r"nobody predicted: (.+) \((MEDICATIONS|LABS|PROCEDURES)\)")
Said = dict[str, Any]


class Speaker:
    """Proposes a rule for what was missed, changed as a test says; from some question on it fails, if told to."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget what was asked and how to behave."""
        self.asked: list[str] = []
        self.fails_after = self.waits_after = 10**6
        self.changes: Callable[[Said], Said] = lambda said: said

    def __call__(self, body: Any) -> Answer:
        if len(self.asked) >= self.fails_after:
            return error(400)
        prompt = body["messages"][0]["content"]
        if len(self.asked) >= self.waits_after:
            self.waits_after = 0
            return replace(error(400), seconds=600)
        self.asked.append(prompt)
        found = _WANTED.search(prompt)
        assert found is not None
        name = found[1]
        said = {"error_analysis": "a rule was missing", "category": "routine care", "trigger": "hours since stay >= 0"}
        return text(json.dumps(self.changes({**said, "action": name, "text": f"IF admitted THEN {name}."})))


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Speaker, str]]:
    speaker = Speaker()
    with FakeServer(speaker) as server:
        yield speaker, server.url


@pytest.fixture
def speaker(served: tuple[Speaker, str]) -> Speaker:
    served[0].begin()
    return served[0]


@pytest.fixture(scope="module")
def played(
    served: tuple[Speaker, str],
    synthetic_store_path: Path,
    synthetic_stays_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> RunFolder:
    """Three training stays that predicted nothing: everything was missed."""
    settings = RunSettings.of(
        store=str(synthetic_store_path),
        benchmark=str(synthetic_stays_path),
        agents=["trace"],
        reasoner="code",
        models=["openai/test-model"],
        base_url=served[1],
        split="train",
        limit=3,
    )
    folder = start(tmp_path_factory.mktemp("played") / "run", settings)
    execute(folder)
    assert not served[0].asked, "the roles in code ask nobody"
    return folder


@pytest.fixture
def training(played: RunFolder, tmp_path: Path) -> RunFolder:
    """A copy of that run."""
    shutil.copytree(played.path, tmp_path / "run")
    return RunFolder.open(tmp_path / "run")


def induce(training: RunFolder, out: Path, *more: str) -> list[str]:
    return ["protocol", "induce", str(out), "--reflector", "model", "--run", str(training.path), *more]


def test_each_decision_is_asked_about_once_and_its_rule_counts_at_once(training: RunFolder, speaker: Speaker) -> None:
    found = reflect_by_model(training, ReflectionSettings(calls=6))
    assert (found.calls, found.reflected, len(speaker.asked)) == (6, 6, 6)
    assert found.missed > 100
    wanted = [one[1] for one in map(_WANTED.search, speaker.asked) if one]
    assert len(set(wanted)) == 6, "what a rule made before foretells is not asked about"
    rules = found.protocol.rules
    assert [rule.actions[0].split(" ", 1)[1] for rule in rules] == wanted
    assert {rule.category for rule in rules} == {"ROUTINE_CARE"}
    assert {rule.provenance.origin for rule in rules} == {"reflected"}
    assert all(rule.precision and rule.support for rule in rules), "they are measured on the stays that taught"
    assert found.protocol.induced is not None
    assert found.protocol.induced.stays == 3


def test_what_was_asked_before_a_failure_is_not_asked_again(training: RunFolder, speaker: Speaker) -> None:
    whole = training.path.with_name("undisturbed")
    shutil.copytree(training.path, whole)
    for limit in (2, 5):
        speaker.fails_after = limit
        with pytest.raises(UserError, match="continues where it stopped"):
            reflect_by_model(training, ReflectionSettings(calls=8))
        assert len(speaker.asked) == limit
    speaker.fails_after = 10**6
    resumed = reflect_by_model(training, ReflectionSettings(calls=8))
    assert len(speaker.asked) == len(set(speaker.asked)) == 8
    assert reflect_by_model(training, ReflectionSettings(calls=8)).protocol == resumed.protocol
    assert len(speaker.asked) == 8
    assert reflect_by_model(RunFolder.open(whole), ReflectionSettings(calls=8)).protocol == resumed.protocol


def test_killed_while_it_waits_it_asks_nothing_twice(training: RunFolder, speaker: Speaker, tmp_path: Path) -> None:
    out = tmp_path / "induced.toml"
    words = induce(training, out, "--calls", "6")
    for answered in (2, 4):
        speaker.waits_after = answered
        process = commands().start(words)
        wait_for(lambda: speaker.waits_after == 0, process)
        kill(process)
        assert not out.exists()
    speaker.waits_after = 10**6
    assert main(words) == 0
    assert len(speaker.asked) == len(set(speaker.asked)) == 6
    assert len(read_protocol(out)) == 6


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"text": "IF subject {subject} is admitted THEN act."}, "contains an identifier of the record"),
        ({"trigger": "hours since stay >= 0 AND admitted on 2150-03-01"}, "contains a full date"),
        ({"category": "nurse@ward.org"}, "contains an e-mail address"),
        ({"action": "order Unobtainium"}, "has another action than the missed decision"),
        ({"action": "{another_kind} {action}"}, "has another action than the missed decision"),
        ({"trigger": "hours since stay < 0"}, "its trigger did not hold when the decision was missed"),
        ({"trigger": None}, "no usable reply"),
    ],
)
def test_a_rule_that_must_not_count_is_refused(
    training: RunFolder, speaker: Speaker, synthetic_stays_path: Path, change: Said, why: str
) -> None:
    subjects = {sample.id: str(sample.subject_id) for sample in Benchmark.open(synthetic_stays_path).all_samples}
    with LogReader(training.logs) as reader:
        subject = " or ".join(subjects[entry.facts["sample"]] for entry in reader.episodes())

    def changed(said: Said) -> Said:
        wanted = _WANTED.search(speaker.asked[-1])
        assert wanted is not None
        verb = {"MEDICATIONS": "order", "LABS": "perform", "PROCEDURES": "start"}[wanted[2]]
        words = {"subject": subject, "action": said["action"], "another_kind": verb}
        return said | {name: value and value.format(**words) for name, value in change.items()}

    speaker.changes = changed
    found = reflect_by_model(training, ReflectionSettings(calls=2))
    assert len(found.protocol) == 0
    assert set(found.refused) == {why}


def test_a_trigger_that_no_code_can_judge_is_kept_for_a_models_router(training: RunFolder, speaker: Speaker) -> None:
    speaker.changes = lambda said: said | {"trigger": "the patient looks worse", "category": "prior"}
    (rule,) = reflect_by_model(training, ReflectionSettings(calls=1)).protocol.rules
    assert (rule.precision, rule.support, rule.category) == (None, 0, "PRIOR_RULE")
    assert RuleIndex(GlobalProtocol(name="one", rules=(rule,))).not_compiled


def test_the_command_writes_a_protocol_once(
    training: RunFolder, speaker: Speaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "induced.toml"
    words = induce(training, out, "--calls", "2")
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "2 were asked about in 2 calls" in said
    assert "reflector: 2 calls" in said
    assert len(read_protocol(out)) == 2
    assert main(words) == 2, "a file that is there is not written over"
    assert main([*words[:2], str(tmp_path / "other.toml"), "--reflector", "model"]) == 2


def test_only_training_stays_teach(synthetic_store_path: Path, synthetic_stays_path: Path, tmp_path: Path) -> None:
    settings = RunSettings.of(
        store=str(synthetic_store_path), benchmark=str(synthetic_stays_path), agents=["trace"], split="test"
    )
    with pytest.raises(UserError, match="this run is on 'test'"):
        reflect_by_model(start(tmp_path / "run", settings), ReflectionSettings())


def test_decisions_are_asked_about_in_turn(synthetic_stays_path: Path) -> None:
    """One of each action, the most missed first, then a second of each."""
    sample = Benchmark.open(synthetic_stays_path).all_samples[0]
    actions = ["a", "b", "a", "c", "a", "b"]
    missed = [
        MissedDecision(sample=sample, step=step, action=("LABS", name), predicted=())
        for step, name in enumerate(actions)
    ]
    for seed in (0, 1):
        ordered = in_turn(missed, seed=seed)
        assert [one.action[1] for one in ordered] == ["a", "b", "c", "a", "b", "a"]
        assert Counter(one.step for one in ordered) == Counter(range(6))
    assert len({in_turn(missed, seed=seed)[0].step for seed in range(12)}) > 1, "which of them is drawn"


def test_a_rule_is_measured_where_it_speaks_as_induction_counts_it(
    synthetic_store: Store, synthetic_stays_path: Path
) -> None:
    samples = training_stays(Benchmark.open(synthetic_stays_path), synthetic_store, limit=4, seed=0)
    trigger = "hours since stay >= 2"
    steps = training_steps(synthetic_store, samples, RuleIndex(GlobalProtocol(name="none", rules=())))
    table = StepTable.of(steps, support=1, hits=1)
    row = max((row for row, (kind, _) in enumerate(table.actions) if kind == "LABS"), key=table.rate)
    due = table.due(row)[table.triggers.index(trigger)]
    rule = ProtocolRule(id="R", category="C", trigger=trigger, actions=(f"order {table.actions[row][1]}",))
    (counted,) = with_measures((rule,), synthetic_store, samples)
    assert counted.support == int(due.sum()) > 0
    assert counted.precision == pytest.approx(table.decided[row][due].mean(), abs=1e-4)
