"""Variants: an agent under several names in one run, each with settings of its own.

[agent.narrow]
method = "retrosum"
window = 3
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from wardround.agents import ADDITIONS, AGENTS, AgentName, Method
from wardround.core import UserError, strict
from wardround.runs.names import merged

METHOD = "method"
"""What a section of settings says that makes a variant of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """An agent by a name of a run's own: what it is made of (``retrosum``, ``react+ether``), and its settings."""

    method: str
    settings: Any

    def spelling(self, additions: tuple[str, ...]) -> str:
        """Return the registered name of it with what a run adds to it besides."""
        own = AgentName.parse(self.method)
        return str(AgentName(method=own.method, additions=(*own.additions, *additions)))

    def note(self, name: str) -> str:
        """Say in one line what it is, with the settings that are not as declared."""
        declared = asdict(_method(self.method).settings())
        other = {key: value for key, value in asdict(self.settings).items() if declared[key] != value}
        said = ", ".join(f"{key} = {value}" for key, value in other.items()) or "its settings as declared"
        return f"{name} is {self.method} with {said}"

    def to_json(self) -> dict[str, Any]:
        """Return its section as it is written."""
        return {METHOD: self.method, **asdict(self.settings)}


def is_variant(section: Any) -> bool:
    """Whether a section of ``agent`` in a file makes a variant."""
    return isinstance(section, Mapping) and METHOD in section


def read_variant(name: str, body: Mapping[str, Any], sections: Mapping[str, Any], where: str) -> Variant:
    """Read one; what it does not say is as in the section of its method among ``sections``. UserError names what is
    wrong: a name that is taken, a method that is not there, a setting that it has not."""
    place = f"{where} [agent.{name}]"
    if name in AGENTS or name in (method.section_name for method in AGENTS.registered):
        raise UserError(f"{place}: {name!r} is an agent of its own; give the variant another name")
    if not name or any(mark in name for mark in "+|"):
        raise UserError(f"{place}: a variant's name holds neither '+' nor '|'")
    spelling = body[METHOD]
    if not isinstance(spelling, str):
        raise UserError(f"{place}: {METHOD} names an agent (wardround list agents), not {spelling!r}")
    method = _method(spelling)
    own = {key: value for key, value in body.items() if key != METHOD}
    common = sections.get(method.section_name, {})
    return Variant(method=spelling, settings=strict(method.settings, merged(common, own), place))


def _method(spelling: str) -> Method:
    parsed = AgentName.parse(spelling)
    for addition in parsed.additions:
        ADDITIONS.get(addition)
    return AGENTS.get(parsed.method)
