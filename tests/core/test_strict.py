"""Bodies of files read into dataclasses: what no field has is refused wherever it stands, with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from wardround.core import UserError
from wardround.core.settings import strict


class Colour:
    """A field that is read from text."""

    def __init__(self, name: str) -> None:
        self.name = name


def parse_colour(text: str) -> Colour:
    if text not in ("red", "blue"):
        raise UserError(f"{text!r} is no colour")
    return Colour(text)


@dataclass(frozen=True, kw_only=True)
class Bed:
    number: int
    kind: Literal["icu", "plain"] = "plain"


@dataclass(frozen=True, kw_only=True)
class House:
    name: str
    floors: int | None = None
    first: Bed | None = None
    beds: tuple[Bed, ...] = ()
    wards: Mapping[str, Bed] = field(default_factory=dict)
    door: Colour | None = None
    windows: tuple[Colour, ...] = ()


def read(**body: Any) -> House:
    return strict(House, {"name": "x", **body}, "house.toml", {Colour: parse_colour})


def test_sections_lists_and_tables_become_what_they_say() -> None:
    bed = {"number": 3, "kind": "icu"}
    found = read(floors=2, first=bed, beds=[bed, {"number": 4}], wards={"a": bed}, door="red", windows=["blue"])
    assert (found.first, found.beds, dict(found.wards)) == (
        Bed(number=3, kind="icu"),
        (Bed(number=3, kind="icu"), Bed(number=4)),
        {"a": Bed(number=3, kind="icu")},
    )
    assert (found.floors, found.door and found.door.name, [one.name for one in found.windows]) == (2, "red", ["blue"])
    assert read() == House(name="x")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"floor": 2}, "house.toml: there is no 'floor'. Did you mean floors? There are: name, floors, first"),
        ({"zzz": 2}, "house.toml: there is no 'zzz'. There are: name"),
        (
            {"first": {"numbr": 3}},
            "house.toml first: there is no 'numbr'. Did you mean number? There are: number, kind",
        ),
        ({"beds": [{"number": 3}, {"numbr": 4}]}, "house.toml beds: there is no 'numbr'. Did you mean number?"),
        ({"wards": {"a": {"numbr": 3}}}, "house.toml wards a: there is no 'numbr'. Did you mean number?"),
        ({"first": {"number": 3, "kind": "ic"}}, "house.toml first kind: there is no 'ic'. Did you mean icu?"),
        ({"first": {"number": "three"}}, "house.toml first.number: expected int, got str"),
        ({"first": {}}, "house.toml first: object missing required field number"),
        ({"beds": [{"number": 3}, {"number": None}]}, "house.toml beds[1].number: expected int, got null"),
        ({"name": 7}, "house.toml name: expected str, got int"),
        ({"door": "reddish"}, "house.toml door: 'reddish' is no colour"),
        ({"windows": ["red", "green"]}, "house.toml windows: 'green' is no colour"),
        ({"first": 3}, "house.toml first: expected object | null, got int"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(body: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        read(**body)
    assert str(caught.value).startswith(said)
