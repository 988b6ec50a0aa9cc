"""Write cultures: what is sent, what grows, its susceptibilities, and when each result is available.

One row per negative test; one row per antibiotic of a positive one. Bottle gram stains exist only where something grew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wardround.synth.output import quoted
from wardround.synth.person import HOUR, at_minute, day_stamp, stamp
from wardround.synth.planning import Encounter
from wardround.synth.subject_writer import SubjectWriter

_MIDNIGHT = " 00:00:00"


class Growth(NamedTuple):
    """One organism of one stay, with its susceptibilities: the same isolate in every specimen."""

    organism: Mapping[str, Any]
    tested: tuple[tuple[str, int, str, str], ...]


class CultureOrder(NamedTuple):
    """A culture sent, for the order list."""

    key: str
    name: str
    moment: int
    finding: str


def draw_growth(writer: SubjectWriter, mix: str) -> Growth:
    """Draw an organism from a mix and decide its antibiogram."""
    cultures, dice = writer.catalog.cultures, writer.dice
    organism = cultures["organisms"][dice.weighted(cultures["mixes"][mix])]
    tested = []
    for antibiotic, (number, share, susceptible, resistant) in cultures["panels"].get(organism["panel"], {}).items():
        fixed = antibiotic in organism.get("always_resistant", ())
        luck = dice.unit()
        if fixed or luck < share * organism["resistant"]:
            tested.append((antibiotic, number, resistant, "R"))
        elif luck > 0.985 and share > 0.05:
            tested.append((antibiotic, number, resistant, "I"))
        else:
            choices = susceptible.split("|")
            tested.append((antibiotic, number, choices[0] if dice.chance(0.75) else dice.pick(choices), "S"))
    return Growth(organism=organism, tested=tuple(tested))


def _dilution(text: str) -> str:
    """Return the cells dilution_text, dilution_comparison, dilution_value."""
    if not text:
        return ",,"
    if text[:2] in ("<=", "=>"):
        return f"{text},{text[:2]}        ,{text[2:]}"
    return f"{text},=         ,{text}"


class _Bench:
    """Writes the rows of one specimen."""

    def __init__(self, writer: SubjectWriter, order: Mapping[str, Any], moment: int, hadm: str) -> None:
        self.writer, self.moment = writer, moment
        subject, dice = writer.subject, writer.dice
        specimen, name = order["specimen"]
        day = day_stamp(moment) + _MIDNIGHT
        timed = "" if dice.chance(0.06) else stamp(moment)
        self.head = (
            f"{subject.subject_id},{hadm},{writer.numbers.micro_specimen.take()},{writer.provider()},{day},{timed}"
        )
        self.specimen = f"{specimen},{quoted(name)}"
        self.sequence = 0
        self.add = writer.add("microbiologyevents")

    def test(self, test: Sequence[Any], hours: Sequence[float], tails: list[str]) -> None:
        """Write a test: ``tails`` are the cells from org_itemid on, one per row."""
        self.sequence += 1
        dice = self.writer.dice
        done = at_minute(self.moment + dice.between(hours[0], hours[1]) * HOUR)
        stored = "" if dice.chance(0.008) else stamp(done)
        stored_day = day_stamp(done) + _MIDNIGHT
        for tail in tails:
            self.writer.micro_rows += 1
            self.add(
                f"{self.writer.numbers.row_base + self.writer.micro_rows},{self.head},{self.specimen},{self.sequence},"
                f"{stored_day},{stored},{test[0]},{quoted(test[1])},{tail}\n"
            )


def _growth_tails(growth: Growth, isolate: int, comment: str) -> list[str]:
    organism = f"{growth.organism['id']},{quoted(growth.organism['name'])},{isolate},"
    if not growth.tested:
        return [f"{organism},,,,,,,{comment}"]
    return [
        f"{organism},{number},{quoted(antibiotic)},{_dilution(dilution)},{letter},{comment}"
        for antibiotic, number, dilution, letter in growth.tested
    ]


def _plain_tail(comment: str) -> str:
    return f",,,,,,,,,,{quoted(comment)}"


def write_culture(
    writer: SubjectWriter, key: str, moment: int, growth: Growth | None, hadm: str, *, positive: bool
) -> None:
    """Write all tests of one specimen."""
    cultures, dice = writer.catalog.cultures, writer.dice
    order = cultures["orders"][key]
    bench = _Bench(writer, order, moment, hadm)
    extras = [cultures["extra"][name] for name in order.get("also", ())]
    stain = growth.organism["stain"] if growth is not None and positive else ""

    def extra(place: str) -> None:
        for test in extras:
            if test["place"] == place:
                comment = test["positive"].format(stain=stain) if stain else dice.pick(test["negative"])
                bench.test(test["test"], test["hours"], [_plain_tail(comment)])

    extra("first")
    if not positive:
        bench.test(order["test"], order["hours"], [_plain_tail(dice.pick(order["negative"]))])
    elif "fixed" in order:
        number, name = order["fixed"]
        bench.test(order["test"], order["positive_hours"], [f"{number},{quoted(name)},1,,,,,,,,"])
    elif growth is not None:
        comment = quoted(order.get("comment", "___"))
        bench.test(order["test"], order["positive_hours"], _growth_tails(growth, 1, comment))
        if order.get("reflex") == "bottle":
            for bottle in ("aerobic", "anaerobic"):
                if dice.chance(0.85):
                    comment = "___" if dice.chance(0.15) else f"{stain}  "
                    bench.test(cultures["bottles"][bottle], (11, 26), [_plain_tail(comment)])
    extra("last")


def _sent(writer: SubjectWriter, key: str, moment: int, growth: Growth | None) -> CultureOrder:
    order = writer.catalog.cultures["orders"][key]
    found = "" if growth is None else order["fixed"][1] if "fixed" in order else str(growth.organism["name"])
    return CultureOrder(key=key, name=order["test"][1], moment=moment, finding=found)


def write_microbiology(writer: SubjectWriter, stay: Encounter) -> list[CultureOrder]:
    """Send and write every culture of a stay; returns what was sent."""
    dice, sent = writer.dice, []
    for problem in stay.problems:
        orders = problem.condition.get("micro")
        growth = draw_growth(writer, problem.condition.get("organisms")) if orders else None
        for number, (key, share, positive) in enumerate(orders):
            first = writer.dice.chance(0.9)  # cultures come before the first antibiotic, but for one in ten
            minutes = writer.dice.between(12, 55) if first else writer.dice.between(100, 420)
            moment = at_minute(problem.onset + (minutes + 8 * number) * 60)
            if not dice.chance(share) or moment > stay.discharge - HOUR:
                continue
            grows = dice.chance(min(0.97, positive * problem.severity**0.5))
            hadm = str(stay.hadm_id) if moment >= stay.admit or dice.chance(0.8) else ""
            write_culture(writer, key, moment, growth, hadm, positive=grows)
            sent.append(_sent(writer, key, moment, growth if grows else None))
            if grows and key == "blood_culture" and dice.chance(0.8):
                sent += _surveillance(writer, stay, moment)
    for place in stay.icu_places:
        if dice.chance(0.45):
            moment = at_minute(place.start + dice.between(1, 9) * HOUR)
            if moment < min(place.end, stay.discharge - HOUR):
                write_culture(writer, "mrsa_screen", moment, None, str(stay.hadm_id), positive=dice.chance(0.06))
                sent.append(_sent(writer, "mrsa_screen", moment, None))
    return sent


def _surveillance(writer: SubjectWriter, stay: Encounter, moment: int) -> list[CultureOrder]:
    """After a positive blood culture they are repeated daily until clear."""
    sent = []
    for day in (2, 3):
        at = at_minute(moment + day * 24 * HOUR + writer.dice.between(-3, 5) * HOUR)
        if at < stay.discharge - HOUR:
            write_culture(writer, "blood_culture", at, None, str(stay.hadm_id), positive=False)
            sent.append(_sent(writer, "blood_culture", at, None))
    return sent
