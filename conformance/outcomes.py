"""What a suite comes to: scenarios, each passed, failed, not applicable or not run, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Verdict = Literal["passed", "failed", "not applicable", "not run"]
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One thing that is asked for. ``why`` says more: of a failure what was seen, else why it does not apply."""

    name: str
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """What came of one suite. ``version``: of what it is held against; ``by``: whose software asked."""

    name: str
    version: str
    by: str
    scenarios: Sequence[Scenario]
    seconds: float = 0.0

    def count(self, verdict: Verdict) -> int:
        """How many scenarios came to that."""
        return sum(one.verdict == verdict for one in self.scenarios)

    @property
    def failed(self) -> bool:
        """Whether any scenario failed, or none passed although some were run."""
        ran = self.count("passed") + self.count("failed")
        return self.count("failed") > 0 or (ran == 0 and self.count("not run") == 0)


class DoesNotApply(Exception):
    """Raised by a scenario of ours where what it needs is not there by design; says why."""


class CannotRun(Exception):
    """Raised where a suite needs what this machine has not; says what."""


def played(scenarios: Mapping[str, Callable[[Given], object]], given: Given) -> Iterator[Scenario]:
    """Play scenarios of ours one after another; one that raises has failed, and the rest goes on."""
    for name, play in scenarios.items():
        try:
            play(given)
        except DoesNotApply as reason:
            yield Scenario(name=name, verdict="not applicable", why=str(reason))
        except Exception as error:
            yield Scenario(name=name, verdict="failed", why=f"{type(error).__name__}: {error}"[:400])
        else:
            yield Scenario(name=name, verdict="passed")


class Scenarios(dict[str, Callable[[Given], object]]):
    """Scenarios of one suite by name, in the order in which they are written."""

    def named(self, name: str) -> Callable[[Callable[[Given], object]], Callable[[Given], object]]:
        """Register a function under the sentence that it holds us to. ValueError: the name is taken."""

        def register(play: Callable[[Given], object]) -> Callable[[Given], object]:
            if name in self:
                raise ValueError(f"two scenarios are called {name!r}")
            self[name] = play
            return play

        return register
