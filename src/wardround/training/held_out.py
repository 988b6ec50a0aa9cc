"""The guard of training data: what a model is evaluated on, and whom, never teaches it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wardround.benchmarks import Benchmark, Sample
from wardround.core import LeakError

TRAINING: str = "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The samples and people of the splits that are not for training, over some benchmarks."""

    samples: frozenset[str]
    people: frozenset[int]
    benchmarks: tuple[str, ...]

    @classmethod
    def of(cls, benchmarks: Sequence[Benchmark]) -> HeldOut:
        """Collect them."""
        evaluated = [sample for one in benchmarks for sample in one.all_samples if sample.split != TRAINING]
        return cls(
            samples=frozenset(sample.id for sample in evaluated),
            people=frozenset(sample.person for sample in evaluated),
            benchmarks=tuple(one.name for one in benchmarks),
        )

    def refuse(self, samples: Iterable[Sample]) -> None:
        """Raise LeakError at the first sample that must not teach: of another split, or of a person who is held out."""
        for sample in samples:
            if sample.split != TRAINING:
                raise LeakError(f"sample {sample.id!r} is of the {sample.split} split: nothing may be trained on it")
            if sample.id in self.samples:
                raise LeakError(f"sample {sample.id!r} is held out by a benchmark it must be kept from")
            if sample.person in self.people:
                raise LeakError(
                    f"sample {sample.id!r} is of a person who is held out ({', '.join(self.benchmarks)}): train on a "
                    "run of another split of people, or leave that benchmark out of --keep-from"
                )
