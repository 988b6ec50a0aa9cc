"""The vocabulary of laboratory spaces: trade and lay words, words that say nothing, orders of several tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from wardround.codes import LabelSet, load_lab_words, load_panels, normalise_label
from wardround.tools.candidates.expansions import PhraseTable

LABORATORY = "laboratory"
FEWEST_MEMBERS = 2


@cache
def lab_phrases() -> PhraseTable:
    """The words, indexed once."""
    return PhraseTable.build(load_lab_words())


def panel_members(text: str, labels: LabelSet, uses: Sequence[int] | None) -> list[str]:
    """The labels that an order stands for, in the panel's order; empty where the text names none.

    Of several spellings that are labels the one most in use stands for a member.
    """
    wanted = normalise_label(text)
    words = load_lab_words()
    bare = " ".join(token for token in wanted.split() if words.get(token) != ("",))
    panel = load_panels().get(wanted) or load_panels().get(bare) or ()
    number = {label: place for place, label in enumerate(labels.labels)}
    found: list[str] = []
    for spellings in panel:
        known = [label for spelling in spellings if (label := labels.resolve(spelling)) is not None]
        if known:
            found.append(max(known, key=lambda label: 0 if uses is None else int(uses[number[label]])))
    found = list(dict.fromkeys(found))
    return found if len(found) >= FEWEST_MEMBERS else []
