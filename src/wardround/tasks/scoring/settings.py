"""Settings of scoring."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.core import check_settings, setting
from wardround.tasks.scoring.judging.judge import POINTS, JudgeProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringSettings:
    """Settings for judging free-text answers and for comparing figures."""

    baseline: str | None = setting(
        None, "contender (an agent, or 'agent · model') that the others are compared with", flag="--baseline"
    )

    judge: str | None = setting(
        None,
        "model that judges answers in words of one's own (a name of [models.NAME] too), or 'words': no model, a floor",
    )
    judge_may_play: bool = setting(False, "the judge may be a model that plays too, as in the GSEM paper")
    judge_protocol: JudgeProtocol = setting(
        POINTS,
        "how the judge marks: points (ours, one call for a reasoning) or medr-bench (after its authors' public code: "
        "a call for each step, and an answer that includes the right one counts)",
        source="MedR-Bench",
    )
    judge_reasoning: bool = setting(True, "the judge marks the reasoning too: efficiency, factuality, completeness")

    equivalence: int = setting(
        0,
        "steps of a stay, drawn, whose predictions the judge grades from 1 to 5 beside what was decided; 0: none",
        unit="steps",
        least=0,
        source="TRACE, section 5 (clinical equivalence)",
    )

    def __post_init__(self) -> None:
        check_settings(self)
