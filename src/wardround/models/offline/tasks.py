"""The plan of a task: one for all, which ``tasks.toml`` fits to the role that the task asks about."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from wardround.models.offline.beliefs import Beliefs
from wardround.models.offline.conversation import Result
from wardround.models.offline.findings import (
    care_step,
    drug_step,
    lab_step,
    organism_step,
    place_step,
    plain_name,
    shown,
    stay_step,
    word_step,
)
from wardround.models.offline.notes import OfflineFinding, OfflineFindings
from wardround.models.offline.plan import (
    TABLES,
    EpisodePlan,
    PlannedAnswer,
    PlanStep,
    Reading,
    columns_step,
    hour_of,
    number,
    share_of,
    since,
    tally,
)
from wardround.models.offline.queries import Ask, counts, held_names, latest, shares
from wardround.models.offline.rules import load_rules, names
from wardround.records import Roles, RowRole

_PHRASES_PER_SEARCH = 12
_MOST_SEARCHES = 3
_LEAST_SIMILARITY = 0.3
_PRIOR_MOMENTS = 3.0
_NAMES_LOOKED_UP = 20
_FOR_WANT_OF_BETTER = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """One task of ``tasks.toml``, which explains the keys."""

    name: str
    role: str
    spaces: tuple[str, ...]
    history: str
    usual: float
    least: float
    most: int
    fewest: int = 1
    lists: tuple[tuple[str, float], ...] = ()
    again: float = 0.0
    limit: float = 1.0
    of_stay: bool = False
    by_hour: bool = False

    def weight(self, note: OfflineFinding) -> float:
        """How much one finding of the past speaks for its label."""
        if self.history != "names":
            return self.usual * note.amount
        value = note.value.lower()
        listed = (weight for key, weight in self.lists if any(word in value for word in names(self.name, key)))
        return min(next(listed, self.usual) + self.again * (note.amount - 1), self.limit)

    @property
    def prior(self) -> Mapping[str, float]:
        """What is given as a rule, with its share of moments, before anything is known of the patient."""
        return dict(load_rules().get(self.name, {}).get("usual", ()))


@cache
def task_plans() -> Mapping[str, TaskPlan]:
    """Every task, by name."""
    text = resources.files("wardround.models.offline").joinpath("tasks.toml").read_text(encoding="utf-8")
    return {name: _read_plan(name, body) for name, body in tomllib.loads(text).items()}


def _read_plan(name: str, body: Mapping[str, Any]) -> TaskPlan:
    lists = tuple((key, weight) for key, weight in body.get("lists", ()))
    return TaskPlan(**{**body, "name": name, "spaces": tuple(body["spaces"]), "lists": lists})


def plan_for(space: str, roles: Roles) -> EpisodePlan:
    """Return the plan for a table of candidates, that of the diagnoses if the table is none it knows."""
    known = task_plans()
    task = next((one for one in known.values() if space in one.spaces), known["diagnoses"])
    name = task.name
    steps = (
        TABLES,
        columns_step(lambda known: _role_tables(roles, known)),
        stay_step(roles),
        place_step(name, roles),
        _past_step(task, roles),
        word_step(name, roles),
        lab_step(name, roles),
        drug_step(name, roles),
        organism_step(name, roles),
        care_step(name, roles),
        _search_step(task, roles),
    )
    return EpisodePlan(task=name, steps=steps, answer=_answering(task))


def _role_tables(roles: Roles, known: OfflineFindings) -> list[str]:
    """The tables of the chart that play a role which the plan looks at."""
    first = (roles.first(name) for name in ("order", "lab", "culture", "diagnosis"))
    rows = [role.table for role in (*roles.transfer, *roles.procedure, *roles.note, *first) if role is not None]
    stays = [roles.admission.table] if roles.admission is not None else []
    return [table for table in dict.fromkeys(stays + rows) if known.table(table)]


def _past_step(task: TaskPlan, roles: Roles) -> PlanStep:
    """What the role that the task asks about has said so far."""
    role = roles.first(task.role)

    def ask(known: OfflineFindings) -> list[Ask]:
        one = shown(role, known)
        start = since(known) if task.of_stay else ""
        if one is None or task.history == "place":
            return []
        if task.history == "names" or not one.time:
            return [counts(one, start)]
        return [shares(one, start, hour=hour_of(known) if task.by_hour else None)]

    read = share_of("past", task.prior, _PRIOR_MOMENTS) if task.history == "moments" else tally("past")
    return PlanStep(
        name=f"every {task.role} so far",
        ask=ask,
        read=_plain_names(read, role),
        otherwise=lambda known: [latest(role.table)] if role is not None else [],
    )


def _plain_names(read: Reading, role: RowRole | None) -> Reading:
    def plain(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        found = read(known, results)
        return found if role is None else [replace(note, value=plain_name(role, note.value)) for note in found]

    return plain


def _habits(task: TaskPlan) -> list[OfflineFinding]:
    """What is thought of always."""
    always = load_rules().get(task.name, {}).get("always", ())
    return [OfflineFinding(kind="thought", value=thought, amount=weight) for thought, weight in always]


def _past(task: TaskPlan, known: OfflineFindings) -> list[OfflineFinding]:
    """The findings of the past: labels given before, or the place where the patient is."""
    if task.history == "place":
        return known.of("unit")[:1]
    return known.of("past") or [
        OfflineFinding(kind="past", value=name, amount=share) for name, share in task.prior.items()
    ]


def _search_step(task: TaskPlan, roles: Roles) -> PlanStep:
    """Look the phrases thought of up among the candidates, likeliest first, several searches in one turn. Look, too,
    which names the table holds that are answers as they stand: without any, a name at all."""

    def as_they_stand(known: OfflineFindings) -> list[str]:
        one = shown(roles.first(task.role), known)
        official = one is not None and one.official and task.role != "order" and task.history != "place"
        return [note.value for note in known.of("past")] if official else []

    def phrases(known: OfflineFindings) -> list[str]:
        past = [] if as_they_stand(known) else [note.value for note in _past(task, known)[:_NAMES_LOOKED_UP]]
        weights = dict.fromkeys([*past, *task.prior], 1.0)
        for note in known.of("thought") + _habits(task):
            weights[note.value] = weights.get(note.value, 0.0) + note.amount
        ranked = sorted(weights, key=lambda phrase: (-weights[phrase], phrase))
        return ranked[: _PHRASES_PER_SEARCH * _MOST_SEARCHES]

    def ask(known: OfflineFindings, tool: str) -> list[Ask]:
        wanted, held = phrases(known), as_they_stand(known)
        chunks = [wanted[at : at + _PHRASES_PER_SEARCH] for at in range(0, len(wanted), _PHRASES_PER_SEARCH)]
        tools = ("get_candidates", tool)  # the usual one, or the papers': what is not offered is not called
        arguments = [{"table_name": known.space, "query": chunk} for chunk in chunks]
        searches = [Ask(tool=one, arguments=given) for one in tools for given in arguments]
        return [held_names(known.space, held), *searches]

    return PlanStep(
        name="the official names",
        ask=lambda known: ask(known, "get_candidates_by_semantic_similarity"),
        read=_hits,
        otherwise=lambda known: ask(known, "get_candidates_by_fuzzy_matching"),
    )


def _hits(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
    """The best candidate of every query that has a near one, and the names that the table holds."""
    best: dict[str, str] = {}
    for result in results:
        for row in result.rows:
            held = result.call.name == "run_sql_query"
            query = row.get("query") or (row.get("candidate", "") if held else result.call.arguments)
            if row.get("candidate") and (held or number(row, "similarity") >= _LEAST_SIMILARITY):
                best.setdefault(query, row["candidate"])
    return [OfflineFinding(kind="name", value=f"{query} => {label}") for query, label in best.items()]


def _named(known: OfflineFindings) -> dict[str, str]:
    """Official names by what was looked up; where nothing could be, every finding stands for itself."""
    pairs = (note.value.partition(" => ") for note in known.of("name"))
    found = {phrase: label for phrase, _, label in pairs if label}
    return found or {note.value: note.value for note in known.of("past") + known.of("unit") + known.of("thought")}


def _answering(task: TaskPlan) -> Callable[[OfflineFindings, float], PlannedAnswer]:
    """Weigh the past and every thought under their official names; what has none is no answer."""

    def answer(known: OfflineFindings, shift: float) -> PlannedAnswer:
        beliefs, named = Beliefs(), _named(known)
        held = [(note, task.weight(note)) for note in _past(task, known)]
        held += [(note, note.amount) for note in known.of("thought") + _habits(task)]
        official = [(note, weight) for note, weight in held if note.value in named]
        for note, weight in official:
            beliefs.add(named[note.value], weight, note.rows)
        if not official:
            for label in named.values():
                beliefs.add(label, _FOR_WANT_OF_BETTER)
        labels = beliefs.best(least=task.least + shift, most=task.most, fewest=task.fewest)
        evidence = {label: rows for label in labels if (rows := beliefs.rows(label))}
        return PlannedAnswer(labels=tuple(labels), evidence=evidence)

    return answer
