"""TRACE's roles in code over a live stream: predictions after every bundle, and the Auditor's findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.agents.stays import CodedRoles, RuleMemory, coded_roles
from wardround.clinical.bundles import BundleEvent, Carried, PatientState
from wardround.clinical.bundles.fold import DRUGS, PROCEDURES, TESTS
from wardround.core import canonical_json, content_hash


@dataclass(frozen=True, slots=True)
class CodedResponder:
    """Predicts after a bundle as the roles in code do in a stay.

    A stay begins with an admission: the memory of rules begins anew then, the state goes on.
    """

    roles: CodedRoles

    @property
    def digest(self) -> str:
        """Identifies protocol, kinds and units: a ledger with another digest is refused."""
        carried = self.roles.carried
        kinds = ",".join(str(int(kind)) for kind in sorted(carried.kinds))
        units = content_hash(canonical_json(carried.units)) if carried.units else ""
        return "+".join(filter(None, (self.roles.index.protocol.digest, kinds, units)))

    @property
    def rules(self) -> Mapping[str, str]:
        """Each rule in words by its id, for people who read the output."""
        rules = self.roles.index.protocol.rules
        return {rule.id: f"{rule.trigger}: {', '.join(rule.actions)}" for rule in rules}

    def __call__(
        self,
        events: tuple[BundleEvent, ...],
        state: PatientState,
        memory: RuleMemory,
    ) -> Mapping[str, Any]:
        """Return the predictions after a bundle, the rules that hold, the rows of each rule, and the audit."""
        assert state.hour is not None  # a bundle was folded into it
        step = self.roles.play(state, state.hour, memory)
        return {**step.to_json(), "rows": {rule: list(rows) for rule, rows in step.rows.items()}}

    def remember(self, events: tuple[BundleEvent, ...], state: PatientState, memory: RuleMemory) -> None:
        """Update the memory with a bundle as a call does, without predicting."""
        assert state.hour is not None  # a bundle was folded into it
        self.roles.remember(state, state.hour, memory)


CARRIES = {"drugs": DRUGS, "tests": TESTS, "procedures": PROCEDURES}
"""What a feed may be declared to carry: an action of these kinds that it does not report was not done."""
NO_UNITS: Mapping[str, Mapping[str, int]] = {}


def coded_responder(
    protocol: Path, carries: Iterable[str] = (), units: Mapping[str, Mapping[str, int]] = NO_UNITS
) -> CodedResponder:
    """Return a responder for a protocol file. UserError: the file cannot be read.

    ``carries``: names of ``CARRIES``; actions of other kinds are unknown until a patient's first one is reported;
    ``units``: those of a store of the same source (``Carried.units``).
    """
    kinds = frozenset(kind for name in carries for kind in CARRIES[name])
    return CodedResponder(coded_roles(protocol, Carried(kinds=kinds, units=units)))
