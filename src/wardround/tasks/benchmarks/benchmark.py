"""A benchmark on disk: samples, manifest, candidate spaces, and the user's files of the build."""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

from wardround.clinical.codes import LabelSet, load_ccs
from wardround.core import (
    PromptFile,
    RecordError,
    UserError,
    canonical_json,
    content_hash,
    must_be_loaded,
    private_folder,
    sealed_json,
    sync_folder,
    sync_tree,
)
from wardround.records import Policy, SourceSpec, Store
from wardround.tasks.answers import ANSWER_KINDS
from wardround.tasks.benchmarks.drawing import group_of, split_of
from wardround.tasks.benchmarks.sample import SPLITS, STRATA, Sample, render_prompt
from wardround.tasks.benchmarks.task import OWN_CONTEXT_TOKENS, PAPER_CONTEXT_TOKENS, Task, declare, get_task
from wardround.tools.candidates import CandidateSpace, LabelEncoder, drug_grouper

# The candidate spaces of a benchmark on disk: files that the manifest names with their hashes.
#
# A command opens its benchmark many times: a checked file is not read again while the file system reports no change.


_MAX_CACHED_SPACES = 64
"""Limit on the spaces in memory: those of two large benchmarks."""


def save_space(space: CandidateSpace, folder: Path) -> str:
    """Write a space and return the hash of its file."""
    path = _space_path(folder, space.name)
    path.parent.mkdir(exist_ok=True)
    space.save(path)
    return content_hash(path.read_bytes())


def load_space(folder: Path, name: str, sha256: str) -> CandidateSpace:
    """Return a space. RecordError: its file is missing or has another hash."""
    path = _space_path(folder, name).absolute()
    try:
        facts = path.stat()
    except FileNotFoundError:
        raise _mismatch(path) from None
    return _checked(path, sha256, (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns))


@lru_cache(maxsize=_MAX_CACHED_SPACES)
def _checked(path: Path, sha256: str, identity: tuple[int, ...]) -> CandidateSpace:
    if content_hash(path.read_bytes()) != sha256:
        raise _mismatch(path)
    return CandidateSpace.load(path)


def _mismatch(path: Path) -> RecordError:
    return RecordError(f"{path} is not the candidate space that the manifest describes")


def _space_path(folder: Path, name: str) -> Path:
    return folder / "spaces" / f"{name}.space"


# A benchmark on disk: ``samples.jsonl``, ``manifest.json`` and the candidate spaces, written whole or not at all.


SCHEMA = 1
_SAMPLES = "samples.jsonl"
_MANIFEST = "manifest.json"
_CONTENDERS = "contender_answers.json"
_PARTIAL = ".partial-"


LastAnswers = Mapping[str, tuple[str, ...]]
"""Answers by sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Tasks and their samples.

    ``manifest`` says how it was built and what was dropped; ``folder`` is where it is stored. ``last`` is, by task and
    sample, the answer that the chart last showed, or why there is none; ``when`` is the prediction from the prediction
    time alone. Both are baselines, and no agent sees them.
    """

    manifest: Mapping[str, Any]
    all_samples: tuple[Sample, ...]
    spaces: Mapping[str, CandidateSpace] = field(default_factory=dict)
    folder: Path | None = None
    last: Mapping[str, LastAnswers | str] = field(default_factory=dict, repr=False)
    when: Mapping[str, LastAnswers | str] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        location = "" if self.folder is None else f" in {str(self.folder)!r}"
        return f"Benchmark({self.name}{location}: {len(self.all_samples):,} samples of {len(self.tasks)} tasks)"

    @property
    def name(self) -> str:
        """The benchmark's own name."""
        return str(self.manifest["name"])

    @property
    def kind(self) -> str:
        """The family that built it, from its manifest."""
        return str(self.manifest["kind"])

    @property
    def policy(self) -> Policy:
        """The clock policy of its prediction times."""
        return "published" if self.manifest["policy"] == "published" else "known_at"

    @property
    def digest(self) -> str:
        """The hash of all samples: equal for the same questions in any folder."""
        return content_hash(_sample_lines(self.all_samples))

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Its tasks, in name order."""
        return tuple(get_task(name) for name in sorted({sample.task for sample in self.all_samples}))

    @property
    def is_text_cases(self) -> bool:
        """Whether its questions are text cases: then there is no chart and no store."""
        return any(sample.is_text_case for sample in self.all_samples)

    @property
    def context_tokens(self) -> int:
        """The context size of the tasks' paper: the default of a run."""
        sizes = [PAPER_CONTEXT_TOKENS.get(task.family, OWN_CONTEXT_TOKENS) for task in self.tasks]
        return max(sizes, default=OWN_CONTEXT_TOKENS)

    def samples(
        self, task: str | None = None, split: str | None = None, stratum: str | Iterable[str] | None = None
    ) -> tuple[Sample, ...]:
        """Return the samples of a task, split and stratum (or strata), in id order; None means any."""
        strata = {stratum} if isinstance(stratum, str) else set(stratum or ())
        return tuple(
            sample
            for sample in self.all_samples
            if (task is None or sample.task == task)
            and (split is None or sample.split == split)
            and (not strata or sample.stratum in strata)
        )

    @property
    def prompts(self) -> tuple[PromptFile, ...]:
        """The prompt templates of its samples."""
        task_prompts = sorted({(sample.task, str(sample.facts.get("prompt") or "")) for sample in self.all_samples})
        question_prompts = (get_task(task).prompt_named(name or None) for task, name in task_prompts)
        answer_prompts = (task.answer.prompt for task in self.tasks)
        return tuple({prompt.name: prompt for prompt in (*question_prompts, *answer_prompts)}.values())

    def labels(self, task: Task) -> LabelSet | None:
        """Return the labels and spellings of a task's answers; None where any text is allowed."""
        space = self.space(task)
        return task.answer.labels(task.name, None if space is None else space.labels)

    def prompt(self, sample: Sample) -> str:
        """Return the question of a sample; ``ask`` adds the rules of its answers."""
        task = get_task(sample.task)
        space = self.space(task)
        person_space = None if space is None else self.spaces_of(sample.person).get(space.name, space)
        return render_prompt(task, sample, person_space)

    def group_of(self, person: int) -> int | None:
        """Return the group of a training person; None for others and where nothing was counted by group."""
        fractions = self.manifest.get("fractions")
        if not self.spaces or fractions is None:
            return None
        seed = self.manifest["seed"]
        return group_of(person, seed) if split_of(person, seed, tuple(fractions)) == "train" else None

    def spaces_of(self, person: int) -> Mapping[str, CandidateSpace]:
        """Return the candidate spaces for questions about a person.

        A training person gets the spaces of the other groups of training people, which contain nothing of its own
        record.
        """
        group = self.group_of(person)
        if group is None or not any(space.without for space in self.spaces.values()):
            return self.spaces
        return {name: space.without[group] for name, space in self.spaces.items() if group in space.without}

    def with_encoder(self, encoder: LabelEncoder) -> Benchmark:
        """Return the benchmark with an encoder's vectors in its candidate spaces; blocks while it encodes."""
        return replace(self, spaces={name: space.with_encoder(encoder) for name, space in self.spaces.items()})

    def space(self, task: Task) -> CandidateSpace | None:
        """Return the candidate space of a task; None where its answers come from no table.

        UserError: the benchmark lacks the space.
        """
        if not task.answer.spaces:
            return None
        for name in task.answer.spaces:
            if name in self.spaces:
                return self.spaces[name]
        raise UserError(f"benchmark {self.name!r} has no candidate space for {task.name!r}; build it again")

    def sample(self, sample_id: str) -> Sample:
        """Return one sample by id. UserError: there is none."""
        for sample in self.all_samples:
            if sample.id == sample_id:
                return sample
        raise UserError(f"no sample {sample_id!r} in benchmark {self.name!r}")

    def save(self, folder: Path) -> Benchmark:
        """Write everything to a new folder in one rename. UserError: the folder is not empty."""
        must_be_new(folder)
        partial = folder.with_name(f"{folder.name}{_PARTIAL}{os.getpid()}")
        _remove_abandoned(folder)
        private_folder(partial)
        lines = _sample_lines(self.all_samples)
        contenders = canonical_json({"last": self.last, "when": self.when})
        manifest = {
            **self.manifest,
            "schema": SCHEMA,
            "samples_sha256": content_hash(lines),
            "contenders_sha256": content_hash(contenders),
            "spaces": {name: save_space(space, partial) for name, space in sorted(self.spaces.items())},
        }
        (partial / _SAMPLES).write_bytes(lines)
        (partial / _CONTENDERS).write_bytes(contenders)
        (partial / _MANIFEST).write_text(sealed_json(manifest), encoding="utf-8")
        sync_tree(partial)
        os.replace(partial, folder)
        sync_folder(folder.parent)
        return replace(self, manifest=manifest, folder=folder)

    @classmethod
    def open(cls, folder: Path | str) -> Benchmark:
        """Read a saved benchmark. UserError: there is none. RecordError: it was changed."""
        folder = Path(folder)
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            lines = (folder / _SAMPLES).read_bytes()
        except FileNotFoundError as error:
            raise UserError(f"{folder} holds no benchmark ({error.filename} is missing); build one first") from error
        except json.JSONDecodeError as error:
            raise RecordError(f"{folder / _MANIFEST} is not JSON: {error}") from error
        except UnicodeDecodeError as error:
            raise RecordError(f"{folder / _MANIFEST} is not text: {error}") from error
        manifest.pop("seal", None)
        if manifest.get("schema") != SCHEMA:
            raise UserError(
                f"{folder} has benchmark schema {manifest.get('schema')!r}, this wardround reads {SCHEMA}: build again"
            )
        if content_hash(lines) != manifest.get("samples_sha256"):
            raise RecordError(f"{folder / _SAMPLES} is not the file that the manifest describes")
        _declare_tasks(manifest, f"the benchmark {str(folder)!r}")
        contenders = _read_contenders(folder, manifest["contenders_sha256"])
        return cls(
            manifest=manifest,
            all_samples=tuple(Sample.from_json(json.loads(line)) for line in lines.splitlines()),
            spaces={name: load_space(folder, name, sha256) for name, sha256 in manifest.get("spaces", {}).items()},
            folder=folder,
            last=contenders.get("last", {}),
            when=contenders.get("when", {}),
        )


def _read_contenders(folder: Path, sha256: str) -> dict[str, dict[str, LastAnswers | str]]:
    """Return the answers of the baselines, by contender and task."""
    path = folder / _CONTENDERS
    if not path.is_file() or content_hash(path.read_bytes()) != sha256:
        raise RecordError(f"{path} is not the file that the manifest describes")
    body = json.loads(path.read_bytes())
    return {
        contender: {
            task: answers if isinstance(answers, str) else {sample: tuple(answer) for sample, answer in answers.items()}
            for task, answers in by_task.items()
        }
        for contender, by_task in body.items()
    }


def _declare_tasks(manifest: Mapping[str, Any], what: str) -> None:
    """Register the tasks that a manifest declares. UserError names a missing plug-in."""
    declared = [task_facts["declared"] for task_facts in manifest.get("tasks", {}).values() if "declared" in task_facts]
    if any(body["answer"]["kind"] not in ANSWER_KINDS for body in declared):
        must_be_loaded(manifest.get("plugins", ()), what)
    for body in declared:
        declare(Task.from_json(body))


def must_be_new(folder: Path) -> None:
    """Refuse a folder that is not empty; also called before the work, which may take an hour."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already; remove it or choose another folder")


def _remove_abandoned(folder: Path) -> None:
    """Remove the partial folders of killed builds."""
    for partial in folder.parent.glob(f"{glob.escape(folder.name)}{_PARTIAL}*"):
        process = partial.name.rpartition("-")[2]
        if process.isdecimal() and (int(process) == os.getpid() or not _is_running(int(process))):
            shutil.rmtree(partial, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _sample_lines(samples: Iterable[Sample]) -> bytes:
    return b"".join(canonical_json(sample.to_json()) + b"\n" for sample in samples)


# Manifest entries: the source, a task's candidate space, its pools.


CLOCKS = {
    "known_at": "a question is asked before anything of its answer is known, on a chart that shows only what was known",
    "published": "the papers' own clocks, which show rows before they were known; label every result as such",
}


def source_facts(store: Store) -> dict[str, Any]:
    """Return which records these questions are about."""
    return {
        "name": store.spec.name,
        "sensitivity": store.spec.sensitivity,
        "store_digest": store.digest,
        "spec_sha256": store.spec.sha256,
        "settings": store.manifest.get("settings"),
        "assumptions": store.manifest.get("assumptions", []),
    }


def label_map_facts(spec: SourceSpec, user_codes: Path | None) -> dict[str, Any]:
    """Return which user-supplied code tables the labels use.

    Without them some labels are coarser or missing.
    """
    return {
        "prescriptions": drug_grouper(spec, user_codes).kind,
        "icd9_procedures": 9 in load_ccs("procedures", user_codes).codes,
    }


def space_facts(task: Task, space: CandidateSpace, prompt_name: str | None = None) -> dict[str, Any]:
    """Return the possible answers and the prompt of a task."""
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
            stratum: label_facts([sample for sample in samples if sample.split == split and sample.stratum == stratum])
            for stratum in STRATA
        }
        for split in SPLITS
    }


def label_facts(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return label statistics of samples: the counterpart of Table 5's ``Avg. Label``."""
    if not samples:
        return {"samples": 0}
    sizes = [len(sample.target) for sample in samples]
    return {
        "samples": len(samples),
        "labels_mean": round(fmean(sizes), 3),
        "labels_median": median(sizes),
        "labels_max": max(sizes),
        "distinct_labels": len({label for sample in samples for label in sample.target}),
        "unwinnable_labels": sum(len(sample.unwinnable) for sample in samples),
        "samples_with_unwinnable": sum(bool(sample.unwinnable) for sample in samples),
        "unmapped_rows": sum(int(sample.facts.get("unmapped_rows", 0)) for sample in samples),
    }


def samples_by_class(samples: Sequence[Sample]) -> dict[str, dict[str, int]]:
    """Count the samples of every class in every split."""
    labels = {
        split: [label for sample in samples if sample.split == split for label in sample.target] for split in SPLITS
    }
    return {split: dict(sorted(Counter(labels_of_split).items())) for split, labels_of_split in labels.items()}


# The user's own files that a build reads: a manifest holds their names and hashes, never their content.


_SHOWN_DIGITS = 12


def name_of_file(path: Path) -> dict[str, str]:
    """Return a file's name and the hash of its bytes."""
    return {"name": path.name, "sha256": content_hash(path.read_bytes())}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFiles:
    """The files of a person who rebuilds a benchmark, found by their content."""

    paths: tuple[Path, ...] = ()

    def find(self, entry: Mapping[str, str]) -> Path:
        """Return the file with this hash. UserError: none of the given files has it."""
        for path in self.paths:
            if name_of_file(path)["sha256"] == entry["sha256"]:
                return path
        wanted = f"{entry['name']} (sha256 {entry['sha256'][:_SHOWN_DIGITS]}...)"
        raise UserError(f"it was built with the file {wanted}: give it with --given; none of the given files matches")

    def find_all(self, entries: Sequence[Mapping[str, str]]) -> tuple[Path, ...]:
        """Return the files with these hashes, in order."""
        return tuple(self.find(entry) for entry in entries)
