"""The Auditor's log-probability trigger on the real small model over its real server (``WARDROUND_REAL_MODEL=1``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from stay_doubles import LAB, event, play_stay, stay, write

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


@pytest.mark.parametrize(("tau", "fires"), [(0.0, True), (50.0, False)])
def test_the_trigger_is_the_mean_of_the_tokens_log_probabilities(
    real_model_url: str, tmp_path: Path, tau: float, fires: bool
) -> None:
    model = open_model("openai/smollm2", base_url=real_model_url)
    stream = stay(event(0, LAB, "Potassium", 3.0, unit="mEq/L"))
    (step,) = play_stay("trace", stream, model, protocol=write(tmp_path, RULE), tau=tau).predictions
    audit = step.notes["audit"]
    assert audit["uncertainty"] > 0
    assert ("uncertain" in audit["fired"]) is fires
