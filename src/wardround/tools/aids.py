"""Aids: what a session does for a language model beyond what the papers' tools do. Each can be switched off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

from wardround.core import UserError, setting
from wardround.core.suggestions import unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Aids:
    """All are on by default and off in a paper's preset (``Aids.none()``, ``--aids none``).

    ``answer_rules``: a prompt says how answers are counted and how many are usual. ``candidate_order``: candidates in
    use come first, a panel is expanded, a clear hit stands alone. ``answer_check``: finish refuses once what is no
    candidate. ``written_calls``: a call written as text is run, an empty reply is never the answer. ``short_pages``:
    pages without the columns that say nothing new; tables with their columns; the task's candidate table only.
    ``bound_labels``: where a reply holds none of a question's labels, one is asked for with the reply bound to them.
    """

    answer_rules: bool = setting(True, "a prompt says how answers are counted and how many are usual")
    candidate_order: bool = setting(True, "candidates in use first, a panel expanded, a clear hit alone")
    answer_check: bool = setting(True, "finish refuses once what is no candidate")
    written_calls: bool = setting(True, "a call written as text is run, an empty reply is never the answer")
    short_pages: bool = setting(True, "pages without what says nothing new; the task's candidate table only")
    bound_labels: bool = setting(True, "an answer without a label is asked for once more, bound to the labels")

    @classmethod
    def none(cls) -> Aids:
        """The tools as the papers have them."""
        return cls(**dict.fromkeys(AID_NAMES, False))

    @classmethod
    def named(cls, names: Iterable[str]) -> Aids:
        """Return those named, and no others; "all" and "none" stand for themselves."""
        wanted = set(names)
        for name in sorted(wanted - {"all", "none", *AID_NAMES}):
            raise UserError(unknown("aid", name, ("all", "none", *AID_NAMES)))
        if wanted & {"all", "none"} and len(wanted) > 1:
            raise UserError("aids are all, none, or some by name")
        return cls(**{name: "all" in wanted or name in wanted for name in AID_NAMES})

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are on."""
        return tuple(name for name, on in asdict(self).items() if on)


AID_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Aids))
