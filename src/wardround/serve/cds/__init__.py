"""CDS Hooks 2.0: the answers of a finished run as cards for a hospital's system, and what its users did with them.

Needs the extra ``[view]``. Cards hold record text: they are patient data. Research, not for care.
"""

from wardround.serve.cds.app import cds_app
from wardround.serve.cds.cards import PreparedCard, prepare_cards
from wardround.serve.cds.feedback import FeedbackFile
from wardround.serve.cds.services import CardShelf

__all__ = ["CardShelf", "FeedbackFile", "PreparedCard", "cds_app", "prepare_cards"]
