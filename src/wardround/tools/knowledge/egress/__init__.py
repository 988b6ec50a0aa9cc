"""What may leave the machine: the guard, the ways in which a text can be read, and what an open record is known by."""

from wardround.tools.knowledge.egress.fingerprint import Fingerprint, fingerprint_of
from wardround.tools.knowledge.egress.guard import NO_ADDRESS, Egress, EgressGuard, identifying_traits
from wardround.tools.knowledge.egress.readings import Reading, Trust, readings

__all__ = [
    "NO_ADDRESS",
    "Egress",
    "EgressGuard",
    "Fingerprint",
    "Reading",
    "Trust",
    "fingerprint_of",
    "identifying_traits",
    "readings",
]
