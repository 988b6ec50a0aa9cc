"""Plays the script as whole episodes of verifiers' taskset ``openenv``, with a scripted model behind a real endpoint.

python read_verifiers.py plan.json rewards.json
"""

import asyncio
import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.tasksets.openenv import OpenEnvConfig, OpenEnvEnv, OpenEnvEnvConfig
from verifiers.v1.types import SamplingConfig


class Model(BaseHTTPRequestHandler):
    """Finds its sample in the first observation, and its turn by its own replies before."""

    calls: dict

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        messages = asked["messages"]
        first = next(message["content"] for message in messages if message["role"] == "user")
        sample = json.loads(first)["observation"]["sample"]
        turn = sum(message["role"] == "assistant" for message in messages)
        name, arguments = self.calls[sample][turn]
        action = json.dumps({"type": "call_tool", "tool_name": name, "arguments": arguments})
        self.answer({"role": "assistant", "content": action})

    def answer(self, message: dict) -> None:
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}
        body = json.dumps(reply | {"usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def model(script: list):
    Model.calls = {episode["sample"]: episode["calls"] for episode in script}
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


async def main(plan: dict, out: Path) -> None:
    script = json.loads(Path(plan["script"]).read_text())
    resets = [{"sample": episode["sample"]} for episode in script]
    taskset = OpenEnvConfig(id="openenv", base_url=plan["url"], resets=resets)
    config = OpenEnvEnvConfig(
        taskset=taskset, player={"harness": {"id": "scripted_harness"}, "runtime": {"type": "subprocess"}}
    )
    rewards, env = {}, OpenEnvEnv(config)
    with model(script) as url:
        client = EvalClientConfig(base_url=url, api_key_var="WARDROUND_NO_KEY")
        context = ModelContext(client=client, model="scripted", sampling=SamplingConfig())
        async with env.serving():
            for task in env.taskset.load():
                episode = await env.run_slot(*env.slots(task), context)
                (trace,) = episode.traces
                print(task.data.reset, episode.ok, trace.rewards, trace.stop_condition, episode.errors, flush=True)
                rewards[task.data.reset["sample"]] = trace.rewards["openenv_reward"].value
    out.write_text(json.dumps(rewards))


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])))
