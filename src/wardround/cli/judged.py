"""What a run's judge took, and what it has not judged, for ``wardround report``."""

from __future__ import annotations

import sys

from wardround.runs import RunFolder, open_benchmark, stages
from wardround.runs.judging import JUDGEMENTS, unjudged
from wardround.scoring.judging import WORDS


def print_judge(folder: RunFolder) -> None:
    """Print the judge's calls and tokens; say on stderr how many answers it has yet to judge."""
    judge = folder.settings.scoring.judge
    if judge is None:
        return
    protocol = "" if judge == WORDS else f" by the protocol {folder.settings.scoring.judge_protocol}"
    asked = stages(folder, JUDGEMENTS)
    read = sum(stage.usage.input_tokens for stage in asked)
    written = sum(stage.usage.output_tokens for stage in asked)
    calls = sum(stage.calls for stage in asked)
    print(f"judge: {calls:,} calls of {judge}{protocol}, {read:,} tokens in, {written:,} out")
    waiting = unjudged(folder, open_benchmark(folder))
    if waiting:
        print(
            f"wardround: note: {len(waiting):,} answers have no verdict of the judge and stand in no table; "
            f"go on with: wardround run --resume {folder.path}",
            file=sys.stderr,
        )
