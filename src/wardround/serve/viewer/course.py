"""The course of an episode as places on a drawing: tokens of every model call under the line of the window, cost as it
adds up, and a lane for each purpose with a mark where a prompt was begun anew (a branch of the message tree)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from wardround.log import Turn

WIDTH, HEIGHT, LANE, LABEL = 760, 110, 18, 110
"""Size of the drawing, of a lane and of what stands left of it."""
MOST_CALLS = 150
"""So many calls are drawn: of more every so-manieth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCall:
    """One model call: its bars, lane and branch. Heights are 0 where an endpoint did not count its tokens."""

    ordinal: int
    x: float
    width: float
    input_height: float
    output_height: float
    lane_y: float
    branch: int
    begins: bool
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCourse:
    """``water``: the height of the window's line; ``costs``: points of the sum of costs, empty where a price is not
    known; ``total``: that sum in US dollars; ``branches``: root-to-leaf paths of the message tree."""

    calls: tuple[DrawnCall, ...]
    lanes: tuple[tuple[str, float], ...]
    water: float
    window: int
    most: int
    every: int
    uncounted: int
    costs: str
    total: float | None
    branches: int
    height: float


def branches_of(turns: Sequence[Turn]) -> list[int]:
    """Return the branch of each call, from 1: a prompt that does not repeat the whole one before it of its purpose
    begins one."""
    last: dict[str, tuple[Turn, int]] = {}
    found: list[int] = []
    for turn in turns:
        before = last.get(turn.purpose)
        goes_on = before is not None and turn.prefix_bytes >= before[0].prompt_bytes
        branch = before[1] if before is not None and goes_on else max(found, default=0) + 1
        last[turn.purpose] = (turn, branch)
        found.append(branch)
    return found


def draw_course(turns: Sequence[Turn], window: int) -> EpisodeCourse | None:
    """Lay out the calls of an episode; None where none was made. ``window``: tokens that prompt and reply may take."""
    if not turns:
        return None
    counted = [_tokens(turn) for turn in turns]
    highest = max(window, *counted) or 1
    purposes = list(dict.fromkeys(turn.purpose for turn in turns))
    step = (WIDTH - LABEL) / len(turns)
    every, branches = 1 + (len(turns) - 1) // MOST_CALLS, branches_of(turns)
    calls = [
        DrawnCall(
            ordinal=turn.ordinal,
            x=round(LABEL + place * step, 1),
            width=round(max(step * every - 1, 1), 1),
            input_height=_height(turn.usage.input_tokens if _is_counted(turn) else 0, highest),
            output_height=_height(turn.usage.output_tokens if _is_counted(turn) else 0, highest),
            lane_y=_lane(purposes.index(turn.purpose)),
            branch=branches[place],
            begins=branches[place] not in branches[:place],
            told=_told(turn, branches[place]),
        )
        for place, turn in enumerate(turns)
        if place % every == 0
    ]
    points, total = _costs(turns, step)
    return EpisodeCourse(
        calls=tuple(calls),
        lanes=tuple((purpose, _lane(number)) for number, purpose in enumerate(purposes)),
        water=round(HEIGHT - _height(window, highest), 1),
        window=window,
        most=max(counted),
        every=every,
        uncounted=sum(not _is_counted(turn) for turn in turns),
        costs=points,
        total=total,
        branches=max(branches),
        height=_lane(len(purposes)) + 4,
    )


def _is_counted(turn: Turn) -> bool:
    return not {"input_tokens", "output_tokens"} & set(turn.unreported)


def _tokens(turn: Turn) -> int:
    return turn.usage.input_tokens + turn.usage.output_tokens if _is_counted(turn) else 0


def _height(tokens: int, highest: int) -> float:
    return round(tokens / highest * HEIGHT, 1)


def _lane(number: int) -> float:
    return float(HEIGHT + LANE * (number + 1))


def _costs(turns: Sequence[Turn], step: float) -> tuple[str, float | None]:
    """The line of costs as they add up; none where one of them is not known: a part would be a wrong number."""
    costs = [turn.cost for turn in turns if turn.cost is not None]
    if len(costs) < len(turns):
        return "", None
    sums = list(accumulate(costs))
    total = sums[-1] or 1.0
    points = (
        f"{LABEL + (place + 0.5) * step:.1f},{HEIGHT - one / total * HEIGHT:.1f}" for place, one in enumerate(sums)
    )
    return " ".join(points), sums[-1]


def _told(turn: Turn, branch: int) -> str:
    tokens = f"{turn.usage.input_tokens:,} tokens in, {turn.usage.output_tokens:,} out"
    cost = "" if turn.cost is None else f", {turn.cost:.4f} US dollars"
    counted = tokens if _is_counted(turn) else "tokens not counted by the endpoint"
    return f"call {turn.ordinal + 1}, {turn.purpose}, branch {branch}: {counted}{cost}, {turn.seconds:.2f} s"
