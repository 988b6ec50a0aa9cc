"""The AgentEHR benchmark (sections 2.1, 2.2 and appendix B of the paper), built from a MIMIC-IV or MIMIC-III store.

Per task: every label event of every subject; one eligible event per subject, chosen by seed; weights of eq. 11 over
those candidates; common and rare pools; a weighted draw without replacement from each pool of each split. Subjects,
not samples, are split. MIMIC-III is drawn from directly, without weights and pools (B.3). Count(y) of eq. 11 is taken
over all candidates, as in the paper: it decides which questions are asked and never reaches an agent. What does reach
one, the candidate spaces and the usual number of answers, comes from training subjects only, and for a question about
one of them from those of other groups (see ``split.group_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wardround import __version__
from wardround.benchmarks.answer_rules import AnswerRules
from wardround.benchmarks.benchmark import Benchmark, must_be_new
from wardround.benchmarks.drawing import (
    Recipe,
    asked_with,
    choose_events,
    draw,
    make_samples,
    read_encounters,
    training_sizes,
    weigh,
)
from wardround.benchmarks.facts import CLOCKS, label_map_facts, pool_facts, source_facts, space_facts
from wardround.benchmarks.hindsight import hindsight_facts
from wardround.benchmarks.label_events import Encounters, EventFinder, LabelEvent, LabelSource
from wardround.benchmarks.label_sources import is_other_source, label_sources
from wardround.benchmarks.sample import SPLITS, Sample
from wardround.benchmarks.split import DEFAULT_FRACTIONS, Fractions, check_fractions, group_of, split_of
from wardround.benchmarks.task import AGENTEHR_TASKS, Task, get_task
from wardround.codes import LabelSet, how_to_add, normalise_label
from wardround.core import Progress, Reporter, UserError, silent
from wardround.records import Policy, Store
from wardround.tools.candidates import CandidateSpace, build_candidate_spaces


def build_agentehr(
    store: Store,
    folder: Path,
    *,
    seed: int = 0,
    policy: Policy = "known_at",
    per_task: int = 600,
    user_codes: Path | None = None,
    fractions: Fractions = DEFAULT_FRACTIONS,
    tasks: Sequence[str] = tuple(AGENTEHR_TASKS),
    report: Reporter = silent,
) -> Benchmark:
    """Build the six tasks from a store and save them. ``per_task`` is the most samples of a task in each stratum of
    each split (the paper has 600). The same store and settings give the same samples, byte for byte."""
    must_be_new(folder)
    wanted = [get_task(name) for name in sorted(set(tasks))]
    recipe = _prepare(store, seed, policy, per_task, fractions, report)
    report(Progress(label="candidate spaces", done=0, total=1))
    names = {name for task in wanted for name in task.answer.spaces}
    spaces = build_candidate_spaces(store, recipe.groups, user_codes, names)
    sources = label_sources(policy, user_codes, store.spec)
    built = {task.name: _build_task(recipe, task, sources[task.name], spaces) for task in wanted}
    samples = tuple(sample for made, _ in built.values() for sample in made)
    if not samples:
        raise UserError("no label event of any task could be asked in this store; nothing was written")
    manifest = {
        "name": "agentehr",
        "paper": "AgentEHR, section 2 and appendix B",
        "wardround": __version__,
        "policy": policy,
        "clocks": CLOCKS[policy],
        "seed": seed,
        "fractions": list(fractions),
        "per_task": per_task,
        "sampling": "direct" if recipe.direct else "eq. 11",
        "label_maps": label_map_facts(store.spec, user_codes),
        "source": source_facts(store),
        "subjects": _count_splits(recipe),
        "tasks": {name: said for name, (_, said) in built.items()},
        "hindsight": hindsight_facts(wanted, store.spec.name),
        "answer_rules": {name: said.pop("answer_rules") for name, (_, said) in built.items()},
        "drops": {name: said.pop("drops") for name, (_, said) in built.items()},
    }
    return Benchmark(manifest=manifest, all_samples=samples, spaces=dict(sorted(spaces.items()))).save(folder)


def label_events(store: Store, policy: Policy = "known_at") -> dict[str, dict[int, list[LabelEvent]]]:
    """Return every event that could be asked about, by task and subject, without candidates or added code tables."""
    encounters = read_encounters(store, policy)
    found: dict[str, dict[int, list[LabelEvent]]] = {}
    for task, source in label_sources(policy, None, store.spec).items():
        finder = EventFinder(source=source, policy=policy)
        held = source.table in store.table_names
        rows = store.scan(source.table, list(source.needed_columns(policy))) if held else ()
        found[task] = {
            subject: finder.events(subject, batch, encounters.get(subject, Encounters.none()))
            for subject, batch in rows
        }
    return found


def _prepare(store: Store, seed: int, policy: Policy, per_task: int, fractions: Fractions, report: Reporter) -> Recipe:
    """Check the settings, split the subjects, put training people in groups, read the admissions."""
    check_fractions(fractions)
    if policy not in CLOCKS:
        raise UserError(f"unknown clock policy {policy!r}; known are {', '.join(CLOCKS)}")
    if per_task < 1:
        raise UserError(f"per_task must be at least 1, not {per_task!r}")
    if "admissions" not in store.table_names:
        raise UserError("the store has no admissions table, which every AgentEHR task needs")
    splits = {subject: split_of(store.person_of(subject), seed, fractions) for subject in store.subjects.tolist()}
    groups = {
        subject: group_of(store.person_of(subject), seed) for subject, split in splits.items() if split == "train"
    }
    if not groups:
        raise UserError(f"none of the {len(splits)} subjects falls into train, so there are no candidates; use more")
    return Recipe(
        store=store,
        seed=seed,
        policy=policy,
        per_task=per_task,
        splits=splits,
        groups=groups,
        encounters=read_encounters(store, policy),
        report=report,
        direct=is_other_source(store.spec),
    )


def _build_task(
    recipe: Recipe, task: Task, source: LabelSource, spaces: Mapping[str, CandidateSpace]
) -> tuple[list[Sample], dict[str, Any]]:
    """Return the samples of one task and what the manifest says of it."""
    if source.table not in recipe.store.table_names:
        return _skipped(f"the store has no table {source.table!r}")
    space = next((spaces[name] for name in task.answer.spaces if name in spaces), None)
    if space is None:
        return _skipped(f"no candidate space {' or '.join(task.answer.spaces)}")
    finder = EventFinder(source=replace(source, label=_official(source.label, space.labels)), policy=recipe.policy)
    chosen = choose_events(recipe, task, finder)
    candidates = weigh(recipe, task, [event for event in chosen if asked_with(recipe, space, event) is not None])
    alone = len(chosen) - len(candidates)
    drawn = draw(recipe, candidates)
    samples = make_samples(recipe, task, finder, space, drawn)
    said = {
        **_without_codes(source, finder, len(samples)),
        "title": task.title,
        "table": source.table,
        **space_facts(task, space, source.prompt),
        "events": finder.found,
        "candidates": len(candidates),
        "pools": pool_facts(samples),
        "answer_rules": AnswerRules.counted(task, training_sizes(recipe, candidates)).to_json(),
        "drops": dict(sorted(finder.dropped.items()))
        | ({"others_have_no_candidates": alone} if alone else {})
        | {"not_chosen": finder.found - len(chosen), "not_drawn": len(candidates) - len(drawn)},
    }
    return samples, said


def _skipped(reason: str) -> tuple[list[Sample], dict[str, Any]]:
    return [], {"skipped": reason, "answer_rules": {}, "drops": {}}


def _without_codes(source: LabelSource, finder: EventFinder, samples: int) -> dict[str, str]:
    """Say what to add where a task has no sample for want of a code table."""
    if samples or finder.found or source.wants is None:
        return {}
    return {"unavailable": f"no code of {source.table} has a label; {how_to_add(source.wants)}"}


def _official(label: Callable[..., str | None], labels: LabelSet) -> Callable[..., str | None]:
    """Give labels the spelling of the candidate space; outside of it, one spelling for all that compare equal."""
    spellings: dict[str, str] = {}

    def official(*cells: str | None) -> str | None:
        raw = label(*cells)
        if raw is None or not raw.strip():
            return None
        return labels.resolve(raw) or spellings.setdefault(normalise_label(raw), raw)

    return official


def _count_splits(recipe: Recipe) -> dict[str, int]:
    taken = list(recipe.splits.values())
    return {"total": len(taken)} | {str(split): taken.count(split) for split in SPLITS}
