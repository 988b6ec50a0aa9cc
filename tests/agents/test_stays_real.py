"""The Auditor's log-probability trigger on the real small model over its real server (``WARDROUND_REAL_MODEL=1``).

One prompt of a few hundred tokens and a reply of at most a few dozen: the shape is the Reasoner's with its lists and
texts cut short, so that a small model cannot ramble. That the player asks in this way is seen with scripted models.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from stay_doubles import episode_of

from wardround.agents.stays.auditor import AuditSettings, reasons_to_look, uncertainty_of
from wardround.agents.stays.model_roles import REASONER, Answered, ask_role
from wardround.models import ModelConfig, open_model

SHORT = {
    "type": "object",
    "properties": {
        "thought_process": {"type": "string", "maxLength": 20},
        "next_bundle_type": {"type": "string", "enum": ["LABS"]},
        "predicted_actions": {
            "type": "array",
            "maxItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "type": {"enum": ["LABS"]},
                    "name": {"enum": ["Potassium", "Sodium"]},
                    "dose": {"enum": ["none", "low-dose"]},
                },
                "required": ["type", "name", "dose"],
            },
        },
        "citations": {"type": "array", "maxItems": 1, "items": {"enum": ["K"]}},
    },
    "required": ["thought_process", "next_bundle_type", "predicted_actions", "citations"],
}


def test_the_trigger_is_the_mean_of_the_tokens_log_probabilities(real_model_url: str) -> None:
    shown = {"rules": "[K] IF potassium < 3.5 THEN order Potassium.", "history": "Potassium: 3.0 (Low)"}
    empty = dict.fromkeys(("state", "summary", "segments"), "")
    role = replace(REASONER, schema=SHORT)

    async def asked() -> Answered:
        model = open_model(ModelConfig(name="openai/smollm2", base_url=real_model_url))
        try:
            return await ask_role(episode_of("trace", model), role, 4_000, most=1, examples="K", **shown, **empty)
        finally:
            await model.close()

    found = asyncio.run(asked())
    uncertainty = uncertainty_of(found.token_logprobs)
    assert uncertainty is not None
    assert uncertainty > 0
    assert reasons_to_look((), uncertainty, AuditSettings(tau=0.0)) == ("uncertain",)
    assert reasons_to_look((), uncertainty, AuditSettings(tau=uncertainty)) == ()
