"""The facts of a run for a paper, each as a plain sentence: only what was recorded, nothing guessed.

Checklists and the methods paragraph use these sentences. A fact that the run does not have is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from wardround.agents import AGENTS, AgentName
from wardround.audits import AuditResult
from wardround.core import UserError, format_time
from wardround.log import LogReader
from wardround.log.reader import AnsweringModel
from wardround.reports.answer import answer_of
from wardround.reports.summary import RunSummary
from wardround.runs.folder import RunFolder
from wardround.runs.sources import open_benchmark
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.scoring import EpisodeScore, summarise
from wardround.tasks.scoring.bootstrap import FEWEST_SUBJECTS, RESAMPLES

OFFLINE = "offline"
_MEANS: int = signature(summarise).parameters["resamples"].default
_MOST_PROMPTS = 40
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """A run, its benchmark, its scored episodes and figures, the models that answered, and the audits of its store."""

    folder: RunFolder
    benchmark: Benchmark
    results: Sequence[EpisodeScore]
    summary: RunSummary
    answering: Sequence[AnsweringModel]
    audits: Sequence[AuditResult] = ()

    @classmethod
    def of(
        cls,
        folder: RunFolder,
        results: Sequence[EpisodeScore],
        summary: RunSummary,
        audits: Sequence[AuditResult] = (),
    ) -> RunFacts:
        """Collect the facts of a run. UserError: an audit is of another store than the run's."""
        for audit in audits:
            if audit.store_digest != folder.manifest.get("store_digest"):
                raise UserError(
                    f"the audit of {audit.made} is of another store than the run's, so it does not apply to it"
                )
        with LogReader(folder.logs) as reader:
            answering = reader.answering()
        return cls(
            folder=folder,
            benchmark=open_benchmark(folder),
            results=results,
            summary=summary,
            answering=answering,
            audits=audits,
        )

    def texts(self) -> dict[str, str]:
        """Return the facts by name; unknown ones are left out."""
        found = {name: " ".join(sentences) for name, sentences in self._facts().items()}
        return {name: text for name, text in found.items() if text}

    @property
    def fact_names(self) -> tuple[str, ...]:
        """The names of all facts that a run may have."""
        return tuple(self._facts())

    def _facts(self) -> dict[str, Iterator[str]]:
        return {
            "aim": self._aim(),
            "tasks": self._tasks(),
            "source": self._source(),
            "moments": self._moments(),
            "people": self._people(),
            "flow": self._flow(),
            "split": self._split(),
            "clocks": self._clocks(),
            "audits": self._audits(),
            "models": self._models(),
            "dates": self._dates(),
            "sampling": self._sampling(),
            "adaptation": self._adaptation(),
            "agents": self._agents(),
            "prompts": self._prompts(),
            "input": self._input(),
            "execution": self._execution(),
            "repeats": self._repeats(),
            "outcome": self._outcome(),
            "failures": self._failures(),
            "comparators": self._comparators(),
            "statistics": self._statistics(),
            "subgroups": self._subgroups(),
            "results": iter(answer_of(self.summary)),
            "cost": self._cost(),
            "judge": self._judge(),
            "software": self._software(),
        }

    @property
    def _manifest(self) -> Mapping[str, Any]:
        return self.folder.manifest

    @property
    def _asked(self) -> list[Any]:
        """The samples that were answered."""
        played = {result.sample for result in self.results}
        return [sample for sample in self.benchmark.all_samples if sample.id in played]

    def _aim(self) -> Iterator[str]:
        settings = self.folder.settings
        only_rules = set(settings.run.models) == {OFFLINE}
        what = "a rule-based policy in place of a language model" if only_rules else "language-model agents"
        yield f"The run evaluates {what} on recorded cases; it trains no model."

    def _tasks(self) -> Iterator[str]:
        played = {result.task for result in self.results}
        titles = [f"{task.name} ({task.title})" for task in self.benchmark.tasks if task.name in played]
        paper = self.benchmark.manifest.get("paper")
        origin = f"after {paper}" if paper else "our own"
        yield f"Tasks of the benchmark {self.benchmark.name} ({origin}): {_listed(titles)}."

    def _source(self) -> Iterator[str]:
        digest = self._manifest.get("store_digest")
        store = f" into a store ({_short(digest)})" if digest else ""
        spec = _short(self._manifest["spec_sha256"])
        yield f"Records are from the source {self._manifest['source']}, read by its spec ({spec}){store}."

    def _moments(self) -> Iterator[str]:
        moments = sorted(sample.moment for sample in self._asked if not sample.is_text_case)
        if moments:
            first, last = format_time(moments[0]), format_time(moments[-1])
            yield f"Questions lie between {first} and {last} in the source's own dates, which may be shifted."

    def _people(self) -> Iterator[str]:
        subjects = self.benchmark.manifest.get("subjects") or {}
        parts = [f"{subjects[name]:,} {name}" for name in ("train", "dev", "test") if name in subjects]
        if parts and "total" in subjects:
            yield f"The benchmark has {subjects['total']:,} patients, split by patient: {_listed(parts)}."
        people = len({result.subject_id for result in self.results})
        samples = len({result.sample for result in self.results})
        split = self.folder.settings.run.split
        yield f"{samples:,} samples of {people:,} patients of the {split} split were answered."

    def _flow(self) -> Iterator[str]:
        drops = self.benchmark.manifest.get("drops") or {}
        for task, reasons in drops.items():
            phrases = [f"{count:,} {reason.replace('_', ' ')}" for reason, count in reasons.items() if count]
            if phrases:
                yield f"Left out of {task}: {', '.join(phrases)}."

    def _split(self) -> Iterator[str]:
        manifest = self.benchmark.manifest
        if fractions := manifest.get("fractions"):
            shares = " / ".join(f"{share:g}" for share in fractions)
            yield f"Patients, not samples, are assigned to train, dev and test ({shares}, seed {manifest.get('seed')})."
        bank = self._manifest.get("bank")
        if bank:
            content = _short(bank.get("sha256"))
            yield f"Experiences came from a bank at revision {bank.get('revision')}, content {content}."
        yield from (f"{note}." for note in self.folder.settings.model_notes().values())

    def _clocks(self) -> Iterator[str]:
        if self._manifest["policy"] == "known_at":
            yield (
                "Every table and late cell has a declared time of availability, and an agent could read only what was "
                "available at the moment of the question (clock policy known_at)."
            )
        else:
            yield (
                f"The clock policy is {self._manifest['policy']}: some of what agents could read was not yet known at "
                "the moment of the question."
            )
        yield from (f"{assumption}." for assumption in self._manifest.get("assumptions") or ())

    def _audits(self) -> Iterator[str]:
        for audit in self.audits:
            result = "found nothing" if not audit.findings else f"found {audit.findings:,} leaks"
            yield f"An audit ({', '.join(audit.audits)}) of {audit.samples:,} moments on {audit.made[:10]} {result}."

    def _models(self) -> Iterator[str]:
        for one in self.answering:
            if one.model == OFFLINE or one.identity.startswith(f"{OFFLINE}/"):
                yield f"{OFFLINE}: a rule-based policy of wardround ({one.identity}), not a language model."
            else:
                yield f"{one.model}, {_access(one.identity)}, {one.calls:,} answers."

    def _dates(self) -> Iterator[str]:
        if self.answering:
            first, last = min(one.first for one in self.answering), max(one.last for one in self.answering)
            when = f"on {first[:10]}" if first[:10] == last[:10] else f"from {first[:10]} to {last[:10]}"
            yield f"Models were asked {when} (UTC)."

    def _sampling(self) -> Iterator[str]:
        settings = self.folder.settings
        for name in settings.run.models:
            if name != OFFLINE:
                model = settings.model_named(name)
                known = {
                    "temperature": model.temperature,
                    "top-p": model.top_p,
                    "presence penalty": model.presence_penalty,
                }
                phrases = [f"{what} {value:g}" for what, value in known.items() if value is not None]
                yield (
                    f"{name} was asked with {_listed(phrases)}."
                    if phrases
                    else f"{name} was asked with its own defaults."
                )
        budget = settings.budget
        yield (
            f"An episode has at most {budget.turns:,} turns, {settings.budget_tokens:,} context tokens, replies of "
            f"{budget.reply_tokens:,} and tool results of {budget.result_tokens:,} tokens; the run's seed is "
            f"{settings.run.seed}."
        )

    def _adaptation(self) -> Iterator[str]:
        with_memory = any(agent.get("memory") for agent in self._manifest.get("agents") or ())
        memory = ", retrieved experiences" if with_memory else ""
        yield f"Nothing in the run changes weights; agents differ in prompts, tools, context handling{memory}."

    def _agents(self) -> Iterator[str]:
        for name in self.folder.settings.run.agents:
            method = AgentName.parse(self.folder.settings.spelling(name)).method
            yield f"{name}: {AGENTS.get(method).title}." if method in AGENTS.names else f"{name}."

    def _prompts(self) -> Iterator[str]:
        prompts = self._manifest.get("prompts") or {}
        named = [f"{name} ({_short(sha)})" for name, sha in islice(prompts.items(), _MOST_PROMPTS)]
        if named:
            version = self._manifest["wardround"]
            yield f"Prompt templates, whose texts are files of wardround {version}, by hash: {', '.join(named)}."
        if len(prompts) > _MOST_PROMPTS:
            yield f"{len(prompts) - _MOST_PROMPTS} more stand in the run's manifest."

    def _input(self) -> Iterator[str]:
        if self.folder.settings.is_text_cases:
            yield "Cases are given as text in the first message."
            return
        agents = self._manifest.get("agents") or ()
        reading = [agent["name"] for agent in agents if agent["tools"] == "all"]
        given = [agent["name"] for agent in agents if agent["tools"] != "all"]
        yield "The first message has the task and the moment of the question."
        if reading:
            yield f"{_listed(reading)} read the record as text tables by tool calls."
        if given:
            yield f"{_listed(given)} answer from lines of events that are put into the prompt."

    def _execution(self) -> Iterator[str]:
        yield (
            "Every episode is a conversation of its own, begun anew for each sample, agent and model; every request, "
            "reply and tool result is logged."
        )

    def _repeats(self) -> Iterator[str]:
        epochs = self.folder.settings.run.epochs
        times = "once" if epochs == 1 else f"{epochs} times"
        yield f"Every sample was answered {times} by each agent and model."
        if epochs > 1:
            yield "Scores are averaged over the repetitions of a sample first; Best@K and pass^k stand in the report."
        else:
            yield "How much answers vary between repetitions was not measured."

    def _outcome(self) -> Iterator[str]:
        metrics: dict[str, list[str]] = {}
        for row in self.summary.rows:
            if row.task != "all" and row.task not in metrics.setdefault(row.metric, []):
                metrics[row.metric].append(row.task)
        phrases = [f"{metric} ({', '.join(tasks)})" for metric, tasks in metrics.items()]
        if phrases:
            yield f"Answers are compared with what the record says happened, labels normalised: {_listed(phrases)}."
            yield "The score over all tasks is the mean of the tasks' means."

    def _failures(self) -> Iterator[str]:
        failed = sum(result.finish == "error" for result in self.results)
        missing = sum(result.answer is None for result in self.results)
        episodes = len(self.results)
        yield f"{failed:,} of {episodes:,} episodes ended in an error and {missing:,} gave no answer;"
        yield "both score as an empty answer."
        left = int(self._manifest["episodes"]) - len(self.results)
        if left > 0:
            yield f"{left:,} of {self._manifest['episodes']:,} episodes are not finished and are left out."

    def _comparators(self) -> Iterator[str]:
        baselines = list(dict.fromkeys(row.baseline for row in self.summary.comparisons))
        if baselines:
            yield f"Contenders are compared with {_listed(baselines)} on the same samples."
        if self.summary.card:
            yield (
                "Each is compared with the best trivial baseline of a task (no answer, a constant, the commonest "
                "of training, the last shown, a fit of the moment alone), chosen on the same samples."
            )
        if self.summary.predictors:
            names = list(dict.fromkeys(row.agent for row in self.summary.predictors))
            yield f"Classical predictors were fitted on the training split: {_listed(names)}."

    def _statistics(self) -> Iterator[str]:
        yield (
            f"Intervals are 95 % bootstrap intervals (BCa, {_MEANS:,} resamples; of figures of classes {RESAMPLES:,}) "
            f"that draw whole patients; none is given over fewer than {FEWEST_SUBJECTS}."
        )
        if self.summary.comparisons or self.summary.against_trivial:
            yield (
                "Differences are paired by sample and tested by a two-sided sign-flip permutation test over patients, "
                "corrected by step-down max-T for all contenders and tasks."
            )

    def _subgroups(self) -> Iterator[str]:
        if self.summary.by:
            groups = sorted({row.stratum for row in self.summary.subgroups} - {"all"})
            known = "as recorded by the moment of the question"
            yield f"Results are also given by {self.summary.by}, {known}: {_listed(groups)}."

    def _cost(self) -> Iterator[str]:
        uses = [result.use for result in self.results]
        usages = [use.usage for use in uses]
        known = [usage for usage in usages if usage is not None]
        if uses and len(known) == len(usages):
            read, written = sum(one.input_tokens for one in known), sum(one.output_tokens for one in known)
            yield f"All episodes together took {read:,} input and {written:,} output tokens,"
            yield f"{sum(use.model_seconds for use in uses):,.0f} seconds of models and"
            yield f"{sum(use.tool_seconds for use in uses):,.0f} seconds of tools."
        costs = [use.cost for use in uses]
        if costs and None not in costs:
            yield f"The models' prices make that US$ {sum(cost or 0 for cost in costs):,.2f}."

    def _judge(self) -> Iterator[str]:
        if judge := self.folder.settings.scoring.judge:
            yield f"Answers in words are judged by {judge} (protocol {self.folder.settings.scoring.judge_protocol})."

    def _software(self) -> Iterator[str]:
        manifest = self._manifest
        yield (
            f"wardround {manifest['wardround']}, Python {manifest['python']}; settings "
            f"{_short(manifest['settings_sha256'])}, benchmark {_short(manifest['benchmark_digest'])}."
        )


def _access(identity: str) -> str:
    """Return how a model was called, without the address of its endpoint."""
    _, at, address = identity.partition("@")
    if not at:
        return f"called as {identity}"
    host = urlsplit(address.partition("#")[0]).hostname or ""
    return "over an API on the same machine" if host in _LOOPBACK else "over an API of another machine"


def _short(digest: object) -> str:
    return f"sha256 {str(digest)[:12]}"


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1] if texts else ""


# The methods of a run as a paragraph for a paper, in plain sentences, and how to cite the software.


_PARTS: Mapping[str, tuple[str, ...]] = {
    "Data": ("aim", "source", "tasks", "people", "moments", "split", "clocks", "audits"),
    "Models and agents": ("models", "dates", "agents", "adaptation", "sampling", "input", "execution", "repeats"),
    "Outcomes and statistics": ("outcome", "judge", "failures", "comparators", "statistics", "subgroups"),
    "Software and cost": ("software", "cost"),
}


def methods_text(facts: RunFacts) -> str:
    """Return the methods as Markdown: a paragraph for each part, then the BibTeX entry."""
    known = facts.texts()
    parts = [
        f"**{title}.** " + " ".join(known[name] for name in names if name in known) for title, names in _PARTS.items()
    ]
    return "\n\n".join([*parts, "```bibtex\n" + bibtex(facts) + "\n```"]) + "\n"


def bibtex(facts: RunFacts) -> str:
    """Return the BibTeX entry of the software version used. The papers of methods and data are cited separately."""
    manifest = facts.folder.manifest
    version, used = manifest["wardround"], str(manifest["created"])
    return "\n".join(
        [
            f"@software{{wardround_{version.replace('.', '_')},",
            "  author = {{The wardround developers}},",
            "  title = {wardround: language-model clinicians over raw electronic health records},",
            f"  version = {{{version}}},",
            f"  year = {{{used[:4]}}},",
            f"  note = {{Used on {used[:10]}; settings {manifest['settings_sha256'][:12]}}}",
            "}",
        ]
    )
