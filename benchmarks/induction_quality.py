"""Recall@5 at test stays of the frequency prior, induced rules, a decision tree and 100 extra trees: the same inputs.

    wardround synth planted --patients 600 --no-notes --no-ed --plain --plant examples/planted_hospital.toml
    wardround ingest mimiciv planted --store store && wardround bench build trace --store store --out stays
    python benchmarks/induction_quality.py store stays

The inputs of all four are those of induction: which triggers of the vocabulary held at a step of a training stay, and
how long ago each action was last done. Each names at most five actions of a type, none of them a drug that runs. The
figure is the report's: the mean over test stays of the share of decisions that were named. Needs scikit-learn.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.tree import DecisionTreeRegressor

from wardround.clinical.protocols import GlobalProtocol, RuleIndex
from wardround.learning.induction import InductionSettings
from wardround.learning.induction.coded_reflector import reflect
from wardround.learning.induction.inducing import training_stays, training_steps
from wardround.learning.induction.step_table import NEVER, RUNNING, StepTable, TrainingStep
from wardround.records import Store
from wardround.tasks.answers import StepAction
from wardround.tasks.benchmarks import Benchmark, Sample
from wardround.tasks.scoring.stays import MOST, TYPES, step_hits

Floats = npt.NDArray[np.float32]


def inputs(table: StepTable, steps: Sequence[TrainingStep]) -> Floats:
    """Return (s, t + a + 1): which triggers hold, for how many hours each action was not done, the hour of the stay."""
    triggers = {name: column for column, name in enumerate(table.triggers)}
    found = np.zeros((len(steps), len(triggers) + len(table.actions) + 1), np.float32)
    for row, step in enumerate(steps):
        found[row, [triggers[name] for name in step.triggers if name in triggers]] = 1
        done = np.array([step.done.get(action, NEVER) for action in table.actions], np.float32)
        found[row, len(triggers) : -1] = np.clip(step.hour - done, -1, 1000)  # a drug that runs: -1
        found[row, -1] = step.hour
    return found


def first_five(table: StepTable, steps: Sequence[TrainingStep], shares: Floats) -> list[list[tuple[str, str]]]:
    """Return of each step the five likeliest actions of each type, without the drugs that run. ``shares`` (s, a)."""
    found = []
    for step, row in zip(steps, shares, strict=True):
        ranked = [table.actions[place] for place in np.argsort(-row, kind="stable")]
        free = [action for action in ranked if step.done.get(action) != RUNNING]
        found.append([action for kind in TYPES for action in [one for one in free if one[0] == kind][:MOST]])
    return found


def recall(
    samples: Sequence[Sample], steps: Sequence[TrainingStep], said: Sequence[Sequence[tuple[str, str]]]
) -> float:
    """Return the mean over stays of Recall@5, as the report has it."""
    stays = groupby(zip(steps, said, strict=True), key=lambda one: one[0].stay)
    scores = []
    for sample, (_, played) in zip(samples, stays, strict=True):
        answer = [
            str(StepAction(step=number, kind=kind, name=name))
            for number, (_, actions) in enumerate(played)
            for kind, name in actions
        ]
        hits = step_hits(answer, sample.target)
        scores.append(sum(one.hits for one in hits) / sum(one.targets for one in hits))
    return fmean(scores)


def main() -> None:
    """Print the four figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--conditions", type=int, default=InductionSettings().conditions)
    arguments = parser.parse_args()
    store, benchmark = Store.open(arguments.store), Benchmark.open(arguments.benchmark)
    settings = InductionSettings(conditions=arguments.conditions)
    training = training_stays(benchmark, store, limit=None, seed=0)
    testing = [sample for sample in benchmark.samples(split="test") if sample.target]
    taught = training_steps(store, training, RuleIndex(GlobalProtocol(name="none", rules=())))
    table = StepTable.of(taught, support=settings.support, hits=settings.hits)
    protocol = GlobalProtocol(name="induced", rules=reflect(table, settings))
    asked = training_steps(store, testing, RuleIndex(protocol), reference_samples=training)
    print(f"{len(taught):,} steps of {len(training)} training stays, {len(asked):,} of {len(testing)} test stays")
    print(f"{len(table.triggers):,} triggers, {len(table.actions)} actions, {len(protocol)} rules")
    rates = np.array([table.rate(place) for place in range(len(table.actions))], np.float32)
    figures = {
        "frequency prior": first_five(table, asked, np.tile(rates, (len(asked), 1))),
        "induced rules": [step.predicted for step in asked],
    }
    models = {
        "decision tree": DecisionTreeRegressor(min_samples_leaf=20, random_state=arguments.seed),
        "100 extra trees": ExtraTreesRegressor(
            100, min_samples_leaf=5, max_features="sqrt", random_state=arguments.seed
        ),
    }
    known, new = inputs(table, taught), inputs(table, asked)
    for name, said in figures.items():
        print(f"{name:16} {recall(testing, asked, said):.3f}", flush=True)
    for name, model in models.items():
        model.fit(known, table.decided.T)
        print(f"{name:16} {recall(testing, asked, first_five(table, asked, model.predict(new))):.3f}", flush=True)


if __name__ == "__main__":
    main()
