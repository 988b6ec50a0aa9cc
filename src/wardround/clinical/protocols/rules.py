"""Rules and protocols, and the TOML files that people read and edit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_args

from wardround.clinical.protocols.facts import is_same_action
from wardround.clinical.vocabulary import clinical_name, drug_class, drug_name, is_drug, may_hold
from wardround.core import UserError, canonical_json, content_hash, read_toml, strict, write_atomically

# Rules as people write and read them, and the protocol that holds them.
#
# An action is a verb and a name: ``start`` and ``stop`` a drug, ``order`` a laboratory test, ``perform`` a procedure.
# ``avoid`` and ``hold`` name actions that are excluded while the rule holds: for good, or until later.


ActionKind = Literal["MEDICATIONS", "LABS", "PROCEDURES"]
Verb = Literal["start", "stop", "order", "perform", "avoid", "hold"]
Dose = Literal["low-dose", "medium-dose", "high-dose"]
KINDS: Mapping[str, ActionKind] = {
    "start": "MEDICATIONS",
    "stop": "MEDICATIONS",
    "order": "LABS",
    "perform": "PROCEDURES",
}
FORBIDDING: tuple[Verb, ...] = ("avoid", "hold", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleAction:
    """One action of a rule: ``start low-dose norepinephrine``."""

    verb: Verb
    name: str
    dose: Dose | None = None

    @classmethod
    def parse(cls, text: str) -> RuleAction:
        """Read an action; UserError if its verb is none."""
        verb, _, rest = text.strip().partition(" ")
        if verb.lower() not in get_args(Verb) or not rest.strip():
            raise UserError(f"action {text!r}: begin with one of {', '.join(get_args(Verb))}, then say what")
        first, _, name = rest.strip().partition(" ")
        if first.lower() in get_args(Dose) and name.strip():
            return cls(verb=verb.lower(), name=name.strip(), dose=first.lower())  # type: ignore[arg-type]
        return cls(verb=verb.lower(), name=rest.strip())  # type: ignore[arg-type]

    @property
    def kind(self) -> ActionKind | None:
        """The type of bundle of the action; None for an excluded action."""
        return KINDS.get(self.verb)

    @property
    def key(self) -> str:
        """The name in the form in which actions are compared: a drug's class or substance, else its clinical name."""
        if self.verb in ("start", "stop"):
            return drug_class(self.name) or drug_name(self.name)
        return drug_class(self.name) or clinical_name(self.name)

    def forbids(self, proposed: str) -> bool:
        """Return whether a proposal is, contains, or may be (as a class) the excluded action."""
        return self.verb in ("avoid", "hold", "stop") and (self.names(proposed) or may_hold(proposed, self.name))

    def names(self, done: str) -> bool:
        """Return whether something done, or predicted, is what the action names, or of the class that it names."""
        if self.verb in ("start", "stop"):
            return is_drug(done, self.name)
        return is_same_action(done, self.name)

    def __str__(self) -> str:
        return " ".join(part for part in (self.verb, self.dose, self.name) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOrigin:
    """Where a rule came from: ``origin`` is who made it, ``source`` a guideline, a run or a file."""

    origin: Literal["written", "counted", "reflected", "planted"] = "written"
    source: str = ""
    doi: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRule:
    """One rule.

    ``support``: training steps in which it asked for its first action. ``precision``: the share of these steps in which
    the action followed; None if it was not counted. ``shares``: the same for every action, if they were counted
    separately. ``weights``: action -> what the rule adds to the action's probability while it holds; the weights of all
    rules that hold are summed. ``suspects``: the problem that is suspected while the rule holds.
    """

    id: str
    category: str
    trigger: str
    actions: tuple[str, ...]
    text: str = ""
    suspects: str | None = None
    provenance: RuleOrigin = field(default_factory=RuleOrigin)
    support: int = 0
    precision: float | None = None
    shares: tuple[float, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.id or any(character.isspace() or character in "[]" for character in self.id):
            raise UserError(f"a rule's id must be one word without brackets, not {self.id!r}")
        if not self.actions:
            raise UserError(f"rule {self.id!r} has no action")
        for action in self.actions:
            RuleAction.parse(action)
        if self.precision is not None and not 0 <= self.precision <= 1:
            raise UserError(f"rule {self.id!r}: precision must be 0 to 1, not {self.precision}")
        if self.shares and len(self.shares) != len(self.actions):
            raise UserError(f"rule {self.id!r}: shares must be one for each of its {len(self.actions)} actions")
        if any(not 0 <= share <= 1 for share in self.shares):
            raise UserError(f"rule {self.id!r}: shares must be 0 to 1")
        for action, weight in self.weights.items():
            if RuleAction.parse(action).kind is None or not isfinite(weight):
                raise UserError(
                    f"rule {self.id!r}: weights.{action!r} must be a number for something that is asked for"
                )

    @property
    def wording(self) -> str:
        """The rule in words: its text, else a text built from its parts."""
        return self.text or f"IF {self.trigger} THEN {', '.join(self.actions)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class InducedFrom:
    """The subjects whose stays the rules were induced from: the training split of a seed and shares, of one source.

    A rule may not be shown for one of these subjects.
    """

    source: str
    store_digest: str
    benchmark_digest: str
    seed: int
    fractions: tuple[float, float, float]
    stays: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalProtocol:
    """The rules of an institution, frozen during a run. ``induced``: the subjects they were induced from, if any."""

    name: str
    rules: tuple[ProtocolRule, ...]
    about: str = ""
    induced: InducedFrom | None = None

    def __post_init__(self) -> None:
        ids = [rule.id for rule in self.rules]
        twice = sorted({rule_id for rule_id in ids if ids.count(rule_id) > 1}) if len(set(ids)) < len(ids) else []
        if twice:
            raise UserError(f"protocol {self.name!r} holds the id {', '.join(twice)} twice; give every rule its own")

    @property
    def digest(self) -> str:
        """Hash of all that it says, as its file would: names a frozen protocol whatever its file is called."""
        return content_hash(
            canonical_json(
                [
                    self.name,
                    self.about,
                    None if self.induced is None else asdict(self.induced),
                    [_rule_body(rule) for rule in self.rules],
                ]
            )
        )

    def with_rules(self, rules: tuple[ProtocolRule, ...]) -> GlobalProtocol:
        """Return the same protocol with other rules."""
        return replace(self, rules=rules)

    def __len__(self) -> int:
        return len(self.rules)


def _rule_body(rule: ProtocolRule) -> dict[str, Any]:
    """Return the whole content of a rule, with its shares in as many digits as files have."""
    body = asdict(rule)
    body["precision"] = None if rule.precision is None else round(rule.precision, 4)
    body["shares"] = [round(share, 4) for share in rule.shares]
    body["weights"] = {action: round(weight, 4) for action, weight in rule.weights.items()}
    return body


# A protocol as a TOML file that people read and edit, read strictly and written the same way every time.


SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Planting:
    """What ``synth --plant`` plants beside the rules: ``flips``, the share of results that meet a rule after which
    another result turns the evidence; ``corrections``: the share of them that are corrected later, and then do not."""

    flips: float = 0.0
    corrections: float = 0.0

    def __post_init__(self) -> None:
        for name, share in (("flips", self.flips), ("corrections", self.corrections)):
            if not 0 <= share <= 1:
                raise UserError(f"planting.{name} must be 0 to 1, not {share}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    schema: int
    name: str
    about: str = ""
    induced: InducedFrom | None = None
    planting: Planting = field(default_factory=Planting)
    rule: tuple[ProtocolRule, ...] = ()


def read_protocol(path: Path) -> GlobalProtocol:
    """Read a protocol; UserError names the file, and the rule and field that are wrong."""
    body = _read(path)
    return GlobalProtocol(name=body.name, rules=body.rule, about=body.about, induced=body.induced)


def read_planting(path: Path) -> Planting:
    """Read what a file asks to be planted beside its rules; nothing if it says nothing."""
    return _read(path).planting


def _read(path: Path) -> _Body:
    body = strict(_Body, read_toml(path), str(path))
    if body.schema != SCHEMA:
        raise UserError(f"{str(path)!r} has protocol schema {body.schema}, this version reads {SCHEMA}")
    return body


def write_protocol(path: Path, protocol: GlobalProtocol) -> None:
    """Write a protocol whole or not at all."""
    write_atomically(path, protocol_text(protocol))


def protocol_text(protocol: GlobalProtocol) -> str:
    """Return the file's text."""
    head = [f"schema = {SCHEMA}", f"name = {_text(protocol.name)}"]
    if protocol.about:
        head.append(f"about = {_text(protocol.about)}")
    if protocol.induced is not None:
        induced = asdict(protocol.induced) | {"fractions": list(protocol.induced.fractions)}
        head += ["", "[induced]", *(f"{name} = {json.dumps(value)}" for name, value in induced.items())]
    return "\n".join([*head, *(line for rule in protocol.rules for line in _rule_lines(rule))]) + "\n"


def _rule_lines(rule: ProtocolRule) -> Iterator[str]:
    yield from ("", "[[rule]]", f"id = {_text(rule.id)}", f"category = {_text(rule.category)}")
    yield f"trigger = {_text(rule.trigger)}"
    yield f"actions = [{', '.join(map(_text, rule.actions))}]"
    if rule.text:
        yield f"text = {_text(rule.text)}"
    if rule.suspects:
        yield f"suspects = {_text(rule.suspects)}"
    if rule.support:
        yield f"support = {rule.support}"
    if rule.precision is not None:
        yield f"precision = {round(rule.precision, 4)}"
    if rule.shares:
        yield f"shares = {json.dumps([round(share, 4) for share in rule.shares])}"
    if rule.weights:
        written = (f"{_text(action)} = {round(weight, 4)}" for action, weight in rule.weights.items())
        yield f"weights = {{ {', '.join(written)} }}"
    provenance = {"origin": rule.provenance.origin, "source": rule.provenance.source, "doi": rule.provenance.doi}
    yield f"provenance = {{ {', '.join(f'{name} = {_text(value)}' for name, value in provenance.items() if value)} }}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
