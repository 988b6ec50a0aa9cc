"""A harness for verifiers: one chat completion a segment, asked in this process.

Its own chat program is a script whose packages are fetched anew by uv; the contract is only that every model call goes
to ``endpoint`` with ``secret``.
"""

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.runtimes import ProgramResult

__all__ = ["ScriptedHarness"]


class ScriptedHarness(vf.Harness[vf.HarnessConfig]):
    """Stateless: a segment is played on the whole conversation."""

    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data) -> ProgramResult:
        _, prompt = self.resolve_prompt(data)
        body = {"model": ctx.model, "messages": [message_to_wire(message) for message in prompt]}
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions", json=body, headers={"Authorization": f"Bearer {secret}"}
            )
            answer.raise_for_status()
        return ProgramResult(exit_code=0, stdout="", stderr="")
