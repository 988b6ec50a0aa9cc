"""A protocol as a TOML file that people read and edit, read strictly and written the same way every time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from wardround.core import UserError, read_toml, strict, write_atomically
from wardround.protocols.rules import GlobalProtocol, InducedFrom, ProtocolRule

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    schema: int
    name: str
    about: str = ""
    induced: InducedFrom | None = None
    rule: tuple[ProtocolRule, ...] = ()


def read_protocol(path: Path) -> GlobalProtocol:
    """Read a protocol; UserError names the file, and the rule and field that are wrong."""
    body = strict(_Body, read_toml(path), str(path))
    if body.schema != SCHEMA:
        raise UserError(f"{str(path)!r} has protocol schema {body.schema}, this version reads {SCHEMA}")
    return GlobalProtocol(name=body.name, rules=body.rule, about=body.about, induced=body.induced)


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
