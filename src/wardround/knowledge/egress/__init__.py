"""What may leave the machine: the guard, the ways in which a text can be read, and what an open record is known by."""

from wardround.knowledge.egress.fingerprint import Fingerprint, fingerprint_of
from wardround.knowledge.egress.guard import NO_ADDRESS, Egress, EgressGuard, identifying_traits
from wardround.knowledge.egress.readings import Reading, Trust, readings

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
