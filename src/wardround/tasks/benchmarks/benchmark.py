"""A benchmark on disk: samples, manifest, candidate spaces, and the user's files it was built from."""

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

# The candidate spaces of a benchmark on disk, each a file that the manifest names by its hash.
#
# A command opens its benchmark many times over: a file that was read and checked once is not read again while it stays
# as it is, by what the file system says of it.


_KEPT = 64
"""So many spaces stay in memory: those of two large benchmarks."""


def save_space(space: CandidateSpace, folder: Path) -> str:
    """Write a space and return the hash of its file."""
    path = _path(folder, space.name)
    path.parent.mkdir(exist_ok=True)
    space.save(path)
    return content_hash(path.read_bytes())


def load_space(folder: Path, name: str, sha256: str) -> CandidateSpace:
    """Return a space; RecordError where its file is missing or has another hash."""
    path = _path(folder, name).absolute()
    try:
        facts = path.stat()
    except FileNotFoundError:
        raise _another(path) from None
    return _checked(path, sha256, (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns))


@lru_cache(maxsize=_KEPT)
def _checked(path: Path, sha256: str, identity: tuple[int, ...]) -> CandidateSpace:
    if content_hash(path.read_bytes()) != sha256:
        raise _another(path)
    return CandidateSpace.load(path)


def _another(path: Path) -> RecordError:
    return RecordError(f"{path} is not the candidate space that the manifest describes")


def _path(folder: Path, name: str) -> Path:
    return folder / "spaces" / f"{name}.space"


# A benchmark on disk: ``samples.jsonl``, ``manifest.json`` and the candidate spaces, written whole or not at all.


SCHEMA = 1
_SAMPLES = "samples.jsonl"
_MANIFEST = "manifest.json"
_CONTENDERS = "contender_answers.json"
_PARTIAL = ".partial-"


LastAnswers = Mapping[str, tuple[str, ...]]
"""By sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Tasks and their samples. ``manifest`` says how it was built and what was dropped; ``folder`` is where it lies.

    ``last`` is, by task and sample, what the answer was when the chart last showed one, or why that is not known;
    ``when`` is what a fit of the moment alone answers. They are there to be compared with, and no agent is shown them.
    """

    manifest: Mapping[str, Any]
    all_samples: tuple[Sample, ...]
    spaces: Mapping[str, CandidateSpace] = field(default_factory=dict)
    folder: Path | None = None
    last: Mapping[str, LastAnswers | str] = field(default_factory=dict, repr=False)
    when: Mapping[str, LastAnswers | str] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        place = "" if self.folder is None else f" in {str(self.folder)!r}"
        return f"Benchmark({self.name}{place}: {len(self.all_samples):,} samples of {len(self.tasks)} tasks)"

    @property
    def name(self) -> str:
        """What the benchmark calls itself."""
        return str(self.manifest["name"])

    @property
    def kind(self) -> str:
        """The family it was built by, as its manifest declares it."""
        return str(self.manifest["kind"])

    @property
    def policy(self) -> Policy:
        """The clock policy its prediction times belong to."""
        return "published" if self.manifest["policy"] == "published" else "known_at"

    @property
    def digest(self) -> str:
        """Hash of every sample: names the questions, whatever the folder."""
        return content_hash(_sample_lines(self.all_samples))

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Its tasks, in name order."""
        return tuple(get_task(name) for name in sorted({sample.task for sample in self.all_samples}))

    @property
    def told(self) -> bool:
        """Whether its questions tell their cases in words: then there is no chart, and no store."""
        return any(sample.told for sample in self.all_samples)

    @property
    def context_tokens(self) -> int:
        """The context that the paper of its tasks gave every method: what a run has where nobody says otherwise."""
        asked = [PAPER_CONTEXT_TOKENS.get(task.family, OWN_CONTEXT_TOKENS) for task in self.tasks]
        return max(asked, default=OWN_CONTEXT_TOKENS)

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
        """The templates that its samples are asked with."""
        used = sorted({(sample.task, str(sample.facts.get("prompt") or "")) for sample in self.all_samples})
        asked = (get_task(task).prompt_named(name or None) for task, name in used)
        explained = (task.answer.prompt for task in self.tasks)
        return tuple({prompt.name: prompt for prompt in (*asked, *explained)}.values())

    def labels(self, task: Task) -> LabelSet | None:
        """Return the labels and spellings that answers to a task may have, None where any text may be one."""
        space = self.space(task)
        return task.answer.labels(task.name, None if space is None else space.labels)

    def prompt(self, sample: Sample) -> str:
        """Return the question of a sample; ``ask`` adds the rules of its answers."""
        task = get_task(sample.task)
        space = self.space(task)
        asked_with = None if space is None else self.spaces_of(sample.person).get(space.name, space)
        return render_prompt(task, sample, asked_with)

    def group_of(self, person: int) -> int | None:
        """Return the group of a training person; None of anybody else, and where nothing was counted by group."""
        fractions = self.manifest.get("fractions")
        if not self.spaces or fractions is None:
            return None
        seed = self.manifest["seed"]
        return group_of(person, seed) if split_of(person, seed, tuple(fractions)) == "train" else None

    def spaces_of(self, person: int) -> Mapping[str, CandidateSpace]:
        """Return the candidate spaces that questions about a person are asked with: of a training person, those that
        the other groups of training people make, so that nothing of its own record is in them."""
        group = self.group_of(person)
        if group is None or not any(space.without for space in self.spaces.values()):
            return self.spaces
        return {name: space.without[group] for name, space in self.spaces.items() if group in space.without}

    def with_encoder(self, encoder: LabelEncoder) -> Benchmark:
        """The benchmark with an encoder's vectors in its candidate spaces. Blocks while it encodes the labels."""
        return replace(self, spaces={name: space.with_encoder(encoder) for name, space in self.spaces.items()})

    def space(self, task: Task) -> CandidateSpace | None:
        """Return the candidate space a task is asked with, None where its answers come from no table.

        UserError: they do, and the benchmark has none for it.
        """
        if not task.answer.spaces:
            return None
        for name in task.answer.spaces:
            if name in self.spaces:
                return self.spaces[name]
        raise UserError(f"benchmark {self.name!r} has no candidate space for {task.name!r}; build it again")

    def sample(self, sample_id: str) -> Sample:
        """Return one sample by id; UserError when there is none."""
        for sample in self.all_samples:
            if sample.id == sample_id:
                return sample
        raise UserError(f"no sample {sample_id!r} in benchmark {self.name!r}")

    def save(self, folder: Path) -> Benchmark:
        """Write everything to a new folder in one rename; UserError when something is there already."""
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
        """Read a saved benchmark; UserError when there is none, RecordError when it is not what was saved."""
        folder = Path(folder)
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            lines = (folder / _SAMPLES).read_bytes()
        except FileNotFoundError as error:
            raise UserError(f"{folder} holds no benchmark ({error.filename} is missing); build one first") from error
        except json.JSONDecodeError as error:
            raise RecordError(f"{folder / _MANIFEST} is not JSON: {error}") from error
        except UnicodeDecodeError as error:
            raise RecordError(f"{folder / _MANIFEST} is no text: {error}") from error
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
    """Return the answers of contenders, by contender and task."""
    path = folder / _CONTENDERS
    if not path.is_file() or content_hash(path.read_bytes()) != sha256:
        raise RecordError(f"{path} is not the file that the manifest describes")
    body = json.loads(path.read_bytes())
    return {
        contender: {
            task: found if isinstance(found, str) else {sample: tuple(answer) for sample, answer in found.items()}
            for task, found in by_task.items()
        }
        for contender, by_task in body.items()
    }


def _declare_tasks(manifest: Mapping[str, Any], what: str) -> None:
    """Make the tasks known that a manifest declares; UserError names the plug-in that one needs."""
    declared = [said["declared"] for said in manifest.get("tasks", {}).values() if "declared" in said]
    if any(body["answer"]["kind"] not in ANSWER_KINDS for body in declared):
        must_be_loaded(manifest.get("plugins", ()), what)
    for body in declared:
        declare(Task.from_json(body))


def must_be_new(folder: Path) -> None:
    """Refuse a folder that something is in already: called before the work too, which may take an hour."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already; remove it or choose another folder")


def _remove_abandoned(folder: Path) -> None:
    """Remove what killed builds of this benchmark left beside it."""
    for partial in folder.parent.glob(f"{glob.escape(folder.name)}{_PARTIAL}*"):
        process = partial.name.rpartition("-")[2]
        if process.isdecimal() and (int(process) == os.getpid() or not _runs(int(process))):
            shutil.rmtree(partial, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _sample_lines(samples: Iterable[Sample]) -> bytes:
    return b"".join(canonical_json(sample.to_json()) + b"\n" for sample in samples)


# What a manifest says: of the source, of a task's candidate space, of its pools.


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


# Files of a user's own that a build reads: a manifest names them by name and hash, never by the words in them.


_SHOWN_DIGITS = 12


def name_of_file(path: Path) -> dict[str, str]:
    """Return a file's name and the hash of its bytes."""
    return {"name": path.name, "sha256": content_hash(path.read_bytes())}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFiles:
    """The files that somebody has who builds a benchmark again. Found by what is in them."""

    paths: tuple[Path, ...] = ()

    def find(self, named: Mapping[str, str]) -> Path:
        """Return the file of that hash. UserError: none of the given files is it."""
        for path in self.paths:
            if name_of_file(path)["sha256"] == named["sha256"]:
                return path
        wanted = f"{named['name']} (sha256 {named['sha256'][:_SHOWN_DIGITS]}...)"
        raise UserError(f"it was built with the file {wanted}: name yours with --given; none named so is that file")

    def find_all(self, named: Sequence[Mapping[str, str]]) -> tuple[Path, ...]:
        """Return the files of those hashes, in that order."""
        return tuple(self.find(one) for one in named)
