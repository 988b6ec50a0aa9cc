"""A step through a memory's graph without language: take what there is, go on to the best candidate, stop."""

from __future__ import annotations

import json
import re

_POSSIBLE = re.compile(r"^Possible actions: ([A-Z, ]+)\.", re.MULTILINE)
_FIRST = re.compile(r"EXPLORE one of:\n- (\w+):")


def walk_reply(instruction: str) -> str:
    """What to do at a place: COLLECT where that is possible, else EXPLORE the first candidate, else STOP."""
    possible, first = _POSSIBLE.search(instruction), _FIRST.search(instruction)
    actions = possible[1].split(", ") if possible else []
    if "COLLECT" in actions:
        return json.dumps({"action": "COLLECT"})
    if "EXPLORE" in actions and first:
        return json.dumps({"action": "EXPLORE", "target": first[1]})
    return json.dumps({"action": "STOP"})
