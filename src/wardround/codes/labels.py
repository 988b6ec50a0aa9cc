"""Labels: the closed set of names an answer may take, and how a spelling is matched to one."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from wardround.core import UserError

SCHEMA = 1
_MARKS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", None),
    }
)


@lru_cache(maxsize=16_384)
def normalise_label(text: str) -> str:
    """The form in which labels are compared: NFKC, case folded, plain quotes and dashes, single inner spaces.

    >>> normalise_label("  Parkinson\u2019s   Disease \u2013 late ")
    "parkinson's disease - late"
    """
    if text.isascii():
        return " ".join(text.replace("`", "'").lower().split())
    folded = unicodedata.normalize("NFKC", text.translate(_MARKS)).casefold().translate(_MARKS)
    return " ".join(unicodedata.normalize("NFKC", folded).split())


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSet:
    """The labels of one answer space. ``aliases`` maps further spellings to labels.

    A spelling that two labels could claim resolves to neither, except that a label always resolves to itself.
    """

    name: str
    labels: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    _index: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", _index(self.labels, self.aliases))

    def resolve(self, text: str) -> str | None:
        """The label that ``text`` names, or None."""
        return self._index.get(normalise_label(text))

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and self.resolve(text) is not None

    def to_json(self) -> dict[str, object]:
        """Plain data, with its schema version."""
        return {"schema": SCHEMA, "name": self.name, "labels": list(self.labels), "aliases": dict(self.aliases)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> LabelSet:
        """The reverse of ``to_json``; UserError on another schema."""
        labels, aliases = data.get("labels"), data.get("aliases")
        if data.get("schema") != SCHEMA or not isinstance(labels, list) or not isinstance(aliases, dict):
            raise UserError(f"not a label set of schema {SCHEMA}: {str(data)[:80]!r}; build it again")
        return cls(name=str(data["name"]), labels=tuple(labels), aliases=aliases)

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(self.to_json(), ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> LabelSet:
        """Read what ``save`` wrote."""
        return cls.from_json(json.loads(path.read_text(encoding="utf-8")))


def distinct_labels(texts: Iterable[str]) -> tuple[str, ...]:
    """Sorted labels, one per normalised form (the first spelling in sort order stands for all), blanks left out."""
    first: dict[str, str] = {}
    for text in sorted({" ".join(text.split()) for text in texts}):
        if text:
            first.setdefault(normalise_label(text), text)
    return tuple(sorted(first.values()))


def _index(labels: Iterable[str], aliases: Mapping[str, str]) -> dict[str, str]:
    index = {normalise_label(label): label for label in labels}
    claims: dict[str, set[str]] = {}
    for alias, label in aliases.items():
        claims.setdefault(normalise_label(alias), set()).add(label)
    for alias, claimed in claims.items():
        if len(claimed) == 1:
            index.setdefault(alias, next(iter(claimed)))
    return index
