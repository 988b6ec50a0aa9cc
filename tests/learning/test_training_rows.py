"""Rows to train on: which replies are learnt, which calls are left out."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from log_doubles import START, ask, calling, play
from wardround.core import Message, Progress, ToolCall, Usage, UserError
from wardround.learning import (
    BaseWeights,
    DataSettings,
    RowTokenizer,
    SftResult,
    SftSettings,
    TrainingRecipe,
    TrainingRow,
    fine_tune,
    serving_template,
    training_rows,
    without_redundant_calls,
)
from wardround.learning.sft import labels_of, split_by_person
from wardround.log import EpisodeLog, LogReader, ToolRecord, Trajectory, atif_documents
from wardround.models import Reply

KEPT = (START[0], Message(role="user", content="Summary: fine."))


@pytest.fixture
def summarised(tmp_path: Path) -> Trajectory:
    """Three calls, a summary of them, and two calls after it; the last prompt keeps the reply before."""
    with EpisodeLog(tmp_path / "w.sqlite") as log:
        recorder = log.begin("e", {"task": "t", "agent": "resum", "sample": "t-1"})
        history = play(recorder, 3)
        recorder.turn(ask(history, 3), calling(3), purpose="summarise")
        recorder.turn(ask(KEPT, 4), calling(4))
        after = (*KEPT, calling(4).message, Message(role="tool", content="rows", tool_call_id="call_4"))
        recorder.turn(ask(after, 5), calling(5))
        recorder.finish({"finish": "finish", "answer": ["x"]})
    with LogReader(tmp_path / "w.sqlite") as reader:
        return reader.trajectory("e")


def learnt_places(row: TrainingRow) -> list[int]:
    return [place for place, message in enumerate(row.messages) if message.get("weight")]


def test_every_reply_is_learnt_once(summarised: Trajectory) -> None:
    rows = list(training_rows(summarised))
    assert [(row.about["branch"], row.learnt) for row in rows] == [(0, 4), (1, 2)]
    assert sum(row.learnt for row in rows) == len(summarised.turns)
    assert all(row.messages[place]["role"] == "assistant" for row in rows for place in learnt_places(row))


def test_a_reply_that_an_earlier_branch_taught_is_only_context(tmp_path: Path) -> None:
    """The summary's branch holds the three replies before it; so does the branch that goes on without it."""
    with EpisodeLog(tmp_path / "w.sqlite") as log:
        recorder = log.begin("e", {"task": "t"})
        history = play(recorder, 3)
        recorder.turn(ask((*history, Message(role="user", content="Sum up.")), 3), calling(3), purpose="summarise")
        recorder.turn(ask(history, 4), calling(4))
        recorder.finish({"finish": "finish"})
    with LogReader(tmp_path / "w.sqlite") as reader:
        first, second = training_rows(reader.trajectory("e"))
    assert (first.learnt, second.learnt) == (4, 1)
    assert [message["weight"] for message in second.messages if message["role"] == "assistant"] == [0, 0, 0, 1]


def test_only_replies_of_the_wanted_purposes_are_learnt(summarised: Trajectory) -> None:
    (row,) = training_rows(summarised, purposes=("summarise",))
    assert row.learnt == 1
    assert learnt_places(row) == [len(row.messages) - 1]
    assert sum(row.learnt for row in training_rows(summarised, purposes=("act",))) == 5


def test_arguments_are_objects_and_broken_ones_stay_text(tmp_path: Path) -> None:
    calls = (ToolCall(id="a", name="get", arguments='{"n": 1}'), ToolCall(id="b", name="get", arguments='{"n": '))
    message = Message(role="assistant", content=None, tool_calls=calls)
    reply = Reply(message=message, usage=Usage(), finish_reason="tool_calls", model="m", seconds=0.0, attempts=1)
    with EpisodeLog(tmp_path / "w.sqlite") as log:
        recorder = log.begin("e", {})
        recorder.turn(ask(START, 0), reply, [ToolRecord(call=call, result_text="r") for call in calls])
        recorder.finish({"finish": "finish"})
    with LogReader(tmp_path / "w.sqlite") as reader:
        (row,) = training_rows(reader.trajectory("e"))
    given = [call["function"]["arguments"] for call in row.messages[-1]["tool_calls"]]
    assert given == [{"n": 1}, '{"n": ']
    assert TrainingRow.from_json(json.loads(json.dumps(row.to_json()))) == row


def conversation(*steps: tuple[list[tuple[str, dict[str, object]]], list[str]]) -> TrainingRow:
    """A row of replies, each with calls (name, arguments) and the results that they got."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "?"}]
    for calls, results in steps:
        made = [
            {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": given}}
            for number, (name, given) in enumerate(calls)
        ]
        messages.append({"role": "assistant", "content": "", "tool_calls": made, "weight": 1})
        messages += [
            {"role": "tool", "content": text, "tool_call_id": f"c{number}"} for number, text in enumerate(results)
        ]
    return TrainingRow(messages=tuple(messages), tools=(), about={})


LABS = ("get_records", {"table_name": "labevents"})
NOTES = ("get_records", {"table_name": "discharge"})


def test_a_call_asked_again_with_the_same_result_goes_and_its_reply_with_it() -> None:
    row = conversation(([LABS], ["rows"]), ([LABS], ["rows"]), ([NOTES], ["rows"]))
    shorter, left_out = without_redundant_calls(row)
    assert left_out == 1
    assert [message["role"] for message in shorter.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert shorter.messages[3]["tool_calls"][0]["function"]["arguments"] == NOTES[1]


def test_a_reply_keeps_its_other_calls_and_their_results() -> None:
    row = conversation(([LABS], ["rows"]), ([LABS, NOTES], ["rows", "text"]))
    shorter, left_out = without_redundant_calls(row)
    assert left_out == 1
    assert [message.get("content") for message in shorter.messages] == ["?", "", "rows", "", "text"]
    assert [call["id"] for call in shorter.messages[3]["tool_calls"]] == ["c1"]


@pytest.mark.parametrize(
    "again",
    [([LABS], ["other rows"]), ([("get_latest", LABS[1])], ["rows"])],
    ids=["another result", "another tool"],
)
def test_what_says_something_new_stays(again: tuple[list[tuple[str, dict[str, object]]], list[str]]) -> None:
    row = conversation(([LABS], ["rows"]), again)
    assert without_redundant_calls(row) == (row, 0)


def test_thoughts_are_never_redundant() -> None:
    think = ("think", {"response": "hm"})
    row = conversation(([think], ["noted"]), ([think], ["noted"]))
    assert without_redundant_calls(row) == (row, 0)


def test_atif_documents_are_valid_and_mark_what_was_copied(summarised: Trajectory) -> None:
    atif = pytest.importorskip("atif", reason="needs atif, which validates")
    first, second = atif_documents(summarised, version="0.1")
    for document in (first, second):
        atif.Trajectory.model_validate(document)
    assert [step.get("is_copied_context") for step in second["steps"] if step["source"] == "agent"] == [None, None]
    assert (first["session_id"], first["trajectory_id"], second["trajectory_id"]) == ("e", "e#0", "e#1")
    calls = [step for step in first["steps"] if "observation" in step]
    assert [one["observation"]["results"][0]["source_call_id"] for one in calls] == [
        one["tool_calls"][0]["tool_call_id"] for one in calls
    ]
    assert first["final_metrics"]["total_prompt_tokens"] == sum(
        turn.usage.input_tokens for turn in summarised.turns[:4]
    )


def test_atif_marks_replies_told_on_an_earlier_branch(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path / "w.sqlite") as log:
        recorder = log.begin("e", {"task": "t"})
        history = play(recorder, 2)
        recorder.turn(ask((*history, Message(role="user", content="Sum up.")), 2), calling(2), purpose="summarise")
        recorder.turn(ask(history, 3), calling(3))
        recorder.finish({"finish": "finish"})
    with LogReader(tmp_path / "w.sqlite") as reader:
        _, second = atif_documents(reader.trajectory("e"), version="0.1")
    agent = [step for step in second["steps"] if step["source"] == "agent"]
    assert [step.get("is_copied_context", False) for step in agent] == [True, True, False]


class Marks:
    """A tokenizer that reads a row as a token a message, and says of some that the assistant wrote them."""

    def __init__(self, *marked: int) -> None:
        self._marked = marked

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        marks = [int(place in self._marked) for place in range(len(conversation))]
        return {"input_ids": [list(range(100, 100 + len(marks)))], "assistant_masks": [marks]}


class Weights:
    """Weights that are never read; the tokenizer counts messages."""

    path = Path("nothing")

    def tokenizer(self) -> Any:
        return Marks(1)

    def model(self) -> Any:
        raise AssertionError("nothing is to be learnt")


ROW = TrainingRow(
    messages=(
        {"role": "user", "content": "What is wrong?"},
        {"role": "assistant", "content": "Sepsis.", "weight": 1},
        {"role": "user", "content": "Thanks."},
    ),
    tools=(),
    about={},
)


def test_what_the_loss_is_taken_over_is_what_the_assistant_wrote() -> None:
    assert labels_of(RowTokenizer(tokenizer=Marks(1), template="").encode(ROW)) == [-100, 101, -100]


def test_a_row_of_which_nothing_would_be_learnt_is_refused() -> None:
    with pytest.raises(UserError, match="marks no token as an assistant's"):
        RowTokenizer(tokenizer=Marks(), template="").encode(ROW)


def test_a_training_that_learns_from_nothing_is_refused_before_it_begins(tmp_path: Path) -> None:
    """Every row is longer than the recipe's most."""
    recipe = TrainingRecipe(data=DataSettings(max_tokens=2))
    with pytest.raises(UserError, match="none of 2 rows holds anything to learn within 2 tokens"):
        fine_tune(cast(BaseWeights, Weights()), [ROW, ROW], "", recipe, tmp_path / "out")
    assert not list((tmp_path / "out").glob("model*"))


def test_a_training_goes_on_only_as_it_was_begun(tmp_path: Path) -> None:
    out, recipe = tmp_path / "out", TrainingRecipe(data=DataSettings(max_tokens=2))

    def refused(rows: list[TrainingRow], recipe: TrainingRecipe, *, resume: bool) -> str:
        with pytest.raises(UserError) as error:
            fine_tune(cast(BaseWeights, Weights()), rows, "", recipe, out, resume=resume)
        return str(error.value)

    assert refused([ROW], recipe, resume=True) == f"no training was begun in {str(out)!r}"
    assert refused([ROW], recipe, resume=False).startswith("none of 1 rows")
    assert "go on with --resume" in refused([ROW], recipe, resume=False)
    assert refused([ROW], recipe, resume=True).startswith("none of 1 rows"), "the same goes on"
    other = replace(recipe, data=DataSettings(max_tokens=1))
    assert "begun with another recipe; give the same" in refused([ROW], other, resume=True)
    assert "begun with another rows_sha256; give the same" in refused([ROW, ROW], recipe, resume=True)


def of_person(person: int | None, **about: Any) -> TrainingRow:
    return TrainingRow(messages=ROW.messages, tools=(), about={"subject_id": person, **about})


def test_validation_rows_are_of_people_who_teach_nothing() -> None:
    rows = [of_person(number % 10, row=number) for number in range(40)] + [of_person(None)]
    teaching, validating = split_by_person(rows, 0.2, seed=1)
    taught, measured = ({row.about["subject_id"] for row in part} for part in (teaching, validating))
    assert (len(teaching), len(validating)) == (33, 8)
    assert not taught & measured
    assert None in taught
    assert validating == split_by_person(rows[::-1], 0.2, seed=1)[1][::-1]
    assert measured != {row.about["subject_id"] for row in split_by_person(rows, 0.2, seed=2)[1]}


@pytest.mark.parametrize(("people", "share", "kept"), [(1, 0.5, 0), (2, 0.1, 1), (30, 0.0, 0), (30, 0.1, 3)])
def test_the_only_person_teaches(people: int, share: float, kept: int) -> None:
    assert len(split_by_person([of_person(one) for one in range(people)], share, seed=0)[1]) == kept


def test_rows_with_pictures_are_left_out_of_training_on_text(tmp_path: Path) -> None:
    shown = replace(ROW, messages=({**ROW.messages[0], "pictures": [{"sha256": "a"}]}, *ROW.messages[1:]))
    with pytest.raises(
        UserError, match="none of 1 rows holds anything to learn within 52000 tokens; 1 with pictures left out"
    ):
        fine_tune(cast(BaseWeights, Weights()), [shown], "", TrainingRecipe(), tmp_path / "out")


def test_a_training_says_what_was_read_and_learnt_and_what_was_left_out() -> None:
    done = SftResult(
        rows=1_200,
        rows_dropped=0,
        rows_with_pictures=0,
        validation_rows=0,
        tokens=20_000,
        learnt_tokens=3_000,
        updates=38,
        losses=(2.0, 1.5, 0.25),
        validation_losses=(),
    )
    head, last = "38 updates over 1,200 rows, 3,000 of 20,000 tokens learnt", "loss 2.000 at first, 0.250 at last"
    nobody = "validation: none (rows of one person alone, or sft.validation_share=0)"
    assert done.as_text().splitlines() == [head, nobody, last]
    more = replace(done, rows_dropped=7, rows_with_pictures=5, validation_rows=90, validation_losses=(3.0, 2.5, 2.25))
    assert more.as_text().splitlines() == [
        head,
        "dropped: 7 rows too long",
        "left out: 5 rows with pictures, because training reads text alone",
        "validation: loss 3.000 at first, 2.250 at last, 90 rows of other people",
        last,
    ]


class Trained(Marks):
    """The weights, the tokenizer and the model at once: what is saved of them is a file."""

    path, is_gguf, chat_template = Path("nothing"), False, ""

    def tokenizer(self) -> Any:
        return self

    def model(self) -> Any:
        return SimpleNamespace(save_pretrained=self._save_model)

    def save_pretrained(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "template").write_text(self.chat_template)

    def _save_model(self, folder: Path, *, safe_serialization: bool) -> None:
        (folder / f"weights.{'safetensors' if safe_serialization else 'bin'}").write_text("trained")


class Trainer:
    """Stands for trl's: two updates, the loss of each, and that of the validation rows before and after."""

    def __init__(self, *, model: Any, args: Any, train_dataset: Any, eval_dataset: Any, processing_class: Any) -> None:
        self.model, self.taught, self.measured = model, train_dataset, eval_dataset
        self.state = SimpleNamespace(global_step=0, max_steps=2, log_history=[{"eval_loss": 3.0}])
        self.callbacks: list[Any] = []
        trainers.append(self)

    def add_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def train(self, *, resume_from_checkpoint: bool) -> None:
        assert not resume_from_checkpoint
        for loss in (2.0, 1.0):
            self.state.global_step += 1
            self.state.log_history.append({"loss": loss})
            for callback in self.callbacks:
                callback.on_step_end(None, self.state, None)
        self.state.log_history.append({"eval_loss": 2.5})


trainers: list[Trainer] = []


def test_a_training_teaches_validates_reports_and_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five people with two rows each, one of whom is kept apart; a row too long and one with a picture."""
    trainers.clear()
    for name, module in {
        "trl": SimpleNamespace(SFTConfig=SimpleNamespace, SFTTrainer=Trainer),
        "datasets": SimpleNamespace(Dataset=SimpleNamespace(from_list=list)),
        "torch": SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)),
        "transformers": SimpleNamespace(TrainerCallback=object),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    long = replace(ROW, messages=(*ROW.messages, ROW.messages[0]))
    shown = replace(ROW, messages=({**ROW.messages[0], "pictures": [{"sha256": "a"}]}, *ROW.messages[1:]))
    rows = [*(of_person(number % 5) for number in range(10)), long, shown]
    recipe = TrainingRecipe(data=DataSettings(max_tokens=3), sft=SftSettings(validation_share=0.2))
    told: list[Progress] = []
    base = cast(BaseWeights, Trained(1))
    done = fine_tune(base, rows, "{{ messages }}", recipe, tmp_path / "out", report=told.append)
    assert done == SftResult(
        rows=8,
        rows_dropped=1,
        rows_with_pictures=1,
        validation_rows=2,
        tokens=24,
        learnt_tokens=8,
        updates=2,
        losses=(2.0, 1.0),
        validation_losses=(3.0, 2.5),
    )
    (trainer,) = trainers
    assert (len(trainer.taught), len(trainer.measured)) == (8, 2)
    assert trainer.taught[0] == {"input_ids": [100, 101, 102], "labels": [-100, 101, -100]}
    assert [(one.label, one.done, one.total, one.unit) for one in told] == [
        ("training", 1, 2, "updates"),
        ("training", 2, 2, "updates"),
    ]
    saved = {path.name: path.read_text() for path in (tmp_path / "out" / "model").iterdir()}
    assert saved == {"template": serving_template("{{ messages }}"), "weights.safetensors": "trained"}
    written = json.loads((tmp_path / "out" / "training.json").read_text())["done"]
    assert (written["rows"], written["rows_dropped"], written["losses"]) == (8, 1, [2.0, 1.0])
