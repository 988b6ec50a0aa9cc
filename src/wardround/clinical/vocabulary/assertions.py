"""Detect the assertion of each word of a clinical sentence: present, denied, possible, past, the family's, or none.

Cue words (``data/assertion_cues.tsv``) act on the words after or before them, to the end of their clause. The design
follows NegEx and ConText (Chapman et al. 2001; Harkema et al. 2009); the cues and rules are our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wardround.clinical.vocabulary.cues import Cue, SectionKind, WordToken, cues_in, sections_of, tokens_of
from wardround.clinical.vocabulary.tables import named_words

Status = Literal["present", "absent", "possible", "past", "family", "risk"]
Standing = Literal["present", "absent", "possible", "past", "family", "risk", "history", "listed", "other"]
_SENTENCE_END = re.compile(
    r"(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bvs)(?<!\bSt)[.!?](?=\s+[^a-z\s]|\s*$|,\s?[A-Z0-9])|;|\n(?!\s*[a-z])"
)
_RECENT = re.compile(
    r"\b(?:recent|recently|yesterday|last week|this week|(?:days?|weeks?|hours?) (?:ago|earlier|prior)|"
    r"postoperative day)\b",
    re.IGNORECASE,
)
_SEPARATORS = frozenset((",", "and", "or", "nor", "as", "/"))
_VERBS = named_words("verbs")
_SUBJECTS = named_words("subjects")
_PRONOUNS = frozenset(["he", "she", "they", "we", "patient", "pt"])
_KIN = named_words("kin")
_KIN_LINKS = named_words("kin_links")
_KIN_SPEAKS = named_words("kin_speaks")
_ONSET = named_words("onset")
_ORDERS = named_words("orders")
_ORDER_BEGINS = frozenset(",;:-\u2013)(") | frozenset(
    ("and", "then", "please", "will", "would", "to", "should", "can", "may", "or")
)
_KEPT = frozenset(("continue", "keep", "maintain"))
_CONDITIONS = frozenset(("if", "unless", "when", "once", "until"))
_OFTEN = frozenset(("daily", "a", "per", "every", "weekly", "nightly", "more", "again", ",", "."))
_AFTER_NOUN = frozenset(("of", "in", "was", "were", "is", "are", "has", "had"))
_BOUNDS = frozenset(("<", ">", "\u2264", "\u2265", "below", "above"))
_DENIALS = frozenset(("none", "no", "denies", "denied", "negative", "absent", "nil", "never", "n"))
_OF_FAMILY: Mapping[str, Standing] = {"family": "family", "history": "listed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Words of one sentence with the same assertion."""

    tokens: tuple[WordToken, ...]
    standing: Standing
    section: SectionKind = ""
    is_recent: bool = False

    @property
    def span(self) -> tuple[int, int]:
        """The span in the text."""
        return self.tokens[0].start, self.tokens[-1].end


@dataclass(slots=True)
class _Sentence:
    """One sentence while it is read: its tokens, its cues, and the cues that act on each token."""

    tokens: list[WordToken]
    default: Standing
    cues: list[Cue] = field(default_factory=list)
    acting: list[set[str]] = field(default_factory=list)
    closing: list[set[str]] = field(default_factory=list)


def statements_of(text: str, section: SectionKind = "") -> Iterator[Statement]:
    """Cut a text into statements: headings open sections, sentences end, cue words are left out."""
    for part in sections_of(text, section):
        for start, end in _sentences(text, part.start, part.end):
            yield from _statements(text, start, end, part.kind)


def sentences_of(text: str) -> Iterator[tuple[int, int]]:
    """Return the spans of the sentences of a text."""
    return _sentences(text, 0, len(text))


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for found in _SENTENCE_END.finditer(text, start, end):
        if found.end() > start:
            yield start, found.end()
        start = found.end()
    if start < end:
        yield start, end


def _statements(text: str, start: int, end: int, section: SectionKind) -> Iterator[Statement]:
    tokens = [_as_dash(token, text) for token in tokens_of(text, start, end)]
    if not any(token.is_word for token in tokens):
        return
    default = _OF_FAMILY.get(section, "present")
    if default == "family" and _is_of_patient(tokens):
        default = "present"
    sentence = _Sentence(tokens, default)
    sentence.acting = [set() for _ in tokens]
    sentence.closing = [set() for _ in tokens]
    sentence.cues = list(cues_in(tokens))
    in_cue = _act(sentence)
    standings = [_standing(sentence, place) for place in range(len(tokens))]
    if tokens[-1].text == "?" and "?" not in [token.text for token in tokens[:1]]:
        standings = [
            "possible" if assertion in ("present", "history", "listed") else assertion for assertion in standings
        ]
    is_recent = _RECENT.search(text, start, end) is not None
    words: list[WordToken] = []
    standing = standings[0]
    for place, token in enumerate(tokens):
        breaks = place in in_cue or not token.is_word or token.text in ("and", "or", "nor")
        if token.text in ("-", "'", "(", ")", "/") and words and place + 1 < len(tokens) and place not in in_cue:
            breaks = token.text == "/" or (token.text in "()" and not _is_short_aside(tokens, place))
            if not breaks:
                continue
        if words and (breaks or standings[place] != standing):
            yield Statement(tokens=tuple(words), standing=standing, section=section, is_recent=is_recent)
            words = []
        if not breaks:
            words.append(token)
            standing = standings[place]
    if words:
        yield Statement(tokens=tuple(words), standing=standing, section=section, is_recent=is_recent)


def _as_dash(token: WordToken, text: str) -> WordToken:
    """Return a hyphen between spaces as the dash that it stands for: it joins no words ("chest pain - leg ulcer")."""
    around = text[max(0, token.start - 2) : token.end + 1]
    is_dash = token.text == "-" and around[1:] == " - " and around[0] not in ",;:"  # after a comma it may deny
    return replace(token, text="\u2013") if is_dash else token


def _is_of_patient(tokens: Sequence[WordToken]) -> bool:
    """Return whether a sentence in a section on the family speaks of the patient."""
    words = [token.text for token in tokens if token.is_word]
    begins = words[:1] != [] and (words[0] in ("he", "she", "patient") or words[:2] == ["the", "patient"])
    return begins and not any(word.removesuffix("'s") in _KIN or word == "family" for word in words)


def _is_short_aside(tokens: Sequence[WordToken], place: int) -> bool:
    """Return whether a bracket holds one plain word ("systolic (congestive) heart failure")."""
    if tokens[place].text == ")":
        return place >= 2 and tokens[place - 2].text == "("
    return place + 2 < len(tokens) and tokens[place + 2].text == ")" and tokens[place + 1].text.isalpha()


def _act(sentence: _Sentence) -> set[int]:
    """Apply every cue; return the positions of the words of cues."""
    tokens = sentence.tokens
    cue_places = {place for cue in sentence.cues if _is_only_cue(cue, tokens) for place in range(cue.start, cue.end)}
    for cue in sentence.cues:
        if cue.direction in ("after", "both") or (cue.direction == "before" and not cue.start):
            _act_after(sentence, cue, cue_places)
        if cue.direction in ("before", "both"):
            _act_before(sentence, cue, cue_places)
        if cue.direction == "beside":
            for place in range(cue.start - 1, max(-1, cue.start - 5), -1):
                if place in cue_places or not tokens[place].is_word or tokens[place].text in _VERBS:
                    break
                sentence.closing[place].add(cue.standing)
    _act_kin(sentence, cue_places)
    _act_marks(sentence, cue_places)
    _act_orders(sentence)
    return cue_places


def _is_only_cue(cue: Cue, tokens: Sequence[WordToken]) -> bool:
    """Return whether a cue's words are only a cue."""
    return cue.direction != "beside" and not tokens[cue.start].text.startswith("postop")


def _act_after(sentence: _Sentence, cue: Cue, cue_places: set[int]) -> None:
    if cue.standing in ("end", "nothing"):
        return
    tokens, separated, content = sentence.tokens, False, 0
    for place in range(cue.end, len(tokens)):
        token = tokens[place].text
        other = next(
            (later_cue for later_cue in sentence.cues if later_cue.start == place and later_cue is not cue), None
        )
        if other is not None:
            if other.standing == "end" or (
                content and other.direction in ("after", "both") and _ends(cue, other, separated)
            ):
                return
            if content and other.standing == "nothing" and separated:
                return
        if place in cue_places:
            separated = False
            continue
        if token in _VERBS and content and (cue.standing not in ("family", "other") or separated):
            return
        if separated and token in (_SUBJECTS if cue.standing != "other" else _PRONOUNS) and token != "or":
            return
        if token in (":", "("):
            separated = False
        if token in _SEPARATORS:
            separated = True
        elif tokens[place].is_word and token not in ("any", "a", "an", "the"):
            content += 1
            if content > 1 or tokens[place].text not in (*_SUBJECTS, "any"):
                separated = False
        sentence.acting[place].add(cue.standing)


def _ends(cue: Cue, other: Cue, separated: bool) -> bool:
    """Return whether a later cue ends the reach of an earlier one."""
    if cue.standing in ("family", "other"):
        return separated and other.standing in ("present", "family", "other")
    return separated or other.standing in ("present", "absent")


def _act_before(sentence: _Sentence, cue: Cue, cue_places: set[int]) -> None:
    tokens = sentence.tokens
    if cue.end < len(tokens) and tokens[cue.end].text == "for" and cue.standing == "absent":
        return
    reach: list[int] = []
    listed = False
    for place in range(cue.start - 1, -1, -1):
        if place in cue_places:
            if any(one.standing == "end" and one.start <= place < one.end for one in sentence.cues):
                break
            if cue.standing == "present" or not reach:
                reach = reach if _is_asserted(sentence, cue, place) else []
            break
        token = tokens[place].text
        if token in ("and", "or", "nor", ",") and reach:
            rest = [one.text for one in tokens[:place]]
            if token == "," and not listed:
                break
            if any(word in _VERBS for word in rest):
                break
            listed = True
        if token in _VERBS and reach:
            break
        if token in (":", ")", "\u2013"):
            break
        reach.append(place)
    if cue.standing == "past" and any(tokens[place].text in _ONSET for place in range(cue.start)):
        return
    if cue.standing == "present" and any(tokens[place].text in ("or", "nor") for place in reach):
        return
    for place in reach:
        sentence.closing[place].add(cue.standing)


def _is_asserted(sentence: _Sentence, cue: Cue, place: int) -> bool:
    """Return whether the words between an earlier cue and this one may still belong to this one."""
    if cue.standing != "present":
        return True
    earlier = next(earlier_cue for earlier_cue in sentence.cues if earlier_cue.start <= place < earlier_cue.end)
    return earlier.standing in ("present", "nothing", "history")


def _act_kin(sentence: _Sentence, cue_places: set[int]) -> None:
    """Mark a relative's findings, and what is stated about a relative."""
    tokens = sentence.tokens
    words = [token.text for token in tokens]
    for place, word in enumerate(words):
        owner = word.removesuffix("'s")
        is_family = word in ("family", "first", "second") and words[place + 1 : place + 2] in (
            ["members"],
            ["member"],
            ["-"],
        )
        if word == "first" and "relative" not in words[place : place + 5]:
            is_family = False
        if owner not in _KIN and not is_family:
            continue
        after = place + 1
        while after < len(words) and words[after] in (
            "members",
            "member",
            "-",
            "degree",
            "relative",
            "relatives",
            "also",
            "both",
        ):
            after += 1
        link = words[after] if after < len(words) else ""
        if (
            link == "of"
            and words[after + 1 : after + 2]
            and (words[after + 1].isdigit() or words[after + 1] in ("two", "three", "four", "one", "a"))
        ):
            continue
        before = words[max(0, place - 3) : place]
        if "in" in before or "among" in before:
            for earlier in range(place - 1, -1, -1):
                if (
                    earlier in cue_places
                    and sentence.cues
                    and any(c.standing == "end" and c.start <= earlier < c.end for c in sentence.cues)
                ):
                    break
                sentence.acting[earlier].add("family")
        belongs = word.endswith("'s") and link in ("medical", "history", "past", "health", "family")
        linked = link in _KIN_LINKS or belongs
        if link in ("was", "is", "were", "are"):
            linked = (
                words[after + 1 : after + 2] != []
                and words[after + 1] not in _KIN_SPEAKS
                and words[after + 1] not in ("present", "at", "concerned", "worried", "here", "not")
            )
        if (
            link in (",", "(", "-", ":")
            and any(one in _KIN_SPEAKS for one in words[after : after + 8])
            and "who" not in words[after : after + 2]
        ):
            linked = False
        if link == "," and words[after + 1 : after + 2] != [] and words[after + 1] in _PRONOUNS:
            linked = False
        if link == "with" and before[-1:] != [] and before[-1] in ("by", "from"):
            linked = False
        if not linked:
            continue
        relative = "who" in words[after : after + 2]
        separated = False
        for later in range(after, len(words)):
            one = words[later]
            if separated and (one in _PRONOUNS or (one in _KIN_SPEAKS) or (relative and one in _VERBS)):
                break
            if later in cue_places and any(
                c.standing == "end" and c.start == later and words[later] == "but" for c in sentence.cues
            ):
                break
            separated = (one in (",", "and", ";") and later > after) or (separated and one in ("the", "now", "a"))
            sentence.acting[later].add("family")


def _act_marks(sentence: _Sentence, cue_places: set[int]) -> None:
    """Apply marks and years that assert: ``Edema: none``, ``+ cough, - rash`` and ``surgery in 2012``."""
    words = [token.text for token in sentence.tokens]
    last = len(words) - 1 - (words[-1] == ".")
    if last >= 2 and words[last - 1] in (":", "-", "\u2013") and words[last] in _DENIALS:
        for place in range(last - 1):
            sentence.closing[place].add("absent")
        cue_places.add(last)
    if any(word == "+" and (not place or words[place - 1] == ",") for place, word in enumerate(words)):
        for place, word in enumerate(words[:-1]):
            if word in ("+", "-") and (not place or words[place - 1] == ",") and words[place + 1][0].isalpha():
                end = next((later for later in range(place + 1, len(words)) if words[later] in (",", ".")), len(words))
                for later in range(place + 1, end):
                    sentence.acting[later].add("absent" if word == "-" else "present")
    for place, word in enumerate(words[:-1]):
        if word == "non":
            after = place + 1 + (words[place + 1] == "-")
            rest = words[after + 1] if after + 1 < len(words) else "."
            if after < len(words):
                alone = not rest[0].isalnum() or rest in (
                    "patient",
                    "male",
                    "female",
                    "man",
                    "woman",
                    "and",
                    "with",
                    "who",
                )
                sentence.acting[after].add("absent" if alone and rest != "-" else "other")
                cue_places.add(place)
    for place, word in enumerate(words):
        if re.fullmatch(r"(?:19|20)\d\d", word) and place and not set(words[:place]) & (_ONSET | {"diagnosed", "from"}):
            for earlier in range(place - 1, -1, -1):
                if words[earlier] in (",", ";", ":") or earlier in cue_places:
                    break
                sentence.closing[earlier].add("past")


def _act_orders(sentence: _Sentence) -> None:
    """An order under a condition states neither: ``start heparin when INR < 2``, ``if febrile, start vancomycin``.

    What is continued is there, until its condition holds.
    """
    words = [token.text for token in sentence.tokens]
    begins = next(place for place, token in enumerate(sentence.tokens) if token.is_word)
    if _supposes(words, begins):
        ordered = words.index(",", begins) + 1 if "," in words[begins:] else len(words)
        _set_aside(sentence, begins, ordered if set(words[ordered : ordered + 1]) & _KEPT else len(words))
        return
    for place, word in enumerate(words):
        is_noun = not _AFTER_NOUN.isdisjoint(words[place + 1 : place + 2])  # "use of heparin", "dialysis was begun"
        if word not in _ORDERS or is_noun or (place > begins and words[place - 1] not in _ORDER_BEGINS):
            continue
        bound = next((later for later in range(place + 1, min(place + 5, len(words))) if words[later] in _BOUNDS), None)
        if word in ("keep", "maintain") and bound is not None:  # a goal: "keep MAP > 65 with norepinephrine"
            _set_aside(sentence, place, min(bound + 2, len(words)))
            return
        condition = next((later for later in range(place + 1, len(words)) if _is_condition(words, later)), None)
        if condition is not None:
            _set_aside(sentence, condition if word in _KEPT else place, len(words))
            return


def _supposes(words: Sequence[str], place: int) -> bool:
    """Return whether a sentence that begins at a word supposes something: ``should she become hypotensive``."""
    if words[place] == "should":
        return words[place + 1 : place + 2] != [] and words[place + 1] in (*_SUBJECTS, "you")
    return words[place] in ("if", "unless") or _is_case(words, place)


def _is_case(words: Sequence[str], place: int) -> bool:
    return " ".join(words[place : place + 4]).startswith(("in case of", "in the event of"))


def _is_condition(words: Sequence[str], place: int) -> bool:
    """Return whether a condition begins at a word: "when", or "for" before a bound (``for SBP < 90``)."""
    word, rest = words[place], words[place + 1 : place + 7]
    if word == "for":
        return not _BOUNDS.isdisjoint(rest)
    is_often = word == "once" and rest[:1] != [] and rest[0] in _OFTEN
    return (word in _CONDITIONS and bool(rest) and not is_often) or _is_case(words, place)


def _set_aside(sentence: _Sentence, begin: int, end: int) -> None:
    for place in range(begin, end):
        sentence.acting[place].add("other")


def _standing(sentence: _Sentence, place: int) -> Standing:
    """Return one assertion from all cues on a word: other people first, then denial, doubt, the past."""
    acting, closing = sentence.acting[place], sentence.closing[place]
    both = acting | closing
    if "other" in both:
        return "other"
    if "family" in both or sentence.default == "family":
        return "other" if "absent" in both else "family"
    if "present" in closing and "absent" not in closing:
        return "present" if "possible" not in acting else "possible"
    for assertion in ("possible", "absent") if "possible" in closing else ("absent", "possible"):
        if assertion in both:
            return assertion
    for assertion in ("risk", "past"):
        if assertion in both:
            return assertion  # type: ignore[return-value]
    if "history" in both:
        return "history"
    return "present" if "present" in both else sentence.default
