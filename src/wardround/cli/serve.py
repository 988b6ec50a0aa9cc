"""``wardround serve``: a chart's tools for outside agents."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from wardround.benchmarks import Benchmark
from wardround.cli.extras import needs_extra
from wardround.core import UserError, parse_time
from wardround.records import Store
from wardround.retrieval import open_encoder
from wardround.tools import Environment, default_toolset

EXAMPLES = """
  wardround serve mcp --store store --subject 12345678 --as-of "2150-01-31 08:00"
      one chart on standard input and output, for an MCP client that starts this command
  wardround serve mcp --store store --http --charts charts.jsonl
      many charts over HTTP; a line per chart: {"token": "...", "subject_id": 12345678, "as_of": "2150-01-31 08:00"}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("protocol", choices=["mcp"], help="how to serve")
    parser.add_argument("--store", type=Path, required=True, help="folder of the store")
    parser.add_argument("--subject", type=int, help="whose chart")
    parser.add_argument("--as-of", help="as of when, YYYY-MM-DD HH:MM (a date means the end of that day)")
    parser.add_argument("--benchmark", type=Path, help="offer this benchmark's candidate tables too")
    parser.add_argument("--policy", choices=["known_at", "published"], default="known_at", help="clocks")
    parser.add_argument("--http", action="store_true", help="streamable HTTP instead of standard input and output")
    parser.add_argument("--charts", type=Path, help="with --http: file of tokens, one JSON line per chart")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8765, help="port to listen on")
    parser.add_argument("--result-tokens", type=int, default=2_000, help="budget of one tool result")
    parser.add_argument("--evidence-tool", action="store_true", help="offer retrieve_evidence too")
    parser.add_argument("--encoder", default="lexical", help="with --evidence-tool: what likeness is measured with")
    parser.add_argument("--encoder-url", help="with --encoder embeddings/<name>: its endpoint, on this machine")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    with needs_extra("mcp"):
        import uvicorn

        from wardround.serve import Session, SessionLimits, SessionTokens, http_app, serve_stdio
    store = Store.open(arguments.store)
    toolset = default_toolset(evidence=arguments.evidence_tool)
    toolset = toolset.without(["finish"])  # nothing is asked here, so nothing ends the session
    encoder = open_encoder(arguments.encoder, base_url=arguments.encoder_url) if arguments.evidence_tool else None
    spaces = Benchmark.open(arguments.benchmark).spaces if arguments.benchmark else {}

    def session(subject: int, moment: str) -> Session:
        try:
            as_of = parse_time(moment)
        except ValueError as error:
            raise UserError(f"{moment!r} is not a time such as '2150-01-31 08:00': {error}") from error
        chart = store.chart(subject, as_of, policy=arguments.policy)
        environment = Environment(
            chart,
            toolset,
            spaces,
            max_result_tokens=arguments.result_tokens,
            encoder=encoder,
        )
        return Session(environment, name="outside", limits=SessionLimits(calls=sys.maxsize))

    if not arguments.http:
        if arguments.subject is None or arguments.as_of is None:
            raise UserError("serving one chart needs --subject and --as-of")
        asyncio.run(serve_stdio(session(arguments.subject, arguments.as_of)))
        return 0
    tokens = SessionTokens()
    if arguments.charts:
        for line in _charts(arguments.charts):
            tokens.issue(session(line["subject_id"], str(line["as_of"])), str(line["token"]))
    elif arguments.subject is not None and arguments.as_of is not None:
        token = tokens.issue(session(arguments.subject, arguments.as_of), os.environ.get("WARDROUND_TOKEN"))
        print(f"token: {token}", file=sys.stderr)
    else:
        raise UserError("serving over HTTP needs --charts FILE, or --subject and --as-of")
    print(f"http://{arguments.host}:{arguments.port}/mcp", file=sys.stderr)
    app = http_app(tokens, host=arguments.host, port=arguments.port)
    uvicorn.run(app, host=arguments.host, port=arguments.port, log_level="warning")
    return 0


def _charts(path: Path) -> list[dict[str, Any]]:
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except ValueError as error:
        raise UserError(f"{str(path)!r} is not JSON lines: {error}") from error
    for line in lines:
        missing = {"token", "subject_id", "as_of"} - set(line if isinstance(line, dict) else ())
        if missing:
            raise UserError(f"a line of {str(path)!r} has no {', '.join(sorted(missing))}")
        if not isinstance(line["subject_id"], int):
            raise UserError(f"{str(path)!r}: the subject_id {line['subject_id']!r} is not a whole number")
    return lines
