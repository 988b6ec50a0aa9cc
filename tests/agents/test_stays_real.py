"""The Auditor's log-probability trigger on the real small model over its real server (``WARDROUND_REAL_MODEL=1``)."""

from __future__ import annotations

from pathlib import Path

from stay_doubles import LAB, event, play_stay, stay, write

from wardround.agents.stays.auditor import AuditSettings, reasons_to_look
from wardround.models import open_model

RULE = """
schema = 1
name = "one"

[[rule]]
id = "K"
category = "K"
trigger = "potassium < 3.5"
actions = ["order Potassium"]
"""


def test_the_trigger_is_the_mean_of_the_tokens_log_probabilities(real_model_url: str, tmp_path: Path) -> None:
    model = open_model("openai/smollm2", base_url=real_model_url)
    stream = stay(event(0, LAB, "Potassium", 3.0, unit="mEq/L"))
    (step,) = play_stay("trace", stream, model, protocol=write(tmp_path, RULE), tau=0.0).predictions
    audit = step.notes["audit"]
    assert audit["uncertainty"] > 0
    assert "uncertain" in audit["fired"]
    sure = AuditSettings(tau=audit["uncertainty"])
    assert "uncertain" not in reasons_to_look(step.actions, audit["uncertainty"], sure)
