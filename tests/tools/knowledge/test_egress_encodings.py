"""What identifies a record is kept in however it is written: identifiers and days in composed encodings."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import drawn, often
from wardround.core import ToolFailure
from wardround.tools.knowledge.egress import EgressGuard, Fingerprint
from wardround.tools.knowledge.egress.fingerprint import RecordDays, RecordNames, RecordNumbers
from wardround.tools.knowledge.egress.guard import identifying_traits

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ROMAN = ("0", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
DAY = date(2197, 2, 18)
RECORD = Fingerprint(
    numbers=RecordNumbers.of(set(), set()),
    days=RecordDays.of({DAY}),
    names=RecordNames.of(set()),
    shingles=frozenset(),
)
"""Of one day and nothing else."""


def guard(numbers: set[str] = frozenset(), codes: set[str] = frozenset(), names: set[str] = frozenset()) -> EgressGuard:  # type: ignore[assignment]
    """A guard of a record with these, and with one day."""
    made = replace(RECORD, numbers=RecordNumbers.of(numbers, codes), names=RecordNames.of(names))
    return EgressGuard(policy="guarded", fingerprint=lambda: made)


def refusal(check: Callable[[str], None], text: str) -> str:
    try:
        check(text)
    except ToolFailure as failure:
        return str(failure)
    return ""


def mixed(number: str) -> str:
    return " ".join(WORDS[int(one)] if place % 2 else one for place, one in enumerate(number))


def shifted(number: str, zero: int) -> str:
    return "".join(chr(zero + int(one)) for one in number)


SMALL_CAPITALS = str.maketrans("abcdefghijklmnopqrstuvwz", "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡᴢ")
ARMENIAN_AND_CHEROKEE = str.maketrans("ehinosuvwz", "ҽհiոօѕսᴠաᴢ")


def in_words(number: str) -> str:
    return " ".join(WORDS[int(one)] for one in number)


def flags(text: str) -> str:
    return "".join(chr(0x1F1E6 + ord(one) - ord("a")) if one.isalpha() else one for one in text)


def squared(text: str) -> str:
    return "".join(chr(0x1F170 + ord(one) - ord("a")) if one.isalpha() else one for one in text)


SPELT: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "words": lambda number: " ".join(WORDS[int(one)] for one in number),
    "words joined by and": lambda number: " and ".join(WORDS[int(one)] for one in number),
    "words joined by slashes": lambda number: "/".join(WORDS[int(one)] for one in number),
    "words run together": lambda number: "".join(WORDS[int(one)].title() for one in number),
    "words with letters between": lambda number: "x".join(WORDS[int(one)] for one in number),
    "words and digits": mixed,
    "letters between": lambda number: "".join(one + "kwy"[place % 3] for place, one in enumerate(number)),
    "words between": lambda number: f"{number[:2]} mg {number[2:5]} tablets {number[5:]}",
    "parted": lambda number: ".".join((number[:3], number[3:5], number[5:])),
    "parts in the other order": lambda number: f"{number[5:]}-{number[:5]}",
    "Roman": lambda number: " ".join(ROMAN[int(one)] for one in number),
    "letters for digits": lambda number: shifted(number, ord("a")),
    "look-alikes": lambda number: number.replace("0", "O").replace("1", "l").replace("5", "S"),
    "small capitals": lambda number: in_words(number).translate(SMALL_CAPITALS),
    "Armenian and Cherokee": lambda number: in_words(number).translate(ARMENIAN_AND_CHEROKEE),
    "regional indicators": lambda number: flags(in_words(number)),
    "letters in black squares": lambda number: squared(in_words(number)),
    "full width": lambda number: shifted(number, 0xFF10),
    "Arabic": lambda number: shifted(number, 0x0660),
    "Devanagari": lambda number: shifted(number, 0x0966),
    "bold": lambda number: shifted(number, 0x1D7CE),
    "circled": lambda number: " ".join("\u24ea" if one == "0" else chr(0x245F + int(one)) for one in number),
    "tags": lambda number: f"x{shifted(number, 0xE0030)}x",
    "unseen between": "\u200b".join,
    "hexadecimal": lambda number: f"{int(number):#x}",
    "octal": lambda number: f"{int(number):#o}",
    "binary": lambda number: f"{int(number):b}",
    "binary in fours": lambda number: " ".join(f"{int(one):04b}" for one in number),
}
PACKED: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "backwards": lambda text: text[::-1],
    "percent": lambda text: quote(text, safe="").replace("1", "%31") if "%" not in text else quote(text, safe=""),
    "percent twice": lambda text: quote("".join(f"%{ord(one):02x}" if one.isascii() else quote(one) for one in text)),
    "entities": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "entities in hexadecimal": lambda text: "".join(f"&#x{ord(one):x};" for one in text),
    "escapes": lambda text: "".join(f"\\u{ord(one):04x}" if ord(one) < 0x10000 else one for one in text),
    "short escapes": lambda text: "".join(f"\\x{ord(one):02x}" if one.isascii() else one for one in text),
    "base 64": lambda text: base64.b64encode(text.encode()).decode(),
    "base 64 within": lambda text: "x" + base64.b64encode(f"id {text} of".encode()).decode().rstrip("="),
    "base 32": lambda text: base64.b32encode(text.encode()).decode().rstrip("=").lower(),
    "base 16": lambda text: text.encode().hex(),
    "codes": lambda text: " ".join(str(byte) for byte in text.encode()),
    "codes in hexadecimal": lambda text: " ".join(f"0x{byte:02x}" for byte in text.encode()),
    "codes in octal": lambda text: " ".join(f"{byte:o}" for byte in text.encode()),
    "codes in binary": lambda text: " ".join(f"{byte:08b}" for byte in text.encode()),
}
CARRIERS: dict[str, Callable[[EgressGuard, str], str]] = {
    "query": lambda kept, text: refusal(kept.check_query, f"dose of {text} in sepsis"),
    "path": lambda kept, text: refusal(kept.check_address, f"https://www.example.org/{quote(text, safe='')}/page"),
    "parameter": lambda kept, text: refusal(kept.check_address, f"https://www.example.org/?q={quote(text)}&n=3"),
}


@settings(max_examples=often(80, 3000), deadline=None)
@example(number="19296496", spelt="letters for digits", packed="base 64", carried="path")
@example(number="84729103", spelt="small capitals", packed="as it is", carried="query")
@example(number="84729103", spelt="Armenian and Cherokee", packed="as it is", carried="query")
@example(number="84729103", spelt="regional indicators", packed="as it is", carried="path")
@example(number="84729103", spelt="letters in black squares", packed="base 64", carried="parameter")
@example(number="10000000", spelt="look-alikes", packed="as it is", carried="parameter")
@example(number="15000000", spelt="look-alikes", packed="as it is", carried="parameter")
@given(
    number=st.integers(10_000_000, 99_999_999).map(str),
    spelt=st.sampled_from(sorted(SPELT)),
    packed=st.sampled_from(sorted(PACKED)),
    carried=st.sampled_from(sorted(CARRIERS)),
)
def test_an_identifier_is_kept_in_however_it_is_written(number: str, spelt: str, packed: str, carried: str) -> None:
    said = CARRIERS[carried](guard({number}), PACKED[packed](SPELT[spelt](number)))
    assert "not sent: the " in said, (spelt, packed, carried)
    assert number not in said


@pytest.mark.parametrize(
    "written",
    [
        "eighty-four million seven hundred and twenty-nine thousand one hundred and three",
        "84 million 729 thousand one hundred and three",
        "eighty-four, seventy-two, ninety-one, oh three",
        "1eg1e7",
        "2gpn8f",
        "50cdd0f dose",
        "8.47.29.103",
        "huit quatre sept deux neuf un zéro trois",
        "acht vier sieben zwei neun eins null drei",
        "ate for seven too nine won oh three",
        "e.i.g.h.t f o u r se-ven two ni/ne one zero thr ee",
        "d1=8 d2=4 d3=7 d4=2 d5=9 d6=1 d7=0 d8=3",
        "8040702090100030",
        "⠓⠙⠛⠃⠊⠁⠚⠉",
    ],
)
def test_a_number_is_kept_in_as_people_say_it(written: str) -> None:
    assert "an identifier of the record" in refusal(guard({"84729103"}).check_query, written)
    assert not refusal(guard({"84729104"}).check_address, f"https://example.org/{quote(written)}")


@pytest.mark.parametrize("number", ["255", "256", "400", "999"])
def test_a_question_with_a_number_that_is_no_byte_leaves(number: str) -> None:
    """256 is one more than a byte holds, and so is 400 read as octal."""
    assert not refusal(guard({"84729103"}).check_query, f"creatinine above {number} in sepsis")


def test_the_labels_of_a_host_are_read_together_and_in_the_other_order() -> None:
    for host in ("847.29103.example.org", "29103.847.example.org", "x847.y29.z103.example.org"):
        assert "an identifier of the record" in refusal(guard({"84729103"}).check_address, f"https://{host}/")


@pytest.mark.parametrize("written", ["36512", "3 6 5 1 2", "3-65/12", "three six five one two", "3x6y5z1w2", "21563"])
def test_a_short_identifier_is_kept_in_where_little_stands_between_its_digits(written: str) -> None:
    assert "an identifier of the record" in refusal(guard({"36512"}).check_query, f"patient {written} sepsis")
    assert not refusal(guard({"36512"}).check_query, "36 patients of 51 had 2 doses")


@pytest.mark.parametrize("written", ["P49AFC", "p 49 afc", "p-four-nine-a-f-c", "CFA94P"])
def test_a_code_of_letters_and_digits_is_kept_in(written: str) -> None:
    assert "an identifier of the record" in refusal(guard(codes={"P49AFC"}).check_query, f"seen by {written}")


@pytest.mark.parametrize(
    "written", ["B r e n d a v a r", "bren/davar", "ravadnerB", "xBrendavar7", "Вrеndаvаr", "S.m-ith"]
)
def test_a_name_is_kept_in_split_and_backwards(written: str) -> None:
    assert "a name from the record" in refusal(guard(names={"brendavar", "smith"}).check_query, f"what of {written}")


WRITTEN_DAYS = (
    "18th of February, 2197|18-Feb-97|18 Febr. 2197|Feb 18th '97|February the eighteenth|2197-W07-6|2197W076|2197-049"
    "|day 049 of 2197|02/18/2197|18.2.2197|2197.02.18|21970218|18022197|18 février 2197|18. Februar 2197"
    "|18 de febrero de 2197|the eighteenth of February twenty-one ninety-seven|2a1b9c7d0e2f1g8|18 02 97|2/18/97"
    "|day 18 month 2 year 2197|7912 yraurbeF 81|２１９７-０２-１８|2197%2D02%2D18|two one nine seven zero two one eight"
)


@pytest.mark.parametrize("written", WRITTEN_DAYS.split("|"))
def test_a_day_of_the_record_is_kept_in_however_it_is_written(written: str) -> None:
    said = refusal(guard().check_address, f"https://www.example.org/?q={quote(written)}")
    assert "a date of the record" in said


@pytest.mark.parametrize(
    "written", ["3rd of March, 2024", "3-Mar-24", "March 3 2024", "2024-W10-7", "third of March, 2024"]
)
def test_a_full_day_of_anybody_is_kept_in(written: str) -> None:
    assert "a full date" in refusal(guard().check_query, f"seen on {written}")


@pytest.mark.parametrize(
    "written",
    [
        "ninety-three year old",
        "aged ninety-one",
        "one hundred and two years old",
        "93 y.o. man",
        "age: 94",
        "a nonagenarian",
    ],
)
def test_an_age_above_89_is_kept_in_in_words_too(written: str) -> None:
    assert "an age above 89" in refusal(guard().check_query, f"{written} with pneumonia")


@pytest.mark.parametrize("packed", sorted(PACKED.keys() - {"base 64 within", "backwards"}))
@pytest.mark.parametrize(
    ("written", "kinds"),
    [
        ("93 year old woman with sepsis", {"an age above 89"}),
        ("age 93", {"an age above 89"}),
        ("seen on 3 March 2024", {"a full date"}),
        ("83 mg in March, age 63", set()),
    ],
)
def test_an_age_and_a_day_of_anybody_are_told_in_every_packing(written: str, kinds: set[str], packed: str) -> None:
    found = identifying_traits(f"dose of {PACKED[packed](written)} now", RECORD)
    assert {kind for kind in found if kind in ("an age above 89", "a full date")} == kinds


def test_a_text_of_too_many_layers_does_not_leave() -> None:
    text = "84729103"
    for _ in range(9):
        text = base64.b64encode(text.encode()).decode()
    assert "not sent" in refusal(guard({"84729103"}).check_query, text)


def test_characters_that_nobody_sees_do_not_leave() -> None:
    for written in ("sep\u200bsis", "sepsis\U000e0131", "sep\u00adsis"):
        assert "characters that nobody sees" in refusal(guard().check_query, written)
        assert "characters that nobody sees" in refusal(guard().check_address, f"https://example.org/{quote(written)}")


def questions(data: Path) -> list[str]:
    """Ordinary questions, of two public sets."""
    files = sorted((data / "knowledge-medquad").glob("*.jsonl.gz"))
    asked = {
        qa["question"]
        for file in files
        for line in gzip.decompress(file.read_bytes()).splitlines()
        for qa in json.loads(line)["qa"]
    }
    with gzip.open(data / "knowledge-pubmedqa" / "ori_pqal.json.gz") as file:
        asked |= {one["QUESTION"] for one in json.load(file).values()}
    return sorted(asked)


def test_ordinary_questions_leave(shared_data: Path) -> None:
    """Beside a record of 3,000 numbers and 300 days (a long one) at most one question of 200 is refused."""
    draw = random.Random(5)
    numbers = {str(draw.randrange(10 ** (length - 1), 10**length)) for length in (5, 7, 8, 8) for _ in range(750)}
    days = {
        date.fromordinal(draw.randrange(date(2150, 1, 1).toordinal(), date(2160, 1, 1).toordinal())) for _ in range(300)
    }
    made = Fingerprint(
        numbers=RecordNumbers.of(numbers, ()), days=RecordDays.of(days), names=RecordNames.of(()), shingles=frozenset()
    )
    kept = EgressGuard(policy="guarded", fingerprint=lambda: made)
    asked = drawn(questions(shared_data), 200)
    refused = [one for one in asked if refusal(kept.check_query, one)]
    assert len(refused) * 200 <= len(asked), refused
