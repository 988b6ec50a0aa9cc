"""Plays the script through OpenEnv's own client. Runs where openenv is installed and wardround is not.

python read_openenv.py plan.json rewards.json
"""

import asyncio
import json
import sys
from pathlib import Path

from openenv import GenericEnvClient


async def main(plan: dict, out: Path) -> None:
    rewards = {}
    for episode in json.loads(Path(plan["script"]).read_text()):
        async with GenericEnvClient(base_url=plan["url"]) as client:
            rewards[episode["sample"]] = await play(client, episode)
    out.write_text(json.dumps(rewards))


async def play(client: GenericEnvClient, episode: dict) -> float:
    """The sum of the steps' rewards, until the environment says that it is done."""
    result = await client.reset(sample=episode["sample"])
    total = 0.0
    for name, arguments in episode["calls"]:
        if result.done:
            break
        result = await client.step({"type": "call_tool", "tool_name": name, "arguments": arguments})
        total += result.reward or 0.0
    return total


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])))
