"""CDS Hooks 2.0: the answers of a finished run as cards for a hospital's system, and the feedback of its users.

Needs the extra ``[view]``. Cards contain record text: they are patient data. For research, not for care.
"""

from wardround.serve.cds.app import FeedbackFile, cds_app
from wardround.serve.cds.cards import PreparedCard, prepare_cards
from wardround.serve.cds.services import CardShelf
from wardround.serve.cds.signing import SignedCallers, TrustSettings, read_trust, trust_of

__all__ = [
    "CardShelf",
    "FeedbackFile",
    "PreparedCard",
    "SignedCallers",
    "TrustSettings",
    "cds_app",
    "prepare_cards",
    "read_trust",
    "trust_of",
]
