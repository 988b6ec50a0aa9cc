"""Check worked examples of a protocol: written cases, and the rules that must hold in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wardround.clinical.protocols.facts import GivenFacts
from wardround.clinical.protocols.index import RuleIndex
from wardround.core import UserError, read_toml, strict


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolExample:
    """One case. ``holds``: ids of the rules that must hold in it, all of them and no other."""

    name: str
    facts: GivenFacts = field(default_factory=GivenFacts)
    holds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleResult:
    """The result of a case: rules that should hold and do not, and rules that should not hold and do."""

    name: str
    missing: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Return whether exactly the expected rules hold."""
        return not self.missing and not self.wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    case: tuple[ProtocolExample, ...]


def read_examples(path: Path) -> tuple[ProtocolExample, ...]:
    """Read ``[[case]]`` tables. Raises UserError without a case, or for an invalid one."""
    cases = strict(_Body, read_toml(path), str(path)).case
    if not cases:
        raise UserError(f"{str(path)!r} holds no [[case]]; write one with a name, facts and the rules that hold")
    return cases


def check_examples(index: RuleIndex, examples: tuple[ProtocolExample, ...]) -> tuple[ExampleResult, ...]:
    """Return what came of every case; UserError if one names a rule that the protocol has not."""
    return tuple(_check(index, example) for example in examples)


def _check(index: RuleIndex, example: ProtocolExample) -> ExampleResult:
    unknown = [name for name in example.holds if name not in index.by_id]
    if unknown:
        raise UserError(f"case {example.name!r}: the protocol has no rule {', '.join(unknown)}")
    satisfied = {rule.rule.id for rule in index.rules if rule.holds(example.facts)}
    return ExampleResult(
        name=example.name,
        missing=tuple(name for name in example.holds if name not in satisfied),
        wrong=tuple(sorted(satisfied - set(example.holds))),
    )
