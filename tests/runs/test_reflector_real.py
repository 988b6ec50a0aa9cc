"""The Reflector's prompt before the real small model over its real server (``WARDROUND_REAL_MODEL=1``): it is asked,
bound to the schema, and what it says becomes a rule or is refused for a reason that is named."""

from __future__ import annotations

from pathlib import Path

from wardround.learning.induction import INDUCTION, ReflectionSettings, reflect_by_model
from wardround.log import LogReader
from wardround.runs import RunSettings, execute, start


def test_the_real_model_meets_the_reflectors_prompt(
    real_model_url: str, synthetic_store_path: Path, synthetic_stays_path: Path, tmp_path: Path
) -> None:
    settings = RunSettings.of(
        store=str(synthetic_store_path),
        benchmark=str(synthetic_stays_path),
        agents=["trace"],
        reasoner="code",
        models=["openai/smollm2"],
        base_url=real_model_url,
        split="train",
        limit=1,
        reflection_tokens=300,
    )
    folder = start(tmp_path / "run", settings)
    execute(folder)
    found = reflect_by_model(folder, ReflectionSettings(calls=1))
    assert (found.reflected, found.calls) == (1, 1)
    assert len(found.protocol) + found.refused.total() == 1
    with LogReader(folder.path / INDUCTION) as reader:
        (turn,) = (turn for one in reader.trajectories() for turn in one.turns)
    assert turn.reply.content, "what it said stands in the record of the run"
