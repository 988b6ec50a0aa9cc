"""What a converter of a data set's own files makes: examples, and what was left out, by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wardround.benchmarks.clinseek.timeline import Timeline
from wardround.benchmarks.clinseek_mm.examples import MultimodalExample
from wardround.benchmarks.clinseek_mm.films import Film, films_of
from wardround.core import UserError
from wardround.records import ImageRole, Store

YES_NO_TASKS = ("finding_presence", "finding_change_yes_no")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Examples of a manifest, and how many rows of the files gave none, by reason."""

    examples: Sequence[MultimodalExample]
    left_out: Counter[str]


def collected(made: Iterable[MultimodalExample | str]) -> Conversion:
    """Sort examples from reasons; each example is kept once."""
    examples: dict[MultimodalExample, None] = {}
    left_out: Counter[str] = Counter()
    for one in made:
        if isinstance(one, str):
            left_out[one] += 1
        else:
            examples[one] = None
    return Conversion(examples=list(examples), left_out=left_out)


def with_vocabulary(examples: Sequence[MultimodalExample]) -> list[MultimodalExample]:
    """Give every example whose answer is names those that answers of its task are made of, in all alike."""
    names: dict[str, set[str]] = {}
    for one in examples:
        names.setdefault(one.task, set()).update(one.answer)
    return [
        one if one.task in YES_NO_TASKS else replace(one, vocabulary=tuple(sorted(names[one.task]))) for one in examples
    ]


class FilmIndex:
    """The films of a store by subject and by study."""

    def __init__(self, store: Store, role: ImageRole) -> None:
        self.store, self.role = store, role
        self._timelines: dict[int, tuple[Timeline, list[Film]]] = {}
        self._subjects = frozenset(store.subjects.tolist())

    def of(self, subject: int) -> tuple[Timeline, list[Film]] | None:
        """A subject's timeline and films; None where the store does not have the subject."""
        if subject not in self._subjects:
            return None
        if subject not in self._timelines:
            timeline = Timeline(self.store, subject, "known_at")
            self._timelines[subject] = timeline, films_of(timeline, self.role)
        return self._timelines[subject]

    def subject_of_study(self) -> dict[int, int]:
        """Whose each study is. Reads every subject's films once."""
        if self.role.study is None:
            raise UserError("the pictures of this store name no study, so nothing can be asked about one")
        found: dict[int, int] = {}
        for subject in sorted(self._subjects):
            _, films = self.of(subject) or (None, [])
            found |= {int(film.study): subject for film in films if film.study is not None}
        return found


def studies(films: Sequence[Film]) -> Iterator[list[Film]]:
    """The films of a subject by study, in the order of their first film."""
    by_study: dict[object, list[Film]] = {}
    for film in films:
        by_study.setdefault(film.study, []).append(film)
    yield from by_study.values()
