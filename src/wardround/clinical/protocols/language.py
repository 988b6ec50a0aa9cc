"""Parse the language of triggers: ``lactate > 4 mmol/L OR (map < 65 for 30 min AND NOT on vasopressors)``.

`docs/methods/trace.md` lists every form. Another form, or a name that is in no table, is not compiled; the message says
what to write. Names in quotes are used as the store spells them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from wardround.clinical.protocols.conditions import (
    AndOr,
    AtLevel,
    AtRate,
    AtScore,
    AtValue,
    ChangedBy,
    Condition,
    CountedActions,
    HeldFor,
    HoursSince,
    InWindow,
    Moving,
    Negated,
    Node,
    Stated,
    TimesBaseline,
)
from wardround.clinical.protocols.tokens import (
    OLDEST,
    SCORE_UNITS,
    Amount,
    NameReader,
    Tokens,
    direction_of,
    is_rate_unit,
    read_amount,
    read_hours,
    read_span,
    read_window,
)
from wardround.clinical.vocabulary import (
    RELATIONS,
    Measurement,
    Relation,
    convert,
    find_concept,
    find_measurement,
    is_known_drug,
    parse_quantity,
    read_unit,
)
from wardround.core import UserError

_LEVELS = {"low": "low", "normal": "normal", "high": "high", "abnormal": "abnormal", "elevated": "high"}
_STATED = {"on": "on", "taking": "on", "receiving": "on", "problem": "problem", "allergy": "allergy", "done": "done"}
_EXTREMES = {"lowest": "lowest", "minimum": "lowest", "min": "lowest", "highest": "highest", "maximum": "highest",
             "max": "highest"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A trigger as written, and compiled where it could be: else ``problem`` says why not, and only a model judges."""

    text: str
    node: Node | None = None
    problem: str | None = None


def compile_trigger(text: str) -> Trigger:
    """Compile a trigger where it is in the language."""
    try:
        return Trigger(text=text, node=_Reader(text).whole())
    except UserError as error:
        return Trigger(text=text, problem=str(error))


class _Reader:
    """Reads tokens from left to right: OR binds least, NOT most. A condition may leave out what the one before it was
    about (``WBC > 12 or < 4``, ``on heparin or warfarin``)."""

    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._names = NameReader(self._tokens)
        self._again: Callable[[], Condition] | None = None
        self._stated: str | None = None

    def whole(self) -> Node:
        if self._tokens.peek() is None:
            raise UserError("the trigger is empty")
        node = self._either()
        if self._tokens.peek() is not None:
            raise UserError(f"nothing belongs at {self._tokens.rest!r}: join conditions by AND or OR")
        return node

    def _either(self) -> Node:
        parts = [self._both()]
        while self._tokens.take("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else AndOr(how="OR", parts=tuple(parts))

    def _both(self) -> Node:
        parts = [self._one()]
        while self._tokens.take("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else AndOr(how="AND", parts=tuple(parts))

    def _one(self) -> Node:
        if self._tokens.take("not"):
            return Negated(part=self._one())
        if self._tokens.take_sign("("):
            node = self._either()
            if not self._tokens.take_sign(")"):
                raise UserError("a bracket is not closed")
            return node
        return self._condition()

    def _condition(self) -> Node:
        tokens = self._tokens
        first = tokens.peek()
        if first is None:
            raise UserError("a name is missing at the end: say what is measured, given, done or diagnosed")
        if first.kind == "sign":
            return self._leading_sign()
        if tokens.take_all("hours", "since"):
            name = self._names.done()
            relation = self._relation(name)
            return HoursSince(concept=name, relation=relation, threshold=self._plain_number(f"hours since {name}"))
        if tokens.take_all("rate", "of"):
            return self._rate(self._names.drug())
        if tokens.take_all("count", "of"):
            name, hours = self._names.done(), self._window()
            relation = self._relation(name)
            return CountedActions(concept=name, hours=hours, relation=relation, threshold=self._plain_number(name))
        if tokens.take("no"):
            return self._none_of()
        if tokens.take_all("history", "of"):
            return Stated(what="problem", concept=self._names.problem(), ever=True)
        if tokens.take_all("ever", "problem") or tokens.take_all("ever", "done"):
            tokens.back_to(tokens.mark() - 1)
            return replace(self._stated_condition(str(tokens.take("problem", "done"))), ever=True)
        if first.is_word("allergic"):
            tokens.skip()
            tokens.take("to")
            return self._stated_condition("allergy")
        if first.is_word(*_STATED):
            tokens.skip()
            return self._stated_condition(_STATED[first.text.lower()])
        if first.is_word("any", "every"):
            tokens.skip()
            value = self._value(self._names.measured())
            return InWindow(value=value, hours=self._window(), how="any" if first.is_word("any") else "every")
        if first.is_word(*_EXTREMES):
            tokens.skip()
            return self._extreme(_EXTREMES[first.text.lower()])
        noun = self._change_noun()
        if noun is not None:
            name = self._names.measured()
            return self._change(name, noun)
        return self._named()

    def _stated_condition(self, what: str) -> Stated:
        """Read ``on``, ``problem``, ``allergy`` or ``done`` with its name."""
        self._stated = what
        if what in ("on", "allergy"):
            self._tokens.take("any", "to")
        name = {"on": self._names.drug, "problem": self._names.problem, "allergy": self._names.allergen}.get(
            what, self._names.done
        )()
        hours = self._window_if_any() if what == "done" else None
        return Stated(what=what, concept=name, hours=hours)  # type: ignore[arg-type]

    def _none_of(self) -> Node:
        """``no blood cultures in last 24 h``; of a drug it is not clear whether none runs or none was given."""
        name = self._names.done()
        if is_known_drug(name):
            raise UserError(
                f"'no {name}': write `NOT on {name}`, or `NOT done {name}` for: not given in this encounter"
            )
        if find_concept(name, "problem") is not None and find_concept(name, "procedure") is None:
            raise UserError(f"'no {name}': write `NOT problem {name}`")
        return Negated(part=Stated(what="done", concept=name, hours=self._window_if_any()))

    def _leading_sign(self) -> Node:
        """``or < 4`` behind a condition of a name, or ``>= 2 blood cultures in last 24 h``."""
        place = self._tokens.mark()
        sign = self._tokens.take_sign(*RELATIONS)
        if sign is None:
            raise UserError(f"nothing belongs at {self._tokens.rest!r}")
        counted = self._counted(sign)
        if counted is not None:
            return counted
        self._tokens.back_to(place)
        if self._again is None:
            raise UserError(f"{self._tokens.rest!r} says of nothing: write the name in front of it")
        return self._again()

    def _counted(self, sign: str) -> CountedActions | None:
        first, second = self._tokens.peek(), self._tokens.peek(1)
        if first is None or not first.text.isdigit() or second is None or second.kind == "sign":
            return None
        if read_amount(f"{first.text} {second.text}") is not None or second.is_word("or", "and", "for"):
            return None
        self._tokens.skip()
        name = self._names.done()
        if is_known_drug(name) and not self._window_next():
            raise UserError(
                f"how many of {name!r} run is not counted: write `on norepinephrine AND on vasopressin`, by name"
            )
        return CountedActions(concept=name, hours=self._window(), relation=sign, threshold=float(first.text))  # type: ignore[arg-type]

    def _named(self) -> Node:
        """Read a condition that begins with a name."""
        tokens = self._tokens
        score = self._names.score()
        if score is not None:
            return self._score(score)
        place = tokens.mark()
        raw = self._names.raw()
        if tokens.take("not"):
            return self._not_done(raw)
        if tokens.take_all("done") or tokens.take_all("is", "done"):
            return Stated(what="done", concept=self._names.as_done(raw), hours=self._window_if_any())
        if tokens.peek() is None or tokens.peek().is_word("and", "or") or tokens.peek().text == ")":  # type: ignore[union-attr]
            return self._bare(place, raw)
        if is_known_drug(raw) and self._is_rate_next():
            return self._rate(raw)
        name = self._names.as_measured(raw)
        if tokens.take("is"):
            return self._state_of(name)
        direction = direction_of(tokens)
        if direction is not None:
            tokens.take("by")
            after = tokens.peek()
            if after is not None and (after.kind == "sign" or after.text[0].isdigit()) and after.text != ")":
                return self._change(name, direction)
            return Moving(concept=name, direction="rising" if direction == "rises" else "falling")
        if tokens.take("between"):
            return self._between(name)
        return self._compared(name)

    def _bare(self, place: int, raw: str) -> Node:
        """Read a name alone, with the condition of the name before it (``on heparin or warfarin``)."""
        if self._stated is None:
            self._names.check_several(raw)
            words, last = raw.rpartition(" ")[::2]
            read = parse_quantity(last) if words else None
            if read is not None:
                how = f"between {read.value:g} and {read.high:g}" if read.high else f"> {read.value:g}"
                raise UserError(f"{raw!r}: how does {last} compare? Write `{words} {how}`")
            concept = find_concept(raw)
            hint = (
                "`on`"
                if concept is not None and concept.kind in ("drug", "drug_class")
                else "`problem`, `on` or `done`"
            )
            raise UserError(f"{raw!r} is asked nothing: compare it (NAME > 4), or write {hint} in front of it")
        self._tokens.back_to(place)
        return self._stated_condition(self._stated)

    def _not_done(self, raw: str) -> Node:
        if self._tokens.take("done", "drawn", "sent", "taken"):
            return Negated(part=Stated(what="done", concept=self._names.as_done(raw), hours=self._window_if_any()))
        raise UserError(
            f"'{raw} not {self._tokens.rest}': write `NOT done {raw} in last 4 h`, or `hours since {raw} >= 4`"
        )

    def _state_of(self, name: str) -> Node:
        token = self._tokens.peek()
        word = token.text.lower() if token is not None else ""
        if word in _LEVELS:
            self._tokens.skip()
            return AtLevel(concept=name, level=_LEVELS[word])  # type: ignore[arg-type]
        if word in ("rising", "falling", "steady"):
            self._tokens.skip()
            return Moving(concept=name, direction=word)  # type: ignore[arg-type]
        if token is not None and token.kind == "sign":
            return self._compared(name)
        states = ", ".join(["rising", "falling", "steady", *_LEVELS])
        raise UserError(f"{name!r} is {word!r}: say one of {states}")

    def _compared(self, name: str) -> Node:
        """``NAME > 4 mmol/L``, ``... for 30 min``, ``... in last 6 h``, ``NAME >= 1.5 x baseline``."""

        def again() -> Condition:
            return self._compared_once(name)

        self._again = again
        return again()

    def _compared_once(self, name: str) -> Condition:
        relation = self._relation(name)
        amount = self._amount(name)
        if amount.of_baseline:
            return TimesBaseline(concept=name, relation=relation, times=amount.value)
        value = AtValue(concept=name, relation=relation, threshold=amount.value, unit=amount.unit)
        check_value(value)
        if self._tokens.take("for"):
            return HeldFor(value=value, minutes=60 * read_span(self._tokens, f"{value} for"))
        if self._window_next():
            raise UserError(f"'{value} {self._tokens.rest}': write `any {value} in last ... h`, or `every`")
        return value

    def _value(self, name: str) -> AtValue:
        relation, amount = self._relation(name), self._amount(name)
        if amount.of_baseline:
            raise UserError(
                f"{name!r}: a multiple of a baseline is asked of the newest value: `{name} >= 1.5 x baseline`"
            )
        value = AtValue(concept=name, relation=relation, threshold=amount.value, unit=amount.unit)
        check_value(value)
        return value

    def _extreme(self, which: str) -> Node:
        """``lowest SBP in last 12 h >= 100`` is every one at least 100; ``< 90`` is any below 90."""
        name, hours = self._names.measured(), self._window()
        value = self._value(name)
        if value.relation == "=":
            raise UserError(f"the {which} {name}: compare it by <, <=, > or >=")
        anywhere = (which == "lowest") == value.relation.startswith("<")
        return InWindow(value=value, hours=hours, how="any" if anywhere else "every")

    def _between(self, name: str) -> Node:
        tokens = self._tokens
        low = tokens.peek()
        tokens.skip()
        if low is None or not tokens.take("and", "to"):
            raise UserError(f"{name!r} between: write `between 70 and 180 mg/dL`")
        high, lowest = self._amount(name), read_amount(low.text)
        if lowest is None or high.of_baseline:
            raise UserError(f"{name!r} between: write `between 70 and 180 mg/dL`")
        parts = (
            AtValue(concept=name, relation=">=", threshold=lowest.value, unit=lowest.unit or high.unit),
            AtValue(concept=name, relation="<=", threshold=high.value, unit=high.unit),
        )
        for part in parts:
            check_value(part)
        return AndOr(how="AND", parts=parts)

    def _change(self, name: str, direction: Literal["rises", "falls"]) -> ChangedBy:
        """``creatinine rises by >= 0.3 mg/dL within 48 h``."""
        tokens = self._tokens
        tokens.take("of", "by")
        form = f"write `{name} {direction} by >= 0.3 mg/dL within 48 h`"
        sign = tokens.take_sign(*RELATIONS)
        if sign not in (None, ">=", ">"):
            raise UserError(f"a change is asked as at least so much: {form}, with NOT in front where it is less")
        amount = self._amount(name)
        if not self._window_next():
            raise UserError(f"within how many hours? {form}")
        hours = self._window()
        if amount.of_baseline:
            raise UserError(f"a multiple of a baseline is compared: `{name} >= {amount.value:g} x baseline`")
        share = amount.unit == "%" and not self._names.is_percentage(name)
        unit = None if share else amount.unit
        if not share:
            check_value(AtValue(concept=name, relation=">=", threshold=amount.value, unit=unit), a_change=True)
        return ChangedBy(
            concept=name,
            direction=direction,
            amount=amount.value,
            hours=hours,
            unit=unit,
            share=share,
        )

    def _change_noun(self) -> Literal["rises", "falls"] | None:
        for noun in ("rise", "increase", "fall", "drop", "decrease"):
            if self._tokens.take_all(noun, "in") or self._tokens.take_all(noun, "of"):
                return "rises" if noun in ("rise", "increase") else "falls"
        return None

    def _score(self, score: str) -> Condition:
        def again() -> Condition:
            relation = self._relation(score)
            amount = self._amount(score)
            hours = read_span(self._tokens, score) if self._tokens.take("for") else None
            if score == "urine_output":
                return AtScore(score=score, relation=relation, threshold=amount.value, hours=hours or 6.0)
            unit = SCORE_UNITS.get(score, "points")
            if hours is not None or amount.of_baseline or (amount.unit and read_unit(amount.unit) != read_unit(unit)):
                raise UserError(f"{score} is compared to a number of {unit} alone: `{score} >= 2`")
            is_known = amount.value < OLDEST or (relation, amount.value) in ((">=", OLDEST), ("<", OLDEST))
            if score == "age" and not is_known:
                raise UserError("older people's ages are all told as 90: write `age >= 90`, or a lower age")
            return AtScore(score=score, relation=relation, threshold=amount.value)

        self._again = again
        return again()

    def _rate(self, name: str) -> AtRate:
        relation, amount = self._relation(name), self._amount(name)
        if amount.unit is None or not is_rate_unit(amount.unit):
            raise UserError(f"the rate of {name!r}: write its unit, such as `rate of {name} > 0.1 mcg/kg/min`")
        if self._tokens.take("for") or self._window_next():
            raise UserError(f"how long a rate has run is not in the language: write `rate of {name} > ...` alone")
        return AtRate(concept=name, relation=relation, threshold=amount.value, unit=amount.unit)

    def _is_rate_next(self) -> bool:
        place = self._tokens.mark()
        try:
            self._tokens.take("is")
            if self._tokens.take_sign(*RELATIONS) is None:
                return False
            amount = self._amount("rate")
            return amount.unit is not None and is_rate_unit(amount.unit)
        except UserError:
            return False
        finally:
            self._tokens.back_to(place)

    def _relation(self, name: str) -> Relation:
        self._tokens.take("is")
        sign = self._tokens.take_sign(*RELATIONS)
        if sign is None:
            rest = self._tokens.rest
            raise UserError(
                f"{name!r} is asked nothing{f' at {rest!r}' if rest else ''}: "
                "compare it (> 4), or say `is high`, `is rising`, `between 70 and 180`"
            )
        return sign  # type: ignore[return-value]

    def _amount(self, name: str) -> Amount:
        return read_hours(self._tokens, name)

    def _plain_number(self, name: str) -> float:
        amount = self._amount(name)
        if amount.unit not in (None, "h", "hours", "hour", "times") or amount.of_baseline:
            raise UserError(f"{name!r}: a number without a unit belongs here, not {amount.unit!r}")
        return amount.value

    def _window_next(self) -> bool:
        place = self._tokens.mark()
        found = read_window(self._tokens) is not None
        self._tokens.back_to(place)
        return found

    def _window_if_any(self) -> float | None:
        return read_window(self._tokens)

    def _window(self) -> float:
        hours = read_window(self._tokens)
        if hours is None:
            raise UserError(f"a window is missing at {self._tokens.rest!r}: write `in last 24 h`")
        return hours


def check_value(value: AtValue, *, a_change: bool = False) -> None:
    """Raise UserError if a number does not fit its measurement: a foreign unit, or an impossible value."""
    known = find_measurement(value.concept)
    if known is None:
        return
    listed = ", ".join(unit.unit for unit in known.units if unit.unit) or "no unit"
    if value.unit is not None and read_unit(value.unit) is not None:
        ways = [convert(1.0, value.unit, unit.unit or "1", known.name) for unit in known.units]
        if not any(way is not None for way in ways):
            raise UserError(f"{value.concept!r} is measured in {listed}, not in {value.unit}")
    elif value.unit is None and not a_change and not _can_be(value.threshold, known):
        spans = "; ".join(f"{unit.low:g} to {unit.high:g} {unit.unit or ''}".strip() for unit in known.units)
        raise UserError(
            f"{value.threshold:g} is no {value.concept} that is charted ({spans}): check it, or write its unit"
        )


def _can_be(number: float, known: Measurement) -> bool:
    """Return whether a bare number lies among those charted, or below all of them, where every unit says the same of
    it."""
    return any(unit.is_plausible(number) for unit in known.units) or number < min(unit.low for unit in known.units)
