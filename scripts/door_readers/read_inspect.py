"""Plays the script inside Inspect, with its own mock model in the model's place. Needs wardround beside inspect-ai.

python read_inspect.py plan.json rewards.json
"""

import json
import sys
from pathlib import Path

from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model


class Scripted:
    """Its replies in the order of the samples, which are played one after another: a first turn begins the next one."""

    def __init__(self, script: list) -> None:
        self.left = iter(script)
        self.calls = iter(())

    def __call__(self, messages: list, *_asked: object) -> ModelOutput:
        if not any(message.role == "assistant" for message in messages):
            self.calls = iter(next(self.left)["calls"])
        name, arguments = next(self.calls)
        reply = ModelOutput.for_tool_call("mockllm", name, arguments)
        reply.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else it fetches a tokenizer
        return reply


def main(plan: dict, out: Path) -> None:
    script = json.loads(Path(plan["script"]).read_text())
    (log,) = eval(
        "wardround/tasks",
        task_args={"store": plan["store"], "benchmark": plan["benchmark"], "split": "train", "calls": plan["calls"]},
        model=get_model("mockllm/model", custom_outputs=Scripted(script)),
        sample_id=[episode["sample"] for episode in script],
        max_samples=1,
        log_dir=str(out.parent / "inspect-logs"),
        display="none",
    )
    assert log.status == "success", log.error.message
    out.write_text(json.dumps({sample.id: sample.scores["score"].value for sample in log.samples}))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
