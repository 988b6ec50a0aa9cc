"""TRACE's roles in code over a live stream: what is foretold after every bundle, and what the Auditor says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.agents.stays import DRUGS, PROCEDURES, TESTS, CodedRoles, RuleMemory, coded_roles
from wardround.clinical.bundles import BundleEvent, Carried, PatientState
from wardround.core import canonical_json, content_hash


@dataclass(frozen=True, slots=True)
class CodedResponder:
    """Answers a bundle as the roles of a stay that is played do. A stay begins with an admission: what rules are
    remembered by begins then, the state goes on."""

    roles: CodedRoles

    @property
    def digest(self) -> str:
        """What a stream with another protocol is told from this one by."""
        carried = self.roles.carried
        kinds = ",".join(str(int(kind)) for kind in sorted(carried.kinds))
        units = content_hash(canonical_json(carried.units)) if carried.units else ""
        return "+".join(filter(None, (self.roles.index.protocol.digest, kinds, units)))

    @property
    def rules(self) -> Mapping[str, str]:
        """Each rule in words, for people who read what is told."""
        rules = self.roles.index.protocol.rules
        return {rule.id: f"{rule.trigger}: {', '.join(rule.actions)}" for rule in rules}

    def __call__(
        self,
        events: tuple[BundleEvent, ...],
        state: PatientState,
        memory: RuleMemory,
    ) -> Mapping[str, Any]:
        """Return what is foretold after a bundle, the rules that it stands on, on which rows these, and the audit."""
        assert state.hour is not None  # a bundle was folded into it
        step = self.roles.play(state, state.hour, memory)
        return {**step.to_json(), "rows": {rule: list(rows) for rule, rows in step.rows.items()}}

    def remember(self, events: tuple[BundleEvent, ...], state: PatientState, memory: RuleMemory) -> None:
        """Remember a bundle as when it was answered."""
        assert state.hour is not None  # a bundle was folded into it
        self.roles.remember(state, state.hour, memory)


CARRIES = {"drugs": DRUGS, "tests": TESTS, "procedures": PROCEDURES}
"""What a feed may be said to carry: what of it was not told was not done."""
NO_UNITS: Mapping[str, Mapping[str, int]] = {}


def coded_responder(
    protocol: Path, carries: Iterable[str] = (), units: Mapping[str, Mapping[str, int]] = NO_UNITS
) -> CodedResponder:
    """Return what answers by a protocol file. UserError: it cannot be read.

    ``carries``: names of ``CARRIES``; of what is not among them nothing is known until a patient's first is told;
    ``units``: those of a store of the same source (``Carried.units``).
    """
    kinds = frozenset(kind for name in carries for kind in CARRIES[name])
    return CodedResponder(coded_roles(protocol, Carried(kinds=kinds, units=units)))
