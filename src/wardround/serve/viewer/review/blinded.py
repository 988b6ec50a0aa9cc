"""What a reviewer is shown of an episode: the question, the answer, its citations, the record, what was looked at.

Not who played, nor the score, the target, tokens, time, cost, or what the checks said of a citation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wardround.benchmarks import get_task
from wardround.log import Trajectory
from wardround.runs.pages import page_environment
from wardround.scoring import EpisodeScore
from wardround.serve.viewer.episode_view import MOST_CITATIONS, interest_of, record_view
from wardround.serve.viewer.paging import paged
from wardround.serve.viewer.review.marks import QUESTIONS, MarksFile, ReviewMark
from wardround.serve.viewer.transcript import CallSection, transcript
from wardround.serve.viewer.viewed_run import NotThere, ViewedRun

_SHOWN = ("call", "result")
_LISTED, _LONGEST_QUESTION = 100, 6_000


class ReviewPages:
    """The pages of a review round: items in an order that nothing of an episode decides. Stays that were played bundle
    by bundle have no one answer to mark: they are left out."""

    def __init__(self, runs: Sequence[ViewedRun], marks: MarksFile) -> None:
        self.marks = marks
        named = {marks.item_of(run, one.episode): (run, one) for run in runs for one in run.scores if one.steps is None}
        self.items: Mapping[str, tuple[ViewedRun, EpisodeScore]] = dict(sorted(named.items()))
        self._templates = page_environment("wardround.serve.viewer", styles=("style.css", "viewer.css"))

    def round_page(self, reviewer: str | None) -> str:
        """Who reviews; and what is marked so far where that is known."""
        own = {} if reviewer is None else self._own(reviewer)
        listed = [(item, own[item]) for item in self.items if item in own][:_LISTED]
        following = None if reviewer is None else self.following(reviewer)
        return self._render("round.html.jinja", reviewer=reviewer, own=own, listed=listed, following=following)

    def item_page(self, item: str, reviewer: str, *, token: str, part: int = 1, problem: str | None = None) -> str:
        """One episode with the form. NotThere: there is no such item or part."""
        if item not in self.items:
            raise NotThere(f"no item {item!r} in this round")
        run, score = self.items[item]
        trajectory = run.trajectory(score.episode)
        interest = interest_of(trajectory)
        pages = paged(_looked_at(trajectory))
        if not 1 <= part <= len(pages):
            raise NotThere(f"the item has {len(pages)} pages, not {part}")
        citations = (trajectory.outcome or {}).get("citations", ())
        return self._render(
            "item.html.jinja",
            **record_view(run, score, interest),
            title=get_task(score.task).title,
            score_answer=score.answer,
            question=_question(trajectory),
            citations=[{"answer": one["answer"], "row_id": one["row_id"]} for one in citations[:MOST_CITATIONS]],
            page=pages[part - 1],
            parts=len(pages),
            part=part,
            item=item,
            reviewer=reviewer,
            mark=self._own(reviewer).get(item),
            questions=QUESTIONS,
            token=token,
            problem=problem,
        )

    def following(self, reviewer: str) -> str | None:
        """The first item that a reviewer has not marked; None where all are."""
        own = self._own(reviewer)
        return next((item for item in self.items if item not in own), None)

    def error_page(self, message: str) -> str:
        """What is wrong, in one line."""
        return self._render("error.html.jinja", message=message)

    def _own(self, reviewer: str) -> dict[str, ReviewMark]:
        return {item: mark for (item, name), mark in self.marks.marks().items() if name == reviewer}

    def _render(self, template: str, **parts: Any) -> str:
        return self._templates.get_template(template).render(total=len(self.items), **parts)


def _looked_at(trajectory: Trajectory) -> list[CallSection]:
    """The calls that acted and their results: no texts of the agent, whose manner would tell the method."""
    acts = [one for one in transcript(trajectory) if one.turn is not None and one.turn.purpose == "act"]
    kept = [replace(one, blocks=tuple(block for block in one.blocks if block.kind in _SHOWN)) for one in acts]
    return [one for one in kept if one.blocks]


def _question(trajectory: Trajectory) -> str:
    """The first message of a person that an agent was shown."""
    for turn in trajectory.turns:
        for message in turn.prompt:
            if message.role == "user":
                return (message.content or "")[:_LONGEST_QUESTION]
    return ""
