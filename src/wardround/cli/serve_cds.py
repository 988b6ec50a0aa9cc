"""``wardround serve cds-hooks``: the answers of a finished run as cards, by CDS Hooks 2.0."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from wardround.cli.cds_clients import add_client_options, signed_callers
from wardround.cli.mcp_options import TOKEN_VARIABLE, add_address_options, address, guarding_token
from wardround.core import UserError, needs_extra
from wardround.runs import RunFolder, open_store

CDS_EXAMPLES = """
  wardround serve cds-hooks --run run
      then GET http://127.0.0.1:8765/cds-services
  wardround serve cds-hooks --run run --agent retrosum --feedback said.jsonl
  WARDROUND_TOKEN=... wardround serve cds-hooks --run run --host 0.0.0.0 --tls-certificate cert.pem --tls-key key.pem
  wardround serve cds-hooks --run run --allow-origin https://sandbox.example.org
  wardround serve cds-hooks --run run --client https://ehr.example.org/=ehr-keys.json
      answers that system alone: every call carries a JWT that it signed
  wardround serve cds-hooks --run run --clients clients.toml --base-url https://cds.example.org
"""


def configure_cds(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--run", type=Path, required=True, help="folder of a finished run")
    parser.add_argument("--agent", help="whose answers, where several agents played")
    parser.add_argument("--model", help="whose answers, where several models played")
    parser.add_argument("--feedback", type=Path, metavar="FILE", help="where feedback goes (RUN-feedback.jsonl)")
    parser.add_argument(
        "--allow-origin", action="append", default=[], metavar="URL", help="pages of this origin may call it (CORS)"
    )
    add_address_options(parser)
    add_client_options(parser)


def serve_cds(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    with needs_extra("view"):
        import uvicorn

        from wardround.serve.cds import CardShelf, FeedbackFile, cds_app, prepare_cards
    folder = RunFolder.open(arguments.run)
    store, where = open_store(folder), address(arguments)
    signed = signed_callers(arguments, where, store.spec.sensitivity)
    token = guarding_token(where, "the service", [store.spec.sensitivity]) if signed is None else None
    for origin in arguments.allow_origin:
        _must_be_origin(origin)
    cards = prepare_cards(folder, agent=arguments.agent, model=arguments.model)
    shelf = CardShelf.of(folder.provenance, store, cards)
    feedback = FeedbackFile(arguments.feedback or _beside(folder), folder.path, shelf)
    app = cds_app(shelf, feedback, token=token, signed=signed, origins=arguments.allow_origin)
    guarded = f" (bearer token: as in {TOKEN_VARIABLE})" if token else ""
    if signed is not None:
        guarded = f" (JWTs of trusted clients; calls are noted in {signed.log.path})"
    print(f"{len(cards):,} cards, research, not for care: {where.origin}/cds-services{guarded}", file=sys.stderr)
    uvicorn.run(app, host=where.host, port=where.port, log_level="warning", **where.tls_options)
    return 0


def _beside(folder: RunFolder) -> Path:
    run = folder.path.resolve()
    return run.with_name(f"{run.name}-feedback.jsonl")


def _must_be_origin(origin: str) -> None:
    scheme, _, rest = origin.partition("://")
    if scheme not in ("http", "https") or not rest or "/" in rest or "*" in rest:
        raise UserError(f"{origin!r} is not an origin such as https://sandbox.example.org")
