"""Retrieval over training cases as documents: naive RAG, and GraphRAG with entities and reports of communities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any

from wardround.memory.construction.drafts import Case
from wardround.memory.experience import Experience, normal_name
from wardround.memory.peer import (
    PEER_RULES,
    NewNote,
    NoteChanges,
    Peer,
    PeerAsking,
    PeerCase,
    PeerMemory,
    PeerSettings,
    Remembered,
    best_attempt,
    case_document,
    fused,
    listed,
    note_of,
)
from wardround.memory.reflector import tables_naming_answers
from wardround.memory.words import plain_words
from wardround.models.schema import object_schema


async def draw_document(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
    """Return the case as one document; no model is called."""
    content = case_document(case, max_tokens=settings.document_tokens)
    return [note_of(case, "naive-rag", title=f"A case of {case.attempts[0].material.task}", content=content)]


def recall_documents(case: PeerCase) -> Sequence[Remembered]:
    """BM25 and dense ranks, fused."""
    return fused([case.by_words(), case.by_meaning()])


NAIVE_RAG = Peer(
    name="naive-rag",
    title="naive RAG: training cases by BM25 and vectors (Karpukhin et al., 2020)",
    draw=draw_document,
    recall=recall_documents,
    differences=(
        "the paper merges both lists and does not say how; here by reciprocal ranks",
        "a document is one training case with its best attempt, not one trajectory: five texts are five cases",
    ),
)


# Communities of a weighted graph by modularity: the Louvain method (Blondel et al., 2008), in a fixed order of nodes,
# so that the same graph has the same communities everywhere.


Weights = Mapping[tuple[str, str], float]
_LEAST_GAIN = 1e-12


def communities_of(weights: Weights) -> list[frozenset[str]]:
    """Groups of the nodes of an undirected graph; ``weights`` has each edge once. Largest first, then by name."""
    members = {name: frozenset((name,)) for pair in weights for name in pair}
    graph = dict(weights)
    while True:
        placed = _moved(graph)
        if len(set(placed.values())) == len(placed):
            return sorted(members.values(), key=lambda group: (-len(group), min(group)))
        merged: dict[str, frozenset[str]] = {}
        for name, group in placed.items():
            merged[group] = merged.get(group, frozenset()) | members[name]
        members = merged
        graph = _folded(graph, placed)


def _moved(graph: Weights) -> dict[str, str]:
    """Return the community of each node. Nodes move in turn to where modularity gains most, until none moves."""
    joined: dict[str, dict[str, float]] = {}
    for (first, second), weight in graph.items():
        joined.setdefault(first, {})[second] = joined.get(first, {}).get(second, 0.0) + weight
        joined.setdefault(second, {})[first] = joined.get(second, {}).get(first, 0.0) + weight
    degree = {name: sum(others.values()) for name, others in joined.items()}
    total = sum(degree.values()) or 1.0
    placed = {name: name for name in sorted(joined)}
    weight_of = dict(degree)
    moved = True
    while moved:
        moved = False
        for name in sorted(joined):
            home = placed[name]
            weight_of[home] -= degree[name]
            share, inside = degree[name] / total, _inside(name, placed, joined[name])
            target = _best(home, {group: weight - share * weight_of[group] for group, weight in inside.items()})
            weight_of[target] += degree[name]
            placed[name] = target
            moved = moved or target != home
    return placed


def _inside(name: str, placed: Mapping[str, str], others: Mapping[str, float]) -> dict[str, float]:
    """Return how strongly a node is joined to each neighbouring community, its own included."""
    inside = {placed[name]: 0.0}
    for other, weight in others.items():
        if other != name:
            inside[placed[other]] = inside.get(placed[other], 0.0) + weight
    return inside


def _best(home: str, gains: Mapping[str, float]) -> str:
    """Return the community that gains most by a node. The node stays in its own unless another gains more."""
    best = min(gains, key=lambda group: (-round(gains[group], 9), group))
    return best if gains[best] > gains[home] + _LEAST_GAIN else home


def _folded(graph: Weights, placed: Mapping[str, str]) -> dict[tuple[str, str], float]:
    """Return the graph between communities. Edges inside a community become an edge to itself."""
    folded: dict[tuple[str, str], float] = {}
    for (first, second), weight in graph.items():
        one, other = sorted((placed[first], placed[second]))
        folded[one, other] = folded.get((one, other), 0.0) + weight
    return folded


# After GraphRAG (Edge et al., 2025): entities and relations of every training case, communities of entities with a
# report each, and local search: what the question names leads to reports and to cases.


_MOST_ENTITIES = 12
_REPORTS = 2
"""The number of shown texts that are reports, if there are as many; the rest are cases."""
_SHOWN_RELATIONS = 12
_NAME = {"type": "string", "minLength": 1, "maxLength": 80}
_RELATION = object_schema(
    {
        "source": _NAME,
        "target": _NAME,
        "relation": _NAME,
        "strength": {"type": "number", "minimum": 1, "maximum": 10},
    }
)
_GRAPH = object_schema(
    {
        "entities": {"type": "array", "items": _NAME, "maxItems": 30},
        "relations": {"type": "array", "items": _RELATION, "maxItems": 40},
    }
)
_REPORT = object_schema({"title": _NAME, "report": {"type": "string", "minLength": 1, "maxLength": 2_000}})


async def draw_graph(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
    """Return the case as a document, with the entities and relations in it."""
    content = case_document(case, max_tokens=settings.document_tokens)
    title = f"A case of {case.attempts[0].material.task}"
    if asking is None:
        return [note_of(case, "graphrag", title=title, content=content, facts=_by_rules(case))]
    graph = await asking.value("graphrag_extract", _GRAPH, document=content)
    entities = [normal_name(name) for name in graph["entities"]][:_MOST_ENTITIES]
    relations = [
        [normal_name(one["source"]), one["relation"], normal_name(one["target"]), float(one["strength"])]
        for one in graph["relations"]
    ]
    facts = _facts(entities, [relation for relation in relations if {relation[0], relation[2]} <= set(entities)])
    return [note_of(case, "graphrag", title=title, content=content, facts=facts, **asking.origin)]


async def write_reports(memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Find the communities again, and give each that is new its report; those that are no more lose theirs."""
    notes = memory.notes()
    documents = [note for note in notes if note.facts["level"] == "case"]
    known = {
        frozenset((*note.facts["entities"], *note.facts["cases"])): note
        for note in notes
        if note.facts["level"] == "report"
    }
    found = _communities(documents)
    new = [await _report(one, asking) for one in found if one.members not in known]
    gone = known.keys() - {one.members for one in found}
    return NoteChanges(
        new=tuple(new), dropped={known[one].id: "its community is no more" for one in sorted(gone, key=sorted)}
    )


def search_locally(case: PeerCase) -> Sequence[Remembered]:
    """Reports and cases by the entities that the question names, then by words and vectors."""
    words = set(plain_words(case.question.text).split())
    ranked = []
    for place, one in enumerate(fused([case.by_words(), case.by_meaning()])):
        named = [name for name in one.note.facts["entities"] if set(plain_words(name).split()) <= words]
        why = f"{one.why}, names {listed(named)}" if named else one.why
        ranked.append((-len(named), place, replace(one, why=why)))
    best = [one for _, _, one in sorted(ranked, key=lambda three: three[:2])]
    reports = [one for one in best if one.note.facts["level"] == "report"]
    cases = [one for one in best if one.note.facts["level"] == "case"]
    shown = reports[:_REPORTS]
    return [*shown, *cases, *reports[_REPORTS:]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Community:
    """Entities that hang together, the cases that join them, and how."""

    entities: tuple[str, ...]
    relations: Mapping[tuple[str, str, str], float]
    documents: tuple[Experience, ...]

    @property
    def members(self) -> frozenset[str]:
        return frozenset((*self.entities, *(note.id for note in self.documents)))

    def lines(self) -> list[str]:
        strongest = sorted(self.relations, key=lambda one: (-self.relations[one], one))[:_SHOWN_RELATIONS]
        return [f"{', '.join(one)} ({self.relations[one]:g})" for one in strongest]


def _communities(documents: Sequence[Experience]) -> list[_Community]:
    """Return the communities that several cases share. What one case says alone is in its document already."""
    weights: Counter[tuple[str, str]] = Counter()
    for source, _, target, strength in chain.from_iterable(note.facts["relations"] for note in documents):
        one, other = sorted((source, target))
        weights[one, other] += strength
    found = [_community(group, documents) for group in communities_of(weights)]
    return [one for one in found if len(one.documents) > 1]


def _community(group: frozenset[str], documents: Sequence[Experience]) -> _Community:
    relations: Counter[tuple[str, str, str]] = Counter()
    joining = {}
    for note in documents:
        for source, phrase, target, strength in note.facts["relations"]:
            if {source, target} <= group:
                relations[source, phrase, target] += strength
                joining[note.id] = note
    return _Community(entities=tuple(sorted(group)), relations=relations, documents=tuple(joining.values()))


async def _report(community: _Community, asking: PeerAsking | None) -> NewNote:
    """Return a community's report. The report describes all cases of the community and keeps their contributors."""
    first, *others = community.documents
    origin, title = replace(first.provenance, model=PEER_RULES), f"What belongs to {listed(community.entities[:4])}"
    report = ". ".join(community.lines())
    if asking is not None:
        values = {"entities": community.entities, "relations": community.lines(), "documents": community.documents}
        written = await asking.value("graphrag_report", _REPORT, **values)
        title, report = written["title"], written["report"]
        origin = replace(origin, **asking.origin)
    note = replace(
        first,
        title=title,
        content=report,
        provenance=origin,
        evidence=tuple(chain.from_iterable(document.evidence for document in community.documents)),
        facts={
            "level": "report",
            "entities": list(community.entities),
            "cases": sorted(document.id for document in community.documents),
            "names_answer": any(document.facts["names_answer"] for document in community.documents),
        },
        id="",
    )
    return NewNote(note=note, hands=tuple(other.provenance for other in others))


def _by_rules(case: Case) -> dict[str, Any]:
    """Return the setting, the tables that were useful and the correct answers. Each pair counts as seen in one case."""
    best = best_attempt(case).material
    names = (*case.setting, *tables_naming_answers(best), *(best.target or ())[:3], best.task)
    entities = list(dict.fromkeys(map(normal_name, names)))[:_MOST_ENTITIES]
    return _facts(entities, [[one, "in one case with", other, 1.0] for one, other in combinations(sorted(entities), 2)])


def _facts(entities: Sequence[str], relations: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return {"level": "case", "entities": list(entities), "relations": [list(relation) for relation in relations]}


GRAPHRAG = Peer(
    name="graphrag",
    title="after GraphRAG: entities, communities, reports, local search (Edge et al., 2025)",
    draw=draw_graph,
    close=write_reports,
    recall=search_locally,
    prompts=("graphrag_extract", "graphrag_report"),
    differences=(
        "one level of communities, found by the Louvain method; the published method builds a hierarchy by Leiden",
        "a report is written only where at least two cases join a community",
        "local search only (up to two reports, then cases); no global search over all reports",
        "a question's entities are the names in it; the published method takes the nearest descriptions by vector",
    ),
)
