"""A protocol as a TOML file that people read and edit, read strictly and written the same way every time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from wardround.core import UserError, read_toml, strict, write_atomically
from wardround.protocols.rules import GlobalProtocol, InducedFrom, ProtocolRule

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
    """Read what a file asks to be planted beside its rules; nothing where it says nothing."""
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
        said = asdict(protocol.induced) | {"fractions": list(protocol.induced.fractions)}
        head += ["", "[induced]", *(f"{name} = {json.dumps(value)}" for name, value in said.items())]
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
    said = {"origin": rule.provenance.origin, "source": rule.provenance.source, "doi": rule.provenance.doi}
    yield f"provenance = {{ {', '.join(f'{name} = {_text(value)}' for name, value in said.items() if value)} }}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
