"""Where the parts of a report contradict one another, or the classifier contradicts them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from wardround.imaging.classification import ClassifiedFinding
from wardround.imaging.mentions import mentions_of
from wardround.imaging.reports import WrittenReport

_CLEAR = 0.1
"""So far from 0.5 a score has to be before it contradicts a text."""
_SAID = {True: "present", False: "absent"}


def conflicts_of(report: WrittenReport, classified: Collection[ClassifiedFinding] = ()) -> tuple[str, ...]:
    """Return a line for each contradiction."""
    findings, impression = mentions_of(report.findings), mentions_of(report.impression)
    lines = [
        f"{name}: the findings say {_SAID[there]}, the impression {_SAID[impression[name]]}"
        for name, there in findings.items()
        if impression.get(name, there) != there
    ]
    lines += _against_scores({**impression, **findings}, classified)
    return tuple(lines)


def _against_scores(said: Mapping[str, bool], classified: Collection[ClassifiedFinding]) -> list[str]:
    lines = []
    for finding in classified:
        there = said.get(finding.name)
        clear = abs(finding.score - 0.5) >= _CLEAR
        if there is not None and clear and there != finding.is_above:
            side = "above" if finding.is_above else "below"
            lines.append(
                f"{finding.name}: the report says {_SAID[there]}, the classifier's score {finding.score:.2f} is {side} "
                "its operating point"
            )
    return lines
