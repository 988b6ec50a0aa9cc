"""What a manifest says: of the source, of a task's candidate space, of its pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from wardround.benchmarks.sample import SPLITS, STRATA, Sample
from wardround.benchmarks.task import Task
from wardround.codes import load_ccs
from wardround.records import SourceSpec, Store
from wardround.tools.candidates import CandidateSpace, drug_grouper

CLOCKS = {
    "known_at": "a question is asked before anything of its answer is known, on a chart that shows only what was known",
    "published": "the papers' own clocks, which show rows before they were known; label every result as such",
}


def source_facts(store: Store) -> dict[str, Any]:
    """Say which records these questions are about."""
    return {
        "name": store.spec.name,
        "sensitivity": store.spec.sensitivity,
        "store_digest": store.digest,
        "spec_sha256": store.spec.sha256,
        "settings": store.manifest.get("settings"),
        "assumptions": store.manifest.get("assumptions", []),
    }


def label_map_facts(spec: SourceSpec, user_codes: Path | None) -> dict[str, Any]:
    """Say which user-supplied code tables the labels come from: without them some labels are coarser or missing."""
    return {
        "prescriptions": drug_grouper(spec, user_codes).kind,
        "icd9_procedures": 9 in load_ccs("procedures", user_codes).codes,
    }


def space_facts(task: Task, space: CandidateSpace, prompt_name: str | None = None) -> dict[str, Any]:
    """Say what may be answered and how it is asked."""
    prompt = task.prompt_named(prompt_name)
    return {
        "candidate_space": space.name,
        "candidate_labels": len(space.labels),
        "prompt": {"name": prompt.name, "version": prompt.version, "sha256": prompt.sha256},
    }


def pool_facts(samples: Sequence[Sample]) -> dict[str, Any]:
    """Count samples and labels by split and stratum."""
    return {
        split: {
            stratum: label_facts([one for one in samples if one.split == split and one.stratum == stratum])
            for stratum in STRATA
        }
        for split in SPLITS
    }


def label_facts(samples: Sequence[Sample]) -> dict[str, Any]:
    """Label statistics of some samples: the counterpart of Table 5's ``Avg. Label``."""
    if not samples:
        return {"samples": 0}
    sizes = [len(one.target) for one in samples]
    return {
        "samples": len(samples),
        "labels_mean": round(fmean(sizes), 3),
        "labels_median": median(sizes),
        "labels_max": max(sizes),
        "distinct_labels": len({label for one in samples for label in one.target}),
        "unwinnable_labels": sum(len(one.unwinnable) for one in samples),
        "samples_with_unwinnable": sum(bool(one.unwinnable) for one in samples),
        "unmapped_rows": sum(int(one.facts.get("unmapped_rows", 0)) for one in samples),
    }


def samples_by_class(samples: Sequence[Sample]) -> dict[str, dict[str, int]]:
    """Count the samples of every class in every split."""
    labels = {split: [label for one in samples if one.split == split for label in one.target] for split in SPLITS}
    return {split: dict(sorted(Counter(found).items())) for split, found in labels.items()}
