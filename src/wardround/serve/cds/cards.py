"""Cards of a finished run: an answer with its evidence and the moment of its chart. Targets and scores are not read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import numpy as np

from wardround.clinical.codes import LabelSet
from wardround.core import UserError, format_time, unknown
from wardround.log import LogReader, Outline
from wardround.records import Chart
from wardround.reports.standing import row_text
from wardround.runs import EpisodeKey, RunFolder, open_benchmark, open_store
from wardround.tasks.benchmarks import Sample, Task, get_task

NOTICE = "research, not for care"
SUMMARY_LENGTH = 139
"""Characters: CDS Hooks asks for fewer than 140."""
MOST_ROWS = 40
_MARKUP = re.compile(r"[\\`*_\[\]<>&~#|!@]|:(?=//)|(?<=www)\.|^[-+=]|(?<=\d)[.)](?=\s|$)", re.IGNORECASE)
_NAMESPACE = UUID("6f1d7c1e-54a9-4e35-9b7f-2f3d8f0a9c11")
_REASONS = {
    "wrong": "The answer is wrong",
    "unsupported": "The evidence does not support it",
    "known": "Nothing new",
    "not-now": "Not useful at this moment",
}
REASON_SYSTEM = "urn:wardround:override-reasons"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCard:
    """One answer of a run as a card. ``encounter``: that of the latest row on the chart; ``labels``: allowed
    answers."""

    uuid: UUID
    subject_id: int
    sample: str
    task: Task
    as_of: str
    encounter: str | None
    answer: tuple[str, ...]
    labels: LabelSet | None
    detail: str
    source: str

    def body(self, summary: str | None = None) -> dict[str, Any]:
        """Return the card as JSON; a hook may have a summary of its own."""
        return {
            "uuid": str(self.uuid),
            "summary": summary or short_summary(self.task.title, self.names, self.as_of),
            "detail": self.detail,
            "indicator": "info",
            "source": {"label": self.source},
            "overrideReasons": [
                {"code": code, "system": REASON_SYSTEM, "display": display} for code, display in _REASONS.items()
            ],
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The answer in words: classes by their meaning."""
        return answer_words(self.task, self.answer)

    def order_summary(self, orders: Sequence[str]) -> str | None:
        """Return whether the answer names selected orders. None: the task does not ask about any of them."""
        known = [] if self.labels is None else [self.labels.resolve(order) for order in orders]
        named = [one for one in dict.fromkeys(known) if one is not None]
        if not named:
            return None
        held = [one for one in named if one in self.answer]
        head = f"{self.task.title}, selected order {'in' if held else 'not in'} the answer"
        return short_summary(head, held or named, self.as_of)


def short_summary(head: str, names: Sequence[str], as_of: str) -> str:
    """Return an answer in one sentence of at most SUMMARY_LENGTH characters; names that do not fit are counted."""
    tail = f" (as of {as_of}; {NOTICE})"
    listed = ""
    for number in range(len(names), 0, -1):
        left = len(names) - number
        listed = ", ".join(_plain(name) for name in names[:number]) + (f" and {left} more" if left else "")
        if len(head) + 2 + len(listed) + len(tail) <= SUMMARY_LENGTH:
            return f"{head}: {listed}{tail}"
    room = SUMMARY_LENGTH - len(tail)
    summary = f"{head}: {listed}"
    return f"{summary[: room - 1]}…{tail}"


def prepare_cards(folder: RunFolder, *, agent: str | None = None, model: str | None = None) -> tuple[PreparedCard, ...]:
    """Return a card for each answered sample of one contender, by sample. UserError: there are several contenders, or
    not the requested one."""
    benchmark, store = open_benchmark(folder), open_store(folder)
    samples = {sample.id: sample for sample in benchmark.all_samples}
    labels = {task.name: benchmark.labels(task) for task in benchmark.tasks}
    unchecked = _unchecked(folder)
    cards = []
    for key, outline in _chosen(folder, agent, model):
        sample, answer = samples[key.sample], (outline.outcome or {}).get("answer")
        if answer and not sample.is_text_case:
            chart = sample.chart(store, benchmark.policy)
            notes = unchecked.get(outline.episode, ())
            cards.append(_card(folder, key, outline, sample, chart=chart, labels=labels[key.task], unchecked=notes))
    return tuple(cards)


def _unchecked(folder: RunFolder) -> Mapping[str, tuple[str, ...]]:
    """Return by episode what its code checks could not judge, each once."""
    found: dict[str, dict[str, None]] = {}
    with LogReader(folder.logs, may_be_empty=True) as reader:
        for episode, note in reader.notes("step"):
            found.setdefault(episode, {}).update(dict.fromkeys(note.get("audit", {}).get("unchecked", ())))
    return {episode: tuple(notes) for episode, notes in found.items()}


def _chosen(folder: RunFolder, agent: str | None, model: str | None) -> Iterator[tuple[EpisodeKey, Outline]]:
    """Return the first finished episode of each sample, of the requested contender."""
    with LogReader(folder.logs, may_be_empty=True) as reader:
        found = [(EpisodeKey.parse(outline.episode), outline) for outline in reader.outlines()]
    contenders = sorted({(key.agent, key.model) for key, _ in found})
    fitting = [contender for contender in contenders if agent in (None, contender[0]) and model in (None, contender[1])]
    if contenders and not fitting:
        said = " · ".join(one for one in (agent, model) if one is not None)
        raise UserError(unknown("contender", said, [" · ".join(contender) for contender in contenders]))
    if len(fitting) > 1:
        several = ", ".join(" · ".join(one) for one in fitting)
        raise UserError(f"{str(folder.path)!r} has several contenders ({several}); choose one with --agent and --model")
    first: dict[tuple[str, str], tuple[EpisodeKey, Outline]] = {}
    for key, outline in sorted(found, key=lambda one: one[0].epoch):
        if (key.agent, key.model) in fitting:
            first.setdefault((key.task, key.sample), (key, outline))
    yield from (first[name] for name in sorted(first))


def _card(
    folder: RunFolder,
    key: EpisodeKey,
    outline: Outline,
    sample: Sample,
    *,
    chart: Chart,
    labels: LabelSet | None,
    unchecked: Sequence[str],
) -> PreparedCard:
    outcome = outline.outcome or {}
    task, moment = get_task(sample.task), format_time(sample.moment)
    return PreparedCard(
        uuid=uuid5(_NAMESPACE, f"{folder.manifest['settings_sha256']}|{outline.episode}"),
        subject_id=sample.subject_id,
        sample=sample.id,
        task=task,
        as_of=moment,
        encounter=latest_encounter(chart),
        answer=tuple(outcome["answer"]),
        labels=labels,
        detail="\n".join(
            [*_detail(f"{key.agent} · {key.model}", task, moment, outcome, chart), *_not_checked(unchecked)]
        ),
        source=f"wardround, run {folder.path.resolve().name} ({NOTICE})",
    )


def _detail(who: str, task: Task, moment: str, outcome: Mapping[str, Any], chart: Chart) -> Iterator[str]:
    """Return Markdown: the answer, and below each of its names the rows that it cites, as they were then."""
    yield f"**{NOTICE.capitalize()}.** {_escaped(task.title)}, by {_escaped(who)}, as of {_escaped(moment)}."
    yield ""
    citations: Sequence[Mapping[str, Any]] = outcome.get("citations", ())[:MOST_ROWS]
    cited = {citation["row_id"] for citation in citations}
    rows = {event.row_id: row_text(event) for event in chart.events() if event.row_id in cited} if cited else {}
    for name, words in zip(outcome["answer"], answer_words(task, outcome["answer"]), strict=True):
        yield f"- {_escaped(words)}"
        for citation in citations:
            if citation["answer"] == name:
                row = rows.get(citation["row_id"], "not on the chart at that time")
                yield f"  - {_escaped(citation['row_id'])}: {_escaped(row)} {_escaped(_standing(citation))}"


def _not_checked(unchecked: Sequence[str]) -> Iterator[str]:
    """Return Markdown: the drugs and allergies that no table could judge; a missing check is not an approval."""
    if unchecked:
        yield ""
        yield "**Not checked**, because no table has them:"
        yield from (f"- {_escaped(note)}" for note in unchecked[:MOST_ROWS])
        if len(unchecked) > MOST_ROWS:
            yield f"- and {len(unchecked) - MOST_ROWS} more"


def _standing(citation: Mapping[str, Any]) -> str:
    if not citation["exists"] or not citation["read"]:
        return "(cited without having been read)"
    return "(supports it)" if citation["supports"] else "(not seen to support it)"


def latest_encounter(chart: Chart) -> str | None:
    """Return the encounter of the latest row on a chart. None: no row names one."""
    latest: tuple[int, str] | None = None
    for name in chart.table_names:
        table = chart.table(name)
        if table.spec.encounter is None or table.spec.is_static or not len(table.event_time):
            continue
        times = table.event_time.astype("int64")
        names = table.batch.column(table.spec.encounter)
        held = np.asarray(names.is_valid())
        if held.any():
            place = int(np.where(held, times, np.iinfo(np.int64).min).argmax())
            here = (int(times[place]), str(names[place].as_py()))
            latest = here if latest is None else max(latest, here)
    return None if latest is None else latest[1]


def answer_words(task: Task, answer: Sequence[str]) -> tuple[str, ...]:
    """Return the names of an answer; classes by their meaning."""
    return tuple(task.answer.class_names.get(name, name) for name in answer)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _escaped(text: str) -> str:
    """Escape a text of a model or a record, so that it cannot contain a link, a picture or HTML."""
    return _MARKUP.sub(r"\\\g<0>", _plain(text))
