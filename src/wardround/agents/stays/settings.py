"""Settings of TRACE. Values that the paper does not print are our choice and marked as such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wardround.core import UserError, check_settings, setting

By = Literal["auto", "code", "model"]
When = Literal["every_bundle", "at_limit"]
OnFail = Literal["replace", "drop", "flag"]
OVERHEAD_TOKENS = 900
"""Tokens for a role's instructions and the proposed actions, beside the patient's part of the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """The roles, each in code or by the model, and their budgets. ``auto``: by the model, but in code under the
    ``offline`` policy, which has no language."""

    protocol: str | None = setting(None, "the frozen global protocol (wardround protocol)", unit="file")
    router: Literal["code", "model"] = setting("code", "who selects rules", source="TRACE, appendix A.2: the model")
    reasoner: By = setting("auto", "who predicts", source="TRACE, appendix A.3: the model")
    auditor: Literal["code", "model"] = setting(
        "code", "who audits; the checks in code come first either way", source="TRACE, appendix A.4: the model"
    )
    keeper: Literal["code", "model"] = setting(
        "code", "who writes the state that prompts show", source="TRACE, appendix A.5: the model"
    )
    steward: When = setting(
        "every_bundle",
        "when the state takes bundles in: after each (section 5), or when the buffer passes its limit (section 3.3)",
        source="TRACE",
    )
    rules: int = setting(3, "rules that a prompt shows", unit="rules", least=1, source="TRACE, appendix A.2")
    window_hours: float = setting(
        6.0, "how recent a value must be for a trigger", unit="hours", above=0, source="TRACE, appendix A.2"
    )
    predictions: int = setting(5, "actions of a type at a step", least=1, source="TRACE, section 5 (Recall@5)")
    fill: bool = setting(False, "fill predictions up from the protocol's frequency prior", source="ours: an arm apart")
    tau: float = setting(
        0.5, "mean negative log-probability above which the Auditor looks", unit="nats", source="ours: none is printed"
    )
    unsure_by_shares: bool = setting(
        False,
        "the coded Reasoner's uncertainty: the mean negative log of its actions' shares (off: it has none)",
        source="ours: for a curve over tau without a model",
    )
    on_fail: OnFail = setting(
        "replace", "what becomes of an action that fails its audit", source="ours: none is printed"
    )
    prompt_tokens: int = setting(4_000, "most of one role's prompt", unit="tokens", least=400, source="ours")
    state_tokens: int = setting(1_200, "most of the state in a prompt", unit="tokens", least=50, source="ours")
    rules_tokens: int = setting(600, "most of the rules in a prompt", unit="tokens", least=50, source="ours")
    buffer_tokens: int = setting(
        1_200, "most of the recent bundles in a prompt; at_limit: the limit", unit="tokens", least=50, source="ours"
    )

    def __post_init__(self) -> None:
        check_settings(self)
        parts = self.state_tokens + self.rules_tokens + self.buffer_tokens + OVERHEAD_TOKENS
        if parts > self.prompt_tokens:
            raise UserError(
                f"state_tokens, rules_tokens and buffer_tokens take {parts} tokens with the {OVERHEAD_TOKENS} of the "
                f"instructions; prompt_tokens is {self.prompt_tokens}: raise it or lower them"
            )
