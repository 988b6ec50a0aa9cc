"""Training rows: what of episodes is learnt, the same as tokens with loss masks, and the chat templates for both."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from wardround.core import LeakError, Picture, UserError, private_folder
from wardround.log import LogReader, Trajectory, conversations
from wardround.runs import RunFolder
from wardround.tasks.benchmarks import Benchmark, Sample
from wardround.tasks.scoring.errors import Call, are_similar

# One training row: a branch of an episode as chat messages with native tool calls, and the weights of its replies.
#
# A reply is learnt once: where a later branch repeats it (a summary replaced the history after it), its weight there is
# 0, as is the weight of every assistant message that no model wrote in this episode.


ALL_PURPOSES: tuple[str, ...] = ()
PICTURES = "pictures"
"""The folder beside exported rows with the images of their messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """A conversation. ``messages`` are of the chat-completions shape, but for the arguments of a call, which are an
    object where the model wrote one; an assistant's message has ``weight`` 1 where it is learnt and 0 where not.

    ``tools`` are the schemas that were offered. ``about`` says where the row comes from: episode, branch, agent, model,
    task, sample, subject, and what its use is bound to.
    """

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    about: Mapping[str, Any]

    @property
    def learnt(self) -> int:
        """The number of messages that are learnt."""
        return sum(message.get("weight", 0) for message in self.messages)

    @property
    def has_pictures(self) -> bool:
        """Whether a message has an image."""
        return any(message.get("pictures") for message in self.messages)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {"messages": list(self.messages), "tools": list(self.tools), "about": dict(self.about)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TrainingRow:
        """Read the output of :meth:`to_json`."""
        return cls(messages=tuple(body["messages"]), tools=tuple(body["tools"]), about=dict(body["about"]))


def training_rows(trajectory: Trajectory, *, purposes: Collection[str] = ALL_PURPOSES) -> Iterator[TrainingRow]:
    """Yield the branches of an episode that hold a reply not learnt from an earlier one.

    ``purposes``: only replies to calls of these purposes (``act``, ``summarise``, ...) are learnt; all where empty.
    """
    purpose_of = {turn.ordinal: turn.purpose for turn in trajectory.turns}
    learnt: set[int] = set()
    for branch in conversations(trajectory):
        turn_at = dict(zip(branch["places"], branch["turns"], strict=True))
        wanted = {place for place, turn in turn_at.items() if not purposes or purpose_of[turn] in purposes}
        new = {place for place in wanted if turn_at[place] not in learnt}
        if not new:
            continue
        learnt.update(turn_at[place] for place in new)
        yield TrainingRow(
            messages=tuple(_message(body, place, new) for place, body in enumerate(branch["messages"])),
            tools=tuple(branch["tools"]),
            about=_about(branch),
        )


def _about(branch: Mapping[str, Any]) -> dict[str, Any]:
    facts = branch["facts"]
    names = ("agent", "task", "sample", "epoch", "subject_id")
    return {
        "episode": branch["episode"],
        "branch": branch["branch"],
        "purpose": branch["purpose"],
        "model": branch["model"],
        **{name: facts[name] for name in names if name in facts},
    }


def _message(body: Mapping[str, Any], place: int, learnt: Collection[int]) -> dict[str, Any]:
    message = {name: value for name, value in body.items() if name != "tool_calls"}
    if body.get("tool_calls"):
        message["tool_calls"] = [_call(call) for call in body["tool_calls"]]
    if body.get("pictures"):
        message["pictures"] = [_picture(picture) for picture in body["pictures"]]
    if body["role"] == "assistant":
        message["weight"] = int(place in learnt)
    return message


def _picture(body: Mapping[str, Any]) -> dict[str, Any]:
    """A reference, with the file that holds the bytes, from the folder of the rows."""
    return {**body, "file": f"{PICTURES}/{Picture.from_wire(body).file_name}"}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call with its arguments as an object for templates; broken JSON stays text."""
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        arguments = function["arguments"]
    if not isinstance(arguments, dict):
        arguments = function["arguments"]
    return {"id": call["id"], "type": "function", "function": {"name": function["name"], "arguments": arguments}}


# Redundant calls repeat an earlier call and get the same result: a model would only learn to repeat from them.
#
# They are left out of a row with their results, as the AgentEHR paper counts them (appendix E: same tool, similarity of
# parameters above 0.95). Similar parameters may be another question, so the result must be the same text, too.


_KEPT = frozenset({"finish", "think"})
"""Tools that do not read the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    call: Call
    result: str


def without_redundant_calls(row: TrainingRow) -> tuple[TrainingRow, int]:
    """Return the row without its redundant calls, and how many those were."""
    redundant = _redundant(row.messages)
    if not redundant:
        return row, 0
    messages = tuple(_without(row.messages, redundant))
    return replace(row, messages=messages), len(redundant)


def _redundant(messages: Iterable[Mapping[str, Any]]) -> set[tuple[int, str]]:
    """Return the redundant calls, by message and call id: ids may repeat in a later message."""
    waiting: dict[str, tuple[int, Call]] = {}
    answered: list[_Answered] = []
    redundant: set[tuple[int, str]] = set()
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            waiting = {one["id"]: (place, _read(one)) for one in message.get("tool_calls", ())}
        elif message["role"] == "tool" and message["tool_call_id"] in waiting:
            made_at, call = waiting.pop(message["tool_call_id"])
            if call.name in _KEPT:
                continue
            this = _Answered(call=call, result=message["content"] or "")
            if any(this.result == earlier.result and are_similar(this.call, earlier.call) for earlier in answered):
                redundant.add((made_at, message["tool_call_id"]))
            else:
                answered.append(this)
    return redundant


def _read(call: Mapping[str, Any]) -> Call:
    arguments = call["function"]["arguments"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    return Call(name=call["function"]["name"], parameters=text)


def _without(messages: Iterable[Mapping[str, Any]], redundant: set[tuple[int, str]]) -> Iterable[Mapping[str, Any]]:
    """Return the messages without the calls; a reply without other calls is removed with its text."""
    made_at = 0
    for place, message in enumerate(messages):
        if message["role"] == "tool" and (made_at, message["tool_call_id"]) in redundant:
            continue
        calls = message.get("tool_calls")
        if not calls:
            yield message
            continue
        made_at = place
        kept = [call for call in calls if (place, call["id"]) not in redundant]
        if kept:
            yield {**message, "tool_calls": kept}


# The images of exported rows, as files beside them: ``pictures/<sha256>.png``, each once.


def pictures_named(row: TrainingRow) -> set[str]:
    """Return the hashes of the images in a row's messages."""
    return {picture["sha256"] for message in row.messages for picture in message.get("pictures", ())}


def write_row_pictures(
    folders: Sequence[RunFolder], episodes: Collection[str], named: Collection[str], out: Path
) -> int:
    """Write the named images of some episodes under ``out``; return how many. Images missing in the log are skipped."""
    waiting = set(named)
    for picture in _pictures(folders, episodes) if waiting else ():
        if picture.sha256 in waiting and picture.data:
            private_folder(out / PICTURES)
            (out / PICTURES / picture.file_name).write_bytes(picture.data)
            waiting.discard(picture.sha256)
    return len(set(named)) - len(waiting)


def _pictures(folders: Sequence[RunFolder], episodes: Collection[str]) -> Iterator[Picture]:
    for folder in folders:
        with LogReader(folder.logs, may_be_empty=True) as reader:
            for entry in reader.episodes():
                if entry.key in episodes:
                    yield from _shown(reader.trajectory(entry.key))


def _shown(trajectory: Trajectory) -> Iterator[Picture]:
    """Return every image in the episode's prompts."""
    for turn in trajectory.turns:
        for message in turn.prompt:
            yield from message.pictures


# The guard of training data: samples and people of an evaluation never teach.


TRAINING: str = "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The samples and people of the non-training splits of some benchmarks."""

    samples: frozenset[str]
    people: frozenset[int]
    benchmarks: tuple[str, ...]

    @classmethod
    def of(cls, benchmarks: Sequence[Benchmark]) -> HeldOut:
        """Collect the samples and people."""
        evaluated = [sample for benchmark in benchmarks for sample in benchmark.all_samples if sample.split != TRAINING]
        return cls(
            samples=frozenset(sample.id for sample in evaluated),
            people=frozenset(sample.person for sample in evaluated),
            benchmarks=tuple(benchmark.name for benchmark in benchmarks),
        )

    def refuse(self, samples: Iterable[Sample]) -> None:
        """Raise LeakError for the first sample of another split or of a held-out person."""
        for sample in samples:
            if sample.split != TRAINING:
                raise LeakError(f"sample {sample.id!r} is of the {sample.split} split: nothing may be trained on it")
            if sample.id in self.samples:
                raise LeakError(f"sample {sample.id!r} is held out by a benchmark it must be kept from")
            if sample.person in self.people:
                raise LeakError(
                    f"sample {sample.id!r} is of a person who is held out ({', '.join(self.benchmarks)}): train on a "
                    "run of another split of people, or leave that benchmark out of --keep-from"
                )


# Rows as tokens: one pass of a tokenizer over the rendered template gives the ids and exactly which are learnt.
#
# The template marks what an assistant writes (``{% generation %}``), so the mask comes from where characters lie, not
# from rendering every prefix again.


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A row's token ids and, beside each, 1 where it is learnt."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]


class ChatTokenizer(Protocol):
    """The interface of a tokenizer of the package transformers."""

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTokenizer:
    """A tokenizer with its chat template."""

    tokenizer: ChatTokenizer
    template: str

    def encode(self, row: TrainingRow) -> TokenRow:
        """Return a row's tokens. Raises UserError where the template marks nothing as learnt, though it should."""
        encoded = self.tokenizer.apply_chat_template(
            [dict(message) for message in row.messages],
            tools=[dict(tool) for tool in row.tools] or None,
            chat_template=self.template,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        ids, mask = _flat(encoded["input_ids"]), _flat(encoded["assistant_masks"])
        if row.learnt and not any(mask):
            raise UserError(
                "the chat template marks no token as an assistant's; it needs {% generation %} around what the model "
                "writes: take --template wardround_compact"
            )
        return TokenRow(ids=ids, mask=mask)


def _flat(values: Sequence[Any]) -> tuple[int, ...]:
    """Return the only row of a batch of one."""
    rows = values[0] if len(values) and isinstance(values[0], Sequence) else values
    return tuple(int(value) for value in rows)


# Chat templates for training, and the same text for serving: servers do not know the training marks.


_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
_VERSION = re.compile(r"\A\{#\s*version:\s*\d+\s*#\}\n")
OURS = ("wardround_compact",)
"""Templates that come with wardround: ``wardround_compact`` lists a tool in one line, for small windows."""


def training_template(name: str) -> str:
    """Return the source of one of our templates by its name, or of a file; UserError where it marks nothing."""
    text = _source(name)
    if not _GENERATION.search(text):
        raise UserError(f"the template {name!r} has no {{% generation %}}: nothing says what the model is to learn")
    return text


def serving_template(text: str) -> str:
    """Return a training template without its marks: the same text of the same messages.

    >>> serving_template("a{%- generation %}b{% endgeneration -%} c")
    'a{%- if true %}b{% endif -%} c'
    """
    return _GENERATION.sub(_as_condition, text)


def _as_condition(mark: re.Match[str]) -> str:
    """A condition that always holds, so that white space is trimmed as it was."""
    return mark.group().replace("endgeneration", "endif").replace("generation", "if true")


def _source(name: str) -> str:
    if name in OURS:
        return _VERSION.sub("", resources.files("wardround.learning").joinpath("prompts", f"{name}.jinja").read_text())
    if not Path(name).is_file():
        raise UserError(f"there is no template {name!r}; ours: {', '.join(OURS)}; or give a file")
    return Path(name).read_text(encoding="utf-8")
