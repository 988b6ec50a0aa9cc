"""The contamination check: proof, from the file and by searching, that no experience can reach whom it came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import numpy as np

from wardround.memory.bank import Bank
from wardround.memory.experience import KINDS, Subject
from wardround.memory.keys import Key
from wardround.memory.state import SERVABLE_SPLITS

FindingKind = Literal["split", "sample", "subject", "served", "names_subject"]
_NUMBER = re.compile(r"\d{5,}")


class CheckedSample(Protocol):
    """A sample as it is needed here; ``benchmarks.Sample`` is one."""

    @property
    def id(self) -> str: ...
    @property
    def subject_id(self) -> int: ...
    @property
    def person(self) -> int: ...
    @property
    def split(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One way in which a bank and a benchmark do not fit.

    ``split``: an experience of a sample outside training is in the bank (it is never served).
    ``sample`` / ``subject``: an experience came from a sample / a patient that this benchmark evaluates on.
    ``served``: a search offered an experience to a patient it came from, or one outside training: a bug.
    ``names_subject``: an experience's text holds the number of a patient of the benchmark.
    """

    kind: FindingKind
    experience: str
    sample: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContaminationReport:
    """What was checked and what was found. ``searches`` counts the (subject, kind) pairs that were searched."""

    experiences: int
    samples: int
    evaluation_samples: int
    searches: int
    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        """Return whether nothing was found."""
        return not self.findings

    def counts(self) -> dict[str, int]:
        """Return the number of findings of each kind."""
        kinds = ("split", "sample", "subject", "served", "names_subject")
        return {kind: sum(found.kind == kind for found in self.findings) for kind in kinds}

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {**asdict(self), "findings": [asdict(finding) for finding in self.findings], "counts": self.counts()}


def contamination_check(bank: Bank, samples: Iterable[CheckedSample], *, source: str) -> ContaminationReport:
    """Check a bank against the samples of a benchmark, all splits of it.

    Contributors are read from the file's revisions, not from the index of the search: an error in the index is found.
    """
    every = list(samples)
    evaluated = [sample for sample in every if sample.split not in SERVABLE_SPLITS]
    hashes = {sample.id: bank.subject_hash(Subject(source=source, subject_id=sample.person)) for sample in every}
    live = {experience.id: experience for experience in bank.experiences()}
    origins = [origin for origin in bank.origins() if origin[0] in live]
    found = _by_origin(origins, evaluated, hashes)
    subjects = {hashes[sample.id]: sample for sample in every}
    served, searches = _by_searching(bank, subjects, origins, source)
    numbers = {str(sample.subject_id): sample.id for sample in every}
    for experience in live.values():
        texts = f"{experience.title}\n{experience.description}\n{experience.content}"
        named = sorted(numbers[number] for number in set(_NUMBER.findall(texts)) if number in numbers)
        found += [Finding(kind="names_subject", experience=experience.id, sample=sample) for sample in named]
    return ContaminationReport(
        experiences=len(live),
        samples=len(every),
        evaluation_samples=len(evaluated),
        searches=searches,
        findings=tuple(found + served),
    )


def _by_origin(
    origins: Sequence[tuple[str, str, str, str]], evaluated: Sequence[CheckedSample], hashes: dict[str, str]
) -> list[Finding]:
    sample_ids = {sample.id for sample in evaluated}
    subjects = {hashes[sample.id]: sample.id for sample in evaluated}
    found = []
    for experience, sample, subject, split in origins:
        if split not in SERVABLE_SPLITS:
            found.append(Finding(kind="split", experience=experience, sample=sample))
        if sample in sample_ids:
            found.append(Finding(kind="sample", experience=experience, sample=sample))
        if subject in subjects:
            found.append(Finding(kind="subject", experience=experience, sample=subjects[subject]))
    return found


def _by_searching(
    bank: Bank, subjects: dict[str, CheckedSample], origins: Sequence[tuple[str, str, str, str]], source: str
) -> tuple[list[Finding], int]:
    """Ask for everything on behalf of every subject, by key and without, and look at what comes."""
    outside = {experience for experience, _, _, split in origins if split not in SERVABLE_SPLITS}
    own: dict[str, set[str]] = {}
    for experience, _, subject, _ in origins:
        own.setdefault(subject, set()).add(experience)
    key = _any_key(bank)
    everything = len(bank)
    found = []
    for hashed, sample in subjects.items():
        sample_subject = Subject(source=source, subject_id=sample.person)
        for kind in KINDS:
            offered = list(bank.recall(kind=kind, for_subject=sample_subject, limit=everything).experiences)
            if key is not None:
                offered += bank.search(key, kind=kind, for_subject=sample_subject, k=everything).experiences
            for served in sorted({one.id for one in offered}):
                if served in outside or served in own.get(hashed, ()):
                    found.append(Finding(kind="served", experience=served, sample=sample.id))
    return found, len(subjects) * len(KINDS)


def _any_key(bank: Bank) -> Key | None:
    """Return a key of the bank's encoder. A search for as many entries as there are finds all of them, whatever the
    key."""
    dimensions = bank.at(revision=bank.revision).dimensions
    if bank.encoder is None or not dimensions:
        return None
    return Key(encoder=bank.encoder, vector=np.full(dimensions, dimensions**-0.5, np.float32))
