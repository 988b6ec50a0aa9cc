"""Read numbers, units, spans and windows in a trigger, and check that a number fits its measurement."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from wardround.clinical.protocols.conditions import AtValue
from wardround.clinical.protocols.tokens import Tokens, is_keyword
from wardround.clinical.vocabulary import Measurement, convert, find_measurement, parse_quantity, read_unit
from wardround.core import UserError

_SPAN = re.compile(r"^(\d+(?:\.\d+)?)\s*([a-z]*)$")
_HOURS = {
    **dict.fromkeys(("min", "mins", "minute", "minutes", "m"), 1 / 60),
    **dict.fromkeys(("", "h", "hr", "hrs", "hour", "hours"), 1.0),
    **dict.fromkeys(("d", "day", "days"), 24.0),
}
_LIMITS = ("uln", "lln", "upper limit", "lower limit", "upper limit of normal", "lower limit of normal", "normal")
_RISES = ("rising", "rises", "increasing", "increases", "increased", "rose", "risen")
_FALLS = ("falling", "falls", "decreasing", "decreases", "decreased", "drops", "dropped", "dropping", "fell", "fallen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number and its unit as a trigger has them; ``of_baseline``: it is a multiple of a baseline."""

    value: float
    unit: str | None = None
    of_baseline: bool = False


def read_amount(text: str) -> Amount | None:
    """Read a number with its unit; None if it is none, a range, or beyond a bound."""
    read = parse_quantity(text)
    if read is None or read.high is not None or read.comparator is not None or read.multiple_of == "upper limit":
        return None
    return Amount(value=read.value, unit=read.unit, of_baseline=read.multiple_of == "baseline")


def read_hours(tokens: Tokens, name: str) -> Amount:
    """Read a number and its unit. Raises UserError without a number, or for an unknown unit."""
    words: list[str] = []
    quoted = None
    while (token := tokens.peek()) is not None and token.kind != "sign" and not _ends(token.text, words):
        if token.kind == "quoted":
            quoted = token.text
        else:
            words.append(token.text)
        tokens.skip()
        if quoted is not None:
            break
    text = " ".join(words)
    if not text:
        raise UserError(f"after {name!r} comes no number: write `{name} > 4`, with the unit behind the number")
    amount = read_amount(text)
    if amount is not None:
        return Amount(value=amount.value, unit=quoted) if quoted is not None else amount
    read = parse_quantity(text)
    if read is not None and read.high is not None:
        raise UserError(f"{text!r} is a range: write `{name} between {read.value:g} and {read.high:g}`")
    if read is not None and read.multiple_of:
        raise UserError(
            f"{text!r}: a patient's state keeps no limits of laboratories: write the number with its unit, or "
            f"`{name} is high` for above the limit; of multiples only those of a baseline are known"
        )
    first, _, rest = text.partition(" ")
    if text.lower() in _LIMITS:
        raise UserError(f"{name!r} against {text!r}: write `{name} is high` or `{name} is low`, or the number itself")
    if read_amount(first) is None:
        raise UserError(f"after {name!r} comes {text!r}, which is no number: write `{name} > 4`")
    raise UserError(f"{rest!r} behind the number is no unit that is known; a unit of your store's own stands in quotes")


def read_span(tokens: Tokens, name: str) -> float:
    """Read a span of time (``30 minutes``) and return its hours. Raises UserError without one."""
    tokens.take_sign(">=", ">")
    first, second = tokens.peek(), tokens.peek(1)
    text = "" if first is None else first.text.lower()
    alone = _SPAN.match(text)
    if alone and alone[2]:
        tokens.skip()
        return float(alone[1]) * _hours_of(alone[2], name)
    if alone and second is not None and second.text.lower() in _HOURS:
        tokens.skip(2)
        return float(alone[1]) * _HOURS[second.text.lower()]
    raise UserError(f"{name!r}: a span is missing: write `30 min`, `6 h` or `2 days`")


def read_window(tokens: Tokens) -> float | None:
    """Take ``in last 24 h``, ``within 48 hours``, ``in the past 2 days``; None if no window comes next."""
    place = tokens.mark()
    if not tokens.take("in", "within", "over", "during"):
        return None
    tokens.take("the")
    tokens.take("last", "past", "previous", "preceding")
    try:
        return read_span(tokens, "in last")
    except UserError:
        tokens.back_to(place)
        return None


def direction_of(tokens: Tokens) -> Literal["rises", "falls"] | None:
    """Take a word that says where something goes: ``rises`` or ``falls``."""
    if tokens.take(*_RISES):
        return "rises"
    return "falls" if tokens.take(*_FALLS) else None


def is_rate_unit(unit: str) -> bool:
    """Return whether a unit is so much in a time (``mcg/kg/min``), not in a volume."""
    read = read_unit(unit)
    powers = dict(read.dimension) if read is not None else {}
    amount = {"mass", "substance", "charge", "activity", "volume"} & {
        kind for kind, power in powers.items() if power > 0
    }
    return powers.get("time") == -1 and bool(amount)


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


def _hours_of(unit: str, name: str) -> float:
    if unit not in _HOURS:
        raise UserError(f"{name!r}: {unit!r} is no span of time: write `30 min`, `6 h` or `2 days`")
    return _HOURS[unit]


def _ends(word: str, before: list[str]) -> bool:
    """Return whether a word ends a number with its unit."""
    return bool(before) and is_keyword(word)
