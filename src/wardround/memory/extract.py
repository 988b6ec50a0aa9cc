"""Extract experiences from an episode with a model, and parse what it wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from wardround.core import FormatError, Message, PromptFile, UserError, estimate_tokens, load_prompt, without_thinking
from wardround.log import ToolRecord
from wardround.memory.experience import Experience, Kind, Provenance
from wardround.memory.material import Count, Material, reduced_trajectory
from wardround.models import Model, ModelSettings, Reply, Request, read_value

# Reading the items a model wrote: Markdown or JSON, fenced or bare, labels in any dress. Nothing is ever evaluated.


MAXIMUM_ITEMS = 10
_LONGEST = {"title": 200, "description": 600, "content": 2_000}
_LONGEST_TEXT = 200_000
_LISTS = ("items", "memory_items", "experiences", "memories")
_NONE = re.compile(r"\W*none\W*", re.IGNORECASE)
_DRESS = r"[ \t>#*_`\-•]*"
_FIELD = re.compile(
    rf"^(?P<lead>{_DRESS})(?:\d+[.)][ \t]*)?[*_`]*(?P<name>title|description|content)"
    r"[ \t*_`]*(?P<colon>[:：]?)[ \t*_`]*(?P<rest>.*)$",
    re.IGNORECASE,
)
_ITEM = re.compile(
    rf"^{_DRESS}(?:memory[ \t]+)?(?:item|experience|lesson)[ \t]*(?:\d+|i)?{_DRESS}[:.]?[ \t*_]*$", re.IGNORECASE
)
_OBJECTS = {"type": "array", "items": {"type": "object"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedItem:
    """One item: a title, when it applies, what to do."""

    title: str
    description: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedItems:
    """The content of a reply. ``problems`` lists what was dropped or shortened, and why."""

    items: tuple[ParsedItem, ...]
    problems: tuple[str, ...] = ()


def parse_experiences(text: str, *, maximum: int = MAXIMUM_ITEMS) -> ParsedItems:
    """Read up to ``maximum`` items. A reply of NONE is valid and has no item.

    Raises FormatError, with the correction to send, if no item is usable.
    """
    plain = without_thinking(text[:_LONGEST_TEXT]).strip()
    if _NONE.fullmatch(plain):
        return ParsedItems(items=())
    drafts = _from_json(plain) or list(_from_markdown(plain.splitlines()))
    items, problems = _usable(drafts, maximum)
    if not items:
        problem = "; ".join(problems[:3]) or "there is no item with a title and a content in it"
        raise FormatError(f"no experience could be read: {problem}", correction=correction(problem, maximum))
    return ParsedItems(items=items, problems=problems)


def item_format(maximum: int) -> str:
    """Return the paragraph that explains to a model how to write items."""
    return load_prompt("wardround.memory", "item_format").render(maximum=maximum)


def correction(problem: str, maximum: int) -> str:
    """Return the message to a model whose items could not be read."""
    return load_prompt("wardround.memory", "correction").render(problem=problem, item_format=item_format(maximum))


def _from_json(text: str) -> list[Mapping[str, str]]:
    if "{" not in text:
        return []
    listed, problem = read_value(text, _OBJECTS)
    if problem is not None:
        for name in _LISTS:
            schema = {"type": "object", "required": [name], "properties": {name: _OBJECTS}}
            value, problem = read_value(text, schema)
            if problem is None:
                listed = value[name]
                break
    if problem is not None:
        single, problem = read_value(text, {"type": "object", "required": ["title", "content"]})
        listed = [] if problem is not None else [single]
    return [_lowered(entry) for entry in listed]


def _lowered(entry: Mapping[str, Any]) -> dict[str, str]:
    fields = {str(name).strip().casefold(): value for name, value in entry.items()}
    return {name: str(fields.get(name) or "") for name in _LONGEST}


def _from_markdown(lines: Sequence[str]) -> Iterable[Mapping[str, str]]:
    """Follow labelled lines; a line without a label belongs to the field before, or is the title of what follows."""
    draft: dict[str, str] = {}
    current = ""
    loose = ""
    for line in lines:
        if line.strip().startswith("```"):
            continue
        field = _FIELD.match(line)
        labelled = field is not None and (field["colon"] or "#" in field["lead"] or "*" in line or not field["rest"])
        if field is not None and labelled:
            name = field["name"].casefold()
            if name in draft:
                yield draft
                draft = {}
            if name == "description" and "title" not in draft and loose:
                draft["title"] = loose
            current, loose = name, ""
            draft[name] = field["rest"]
        elif _ITEM.match(line):
            if draft:
                yield draft
            draft, current, loose = {}, "", ""
        elif not line.strip():
            loose = ""
            current = "" if current == "content" and draft.get("content") else current
        elif current:
            draft[current] = f"{draft[current]} {line.strip()}"
        else:
            loose = line.strip(" \t#*_`-•.0123456789)")
    if draft:
        yield draft


def _usable(drafts: Iterable[Mapping[str, str]], maximum: int) -> tuple[tuple[ParsedItem, ...], tuple[str, ...]]:
    items: list[ParsedItem] = []
    problems: list[str] = []
    titles: set[str] = set()
    for number, draft in enumerate(drafts, start=1):
        fields = {name: _clean(draft.get(name, "")) for name in _LONGEST}
        missing = [name for name in ("title", "content") if not fields[name]]
        if missing:
            problems.append(f"item {number} has no {' and no '.join(missing)}")
        elif fields["title"].casefold() in titles:
            problems.append(f"item {number} repeats a title")
        elif len(items) == maximum:
            problems.append(f"item {number} is beyond the {maximum} that are taken")
        else:
            titles.add(fields["title"].casefold())
            long = [name for name, limit in _LONGEST.items() if len(fields[name]) > limit]
            problems += [f"the {name} of item {number} was cut at {_LONGEST[name]} characters" for name in long]
            items.append(ParsedItem(**{name: fields[name][:limit].strip() for name, limit in _LONGEST.items()}))
    return tuple(items), tuple(problems)


def _clean(text: str) -> str:
    """Return a text on one line, without control characters and surrounding markup."""
    printable = "".join(mark if mark.isprintable() else " " for mark in text)
    return " ".join(printable.split()).strip("*_` <>").strip()


# Drawing experiences from an episode by asking a model (RetroSum eq. 6-7, ReasoningBank, ReflecTool).
#
# Every call goes through an ``Asker``, which records it. A model that writes nothing usable, even after one correction,
# gives no experience and a named problem: never an error, never silence.


REFLECTION_PROMPTS = (
    "actor",
    "correction",
    "item_format",
    "judge",
    "reasoning_failure",
    "reasoning_success",
    "summariser",
    "tool_advice",
)
REFLECTION_SETTINGS = ModelSettings(temperature=0.0, top_p=None, max_output_tokens=2048)
MAXIMUM_REASONING_ITEMS = 3
MAXIMUM_TOOL_ITEMS = 2
_MESSAGE_TOKENS = 16
_VERDICT = re.compile(r"verdict[\s*_`]*[:：]?[\s*_`]*(success|failure)", re.IGNORECASE)
_LEAST_TRAJECTORY_TOKENS = 64


class Asker(Protocol):
    """A caller of the model that records its calls."""

    async def ask(self, messages: Sequence[Message], *, purpose: str, schema: Mapping[str, Any] | None = None) -> Reply:
        """Ask without tools, record the call under ``purpose``, return the reply, bound to ``schema`` by endpoints that
        bind replies."""
        ...

    def note(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Record a decision."""
        ...


class _Recorder(Protocol):
    def turn(
        self, request: Request, reply: Reply, results: Sequence[ToolRecord] = (), *, purpose: str = "act"
    ) -> None: ...
    def note(self, kind: str, detail: Mapping[str, Any]) -> None: ...


@dataclass(slots=True, kw_only=True)
class ModelAsker:
    """Asks a model in the name of an episode of its own. ``ordinal`` is that of its next call."""

    model: Model
    recorder: _Recorder
    episode: str
    settings: ModelSettings = REFLECTION_SETTINGS
    ordinal: int = 0

    async def ask(self, messages: Sequence[Message], *, purpose: str, schema: Mapping[str, Any] | None = None) -> Reply:
        """Ask and record. Raises ProviderError."""
        request = Request(
            messages=tuple(messages),
            settings=self.settings,
            response_schema=schema,
            episode=self.episode,
            ordinal=self.ordinal,
        )
        self.ordinal += 1
        reply = await self.model.complete(request)
        self.recorder.turn(request, reply, (), purpose=purpose)
        return reply

    def note(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Record a decision."""
        self.recorder.note(kind, detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What came of one reflection. ``problem`` is set where nothing usable came."""

    experiences: tuple[Experience, ...]
    problem: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many tokens a reflection prompt may take, and how they are counted."""

    context_tokens: int = 64_000
    reply_tokens: int = 2_048
    count: Count = estimate_tokens


async def extract_experiences(
    asker: Asker,
    material: Material,
    *,
    kind: Literal["actor", "summariser"],
    provenance: Provenance,
    maximum: int = MAXIMUM_ITEMS,
    room: Room = Room(),
) -> Extraction:
    """Draw actor (eq. 6) or summariser (eq. 7) experiences. Raises UserError without a target: both compare with it."""
    if material.target is None:
        raise UserError(f"{kind} experiences compare with the right answer; this episode has none")
    values = {"target": _listed(material.target)}
    if kind == "summariser":
        values["summary"] = material.summary or "(none was written)"
    return await _reflect(
        asker, material, kind, template=kind, provenance=provenance, maximum=maximum, room=room, values=values
    )


async def judge_success(asker: Asker, material: Material, *, room: Room = Room()) -> bool | None:
    """Ask whether an answer is likely right, without the right answer; None when the reply holds no verdict."""
    text = _filled(asker, material, _prompt("judge"), room, {})
    reply = await asker.ask([Message(role="user", content=text)], purpose="judge")
    verdicts = _VERDICT.findall(without_thinking(reply.message.content or ""))
    if not verdicts:
        asker.note("judge_unreadable", {"reply": (reply.message.content or "")[:200]})
        return None
    return bool(verdicts[-1].casefold() == "success")


async def extract_reasoning(
    asker: Asker,
    material: Material,
    *,
    provenance: Provenance,
    maximum: int = MAXIMUM_REASONING_ITEMS,
    room: Room = Room(),
) -> Extraction:
    """ReasoningBank: judge the episode without its target, then draw items for a success or for a failure.

    An unreadable verdict counts as a failure, which asks for the more careful kind of item.
    """
    judged = await judge_success(asker, material, room=room)
    template = "reasoning_success" if judged else "reasoning_failure"
    blind = replace(material, target=None, score=None)
    found = await _reflect(
        asker, blind, "reasoning", template=template, provenance=provenance, maximum=maximum, room=room, values={}
    )
    facts = {"judged": "unreadable" if judged is None else "success" if judged else "failure"}
    return replace(
        found,
        experiences=tuple(
            replace(experience, facts={**experience.facts, **facts}, id="") for experience in found.experiences
        ),
        facts={**found.facts, **facts},
    )


async def extract_tool_advice(
    asker: Asker,
    material: Material,
    *,
    tool: str,
    provenance: Provenance,
    known: Sequence[Experience] = (),
    maximum: int = MAXIMUM_TOOL_ITEMS,
    room: Room = Room(),
) -> Extraction:
    """ReflecTool: advice on one tool, from its calls in one episode.

    Advice is never merged across episodes: a merged text would have no subject to withhold it by.
    """
    if material.target is None:
        raise UserError("tool advice compares with the right answer; this episode has none")
    only = replace(material, messages=_calls_of(material.messages, tool))
    if not only.messages:
        return Extraction(experiences=(), problem=f"{tool} was not called", facts={"tool": tool})
    values = {
        "tool": tool,
        "target": _listed(material.target),
        "known": [f"{advice.title}. {advice.content}" for advice in known],
    }
    return await _reflect(
        asker,
        only,
        "tool",
        template="tool_advice",
        provenance=provenance,
        maximum=maximum,
        room=room,
        values=values,
        tool=tool,
    )


async def _reflect(
    asker: Asker,
    material: Material,
    kind: Kind,
    *,
    template: str,
    provenance: Provenance,
    maximum: int,
    room: Room,
    values: Mapping[str, Any],
    tool: str = "",
) -> Extraction:
    prompt = _prompt(template)
    text = _filled(asker, material, prompt, room, {**values, "item_format": item_format(maximum)})
    parsed, model = await _items(asker, text, f"reflect_{kind}", maximum)
    if isinstance(parsed, FormatError):
        asker.note("reflection_failed", {"kind": kind, "tool": tool, "problem": str(parsed)})
        return Extraction(experiences=(), problem=str(parsed), facts={"kind": kind})
    if parsed.problems:
        asker.note("reflection_items", {"kind": kind, "problems": list(parsed.problems)})
    prompts = {prompt.name: prompt.sha256, _prompt("item_format").name: _prompt("item_format").sha256}
    origin = replace(provenance, model=provenance.model or model, prompts={**provenance.prompts, **prompts})
    made = tuple(as_experience(item, kind, material, origin, tool=tool) for item in parsed.items)
    return Extraction(experiences=made, facts={"kind": kind, "problems": list(parsed.problems)})


async def _items(asker: Asker, text: str, purpose: str, maximum: int) -> tuple[ParsedItems | FormatError, str]:
    """Ask; where the reply cannot be read, once more with the correction."""
    messages = [Message(role="user", content=text)]
    reply = await asker.ask(messages, purpose=purpose)
    try:
        return parse_experiences(reply.message.content or "", maximum=maximum), reply.model
    except FormatError as error:
        reply_message = Message(role="assistant", content=reply.message.content or "")
        again = [*messages, reply_message, Message(role="user", content=error.correction)]
    reply = await asker.ask(again, purpose=purpose)
    try:
        return parse_experiences(reply.message.content or "", maximum=maximum), reply.model
    except FormatError as error:
        return error, reply.model


def as_experience(
    item: ParsedItem, kind: Kind, material: Material, provenance: Provenance, *, tool: str = ""
) -> Experience:
    """Return an item as an experience with its origin."""
    return Experience(
        kind=kind,
        title=item.title,
        description=item.description,
        content=item.content,
        task=material.task,
        provenance=provenance,
        score=material.score,
        tool=tool,
    )


def _filled(asker: Asker, material: Material, prompt: PromptFile, room: Room, values: Mapping[str, Any]) -> str:
    """Fill a template; the trajectory takes what room the rest leaves, and what was cut of it is noted."""
    fixed = {"question": material.question, "prediction": _listed(material.prediction), **values}
    frame = room.count(prompt.render(trajectory="", **fixed)) + _MESSAGE_TOKENS
    left = room.context_tokens - room.reply_tokens - frame
    if left < _LEAST_TRAJECTORY_TOKENS:
        raise UserError(f"a context of {room.context_tokens} tokens has no room for {prompt.name}; allow more")
    reduced = reduced_trajectory(material.messages, left, count=room.count)
    if not reduced.is_whole:
        asker.note("reflection_context", {"prompt": prompt.name, **reduced.facts()})
    return prompt.render(trajectory=reduced.text or "(no turn was played)", **fixed)


def _calls_of(messages: Sequence[Message], tool: str) -> tuple[Message, ...]:
    """Return the calls of one tool and their results; leave out other calls of the same replies."""
    kept: list[Message] = []
    wanted: set[str] = set()
    for message in messages:
        if message.role == "assistant":
            calls = tuple(call for call in message.tool_calls if call.name == tool)
            wanted = {call.id for call in calls}
            if calls:
                kept.append(replace(message, tool_calls=calls))
        elif message.role == "tool" and message.tool_call_id in wanted:
            kept.append(message)
    return tuple(kept)


def _listed(answers: Sequence[str] | None) -> str:
    return "\n".join(f"- {answer}" for answer in answers) if answers else "(none)"


def _prompt(name: str) -> PromptFile:
    return load_prompt("wardround.memory", name)
