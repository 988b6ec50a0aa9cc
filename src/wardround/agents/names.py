"""How an agent's name is spelt: ``<method>``, and after every ``+`` something it is given: ``retrosum+ether+tool``."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.core import UserError

_PLUS = "+"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentName:
    """The parts of a name: the method, and what is added to it, in this order and each once."""

    method: str
    additions: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> AgentName:
        """Take a name apart; UserError where it names something twice. Whether the parts exist is not asked here."""
        method, *additions = text.split(_PLUS)
        if len(set(additions)) < len(additions):
            raise UserError(f"{text!r} names something twice")
        return cls(method=method, additions=tuple(additions))

    def __str__(self) -> str:
        return _PLUS.join((self.method, *self.additions))
