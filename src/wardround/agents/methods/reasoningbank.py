"""ReasoningBank: the loop with strategies of similar cases in front, drawn from episodes judged without the truth."""

from __future__ import annotations

from wardround.agents.method import Method
from wardround.agents.methods.react import make_react

REASONINGBANK_METHODS = (
    Method(
        name="reasoningbank",
        title="ReasoningBank: strategies of similar cases, judged without the truth",
        make=make_react,
        memory=("reasoning",),
        tables=(2,),
        paper="retrosum",
    ),
)
