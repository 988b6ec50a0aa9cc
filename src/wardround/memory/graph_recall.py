"""Recall experiences for one case from the graph of a bank: seeds and the experiences reached by a walk.

Each offered experience has passed the same guards (its subject, its split) and the check of its scope against what is
known of the patient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from wardround.core import UserError, check_settings, setting
from wardround.memory.experience import POLARITIES, Experience, Kind, Subject
from wardround.memory.graph import GraphReader
from wardround.memory.phrases import Findings, split_phrases
from wardround.memory.reading import BankReader
from wardround.memory.recall import RecallQuestion, SeedRecall, SeedSettings
from wardround.memory.scope import Scope, scope_of
from wardround.memory.walk import SkipReason, Walk, WalkSettings, walk

Order = Literal["score", "found"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecallSettings:
    """How experiences are recalled through the graph (section 4.2 of the GSEM paper)."""

    seeds: SeedSettings = field(default_factory=SeedSettings)
    walk: WalkSettings = field(default_factory=WalkSettings)
    order: Order = setting("score", "order of served experiences: by score, or as found")
    bar_above: float = setting(
        0.96,
        "an experience that harms the task with a higher probability is not served; 1: all are served, as published",
        source="ours",
        least=0,
        most=1,
    )
    serve_unchecked: bool = setting(
        False,
        "also experiences of whose limits this patient's record says nothing (a case in words is served them anyway)",
        source="ours",
    )
    same_task: bool = setting(False, "only experiences of the same task (the paper's memory crosses tasks)")
    seed_pool: int = setting(50, "how many are recalled; the first of them that apply are the seeds", least=1)
    kinds: tuple[Kind, ...] = setting(POLARITIES, "kinds of experiences that are recalled")
    retriever: str | None = setting(
        None,
        "model that walks the graph; none: the agent's own model",
        source="GSEM, table 5",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.seed_pool < self.seeds.k:
            raise UserError(f"seed_pool must be at least {self.seeds.k}, the number of seeds, not {self.seed_pool}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedExperience:
    """One experience offered for one case, with its scope and the reason.

    ``conflicts`` are the ids of experiences served with it that state the opposite. ``boundaries`` are the conditions
    of similar experiences that hold elsewhere.
    """

    experience: Experience
    scope: Scope
    score: float
    quality: float | None
    why: str
    conflicts: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Return what the log of an episode notes about this experience."""
        return {
            "id": self.experience.id,
            "kind": self.experience.kind,
            "score": self.score,
            "quality": self.quality,
            "why": self.why,
            "conflicts": list(self.conflicts),
            "unchecked": list(self.scope.unchecked),
        }


@dataclass(slots=True)
class GraphCase:
    """One case and the graph of one bank. Scopes are checked once; ``barred`` lists what was excluded, and why.

    ``task``: only experiences of this task are served; ``asked_task``: qualities are those for this task. ``retest``:
    in a training stream, whether to show a barred experience anyway; ``retested`` lists the experiences checked.
    """

    bank: BankReader
    subject: Subject
    findings: Findings
    settings: GraphRecallSettings
    task: str | None = None
    quality_task: str = ""
    retest: Callable[[str], bool] | None = None
    graph: GraphReader = field(init=False)
    retested: dict[str, bool] = field(default_factory=dict, init=False)
    barred: dict[str, str] = field(default_factory=dict, init=False)
    _fetch: Callable[[str], Experience | None] = field(init=False)
    _scopes: dict[str, Scope] = field(default_factory=dict, init=False)
    _conflicts: dict[str, frozenset[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.graph = self.bank.graph(task=self.quality_task)
        self._fetch = self.bank.served_to(self.subject, kinds=self.settings.kinds, task=self.task)

    def judge(self, name: str) -> SkipReason | None:
        """Return why an experience may not be offered for this case; None if it may."""
        experience = self._fetch(name)
        if experience is None:
            return "not_served"
        scope = self._scopes.get(name)
        if scope is None:
            scope = self._scopes[name] = scope_of(experience, self.findings)
        if not scope.applies:
            self.barred[name] = scope.excluded_by or scope.contradicted_by
            return "excluded"
        if scope.wholly_unchecked and not (self.settings.serve_unchecked or self.findings.in_words):
            self.barred[name] = "nothing of its limits could be checked"
            return "excluded"
        effect = self.graph.effect(name)
        if effect is None or effect.harm <= self.settings.bar_above or self._is_tried_again(name):
            return None
        self.barred[name] = f"harms this task with probability {effect.harm:.3f}"
        return "below"

    def _is_tried_again(self, name: str) -> bool:
        if self.retest is not None and name not in self.retested:
            self.retested[name] = self.retest(name)
        return self.retested.get(name, False)

    def seeds(self, question: RecallQuestion) -> tuple[SeedRecall, dict[str, float]]:
        """Return the recall, and the scores of the best experiences that apply."""
        seed_limit = self.settings.seeds
        wide = replace(seed_limit, k=self.settings.seed_pool, pool=max(seed_limit.pool, self.settings.seed_pool))
        recall = self.bank.seeds(
            question, for_subject=self.subject, kinds=self.settings.kinds, task=self.task, settings=wide
        )
        scores = {seed.experience.id: seed.score for seed in recall.seeds if seed.score > 0}
        fit = (name for name in scores if self.judge(name) is None)
        return recall, {name: scores[name] for name in islice(self._once(fit), seed_limit.k)}

    def _once(self, names: Iterable[str]) -> Iterator[str]:
        """Return the first of each group of duplicates."""
        seen_keys: set[str] = set()
        for name in names:
            words = self.experience(name).duplicate_key
            if words not in seen_keys:
                seen_keys.add(words)
                yield name

    def experience(self, name: str) -> Experience:
        """Return an experience that was judged applicable."""
        found = self._fetch(name)
        assert found is not None, name
        return found

    def opposed(self, one: str, other: str) -> bool:
        """Return whether two experiences say the opposite: by an edge of either side, or under the same condition."""
        first, second = self.experience(one), self.experience(other)
        if first.kind != second.kind and _normal(first.condition) == _normal(second.condition):
            return True
        return other in self._against(one) or one in self._against(other)

    def _against(self, name: str) -> frozenset[str]:
        """Return the experiences that conflict with an experience."""
        if name not in self._conflicts:
            edges = self.graph.edges(name)
            self._conflicts[name] = frozenset(edge.target for edge in edges if edge.relation == "conflict")
        return self._conflicts[name]

    def offered(self, found: Sequence[tuple[str, float, str]]) -> tuple[OfferedExperience, ...]:
        """Return the experiences to serve, from (id, score, reason) in order, with conflicts among them marked."""
        names = list(self._once(name for name, _, _ in found))
        return tuple(
            OfferedExperience(
                experience=self.bank.without_duplicates([self.experience(name)], self.subject)[0],
                scope=self._scopes[name],
                score=score,
                quality=self.graph.quality(name),
                why=why,
                conflicts=tuple(other for other in names if other != name and self.opposed(name, other)),
                boundaries=self._boundaries(name),
            )
            for name, score, why in found
            if name in names
        )

    def _boundaries(self, name: str) -> tuple[str, ...]:
        targets = [edge.target for edge in self.graph.edges(name) if edge.relation == "boundary"]
        known = [experience for target in targets if (experience := self._fetch(target)) is not None]
        return tuple(dict.fromkeys(experience.condition for experience in known))


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecall:
    """The result of a recall: what is served, and how it was found."""

    offered: tuple[OfferedExperience, ...]
    seeds: SeedRecall
    walk: Walk
    barred: Mapping[str, str]

    def facts(self) -> dict[str, Any]:
        """Return what the log of an episode notes about this recall."""
        return {
            "served": [experience.facts() for experience in self.offered],
            "seeds": [{"id": seed.experience.id, "score": seed.score, "why": seed.why()} for seed in self.seeds.seeds],
            "withheld": dict(self.seeds.withheld),
            "barred": dict(self.barred),
            "bank_revision": self.seeds.revision,
            "walk": self.walk.facts(),
        }


def recall_by_graph(case: GraphCase, question: RecallQuestion) -> GraphRecall:
    """Recall seeds, then walk deterministically. No model is called; equal cases get equal experiences."""
    recall, scores = case.seeds(question)
    found = walk(case.graph, scores, judge=case.judge, opposed=case.opposed, settings=case.settings.walk)
    accepted = [(one.experience, one.score, one.why()) for one in found.accepted]
    if case.settings.order == "score":
        accepted.sort(key=lambda one: (-one[1], one[0]))
    return GraphRecall(offered=case.offered(accepted), seeds=recall, walk=found, barred=dict(case.barred))


def _normal(condition: str) -> frozenset[str]:
    return frozenset(" ".join(phrase.casefold().split()) for phrase in split_phrases(condition))
