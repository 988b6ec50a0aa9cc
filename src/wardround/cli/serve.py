"""``wardround serve``: a chart's tools or a benchmark's episodes over MCP, a run's answers as CDS Hooks cards."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from wardround.cli.parser import (
    TOKEN_VARIABLE,
    Command,
    add_action,
    add_address_options,
    add_listening_options,
    address,
    guarding_token,
    listening,
    needs_mcp,
)
from wardround.core import (
    Sensitivity,
    TerminalProgress,
    UserError,
    content_hash,
    imaging_models_home,
    library_of,
    needs_extra,
    parse_time,
    user_home,
)
from wardround.models import DataUseGuard
from wardround.models.guard import is_loopback
from wardround.records import Store
from wardround.runs import RunFolder, RunSettings, open_store, start
from wardround.tasks.benchmarks import Benchmark
from wardround.tools import AID_NAMES, TOOLSETS, Aids, Environment, EnvironmentOptions, default_toolset
from wardround.tools.imaging import ImageSettings, open_images
from wardround.tools.knowledge import Knowledge, KnowledgeSettings
from wardround.tools.retrieval import EncoderConfig, open_encoder
from wardround.tools.toolset import USUAL

if TYPE_CHECKING:
    from wardround.serve import Listening
    from wardround.serve.cds import SignedCallers


# Which systems may call ``serve cds-hooks`` by their signed JWTs: a file of settings, and a flag for each.


_SETTINGS = ("base_url", "algorithms", "longest_seconds", "skew_seconds")


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Declare the settings of trust; defaults are those of ``TrustSettings``."""
    group = parser.add_argument_group("trusted clients", "accept systems that sign their calls (JWT, CDS Hooks 2.0)")
    left = argparse.SUPPRESS
    group.add_argument("--clients", type=Path, metavar="FILE", help="TOML file of these settings, by the same names")
    group.add_argument(
        "--client",
        action="append",
        default=[],
        metavar="ISS=KEYS",
        help="who may call, as its JWTs say (iss), and its public keys: a JWK Set, in a file or at a URL (its jku)",
    )
    group.add_argument(
        "--base-url", default=left, metavar="URL", help="address of this server for clients (the start of aud)"
    )
    group.add_argument(
        "--algorithms", nargs="+", default=left, help="allowed signature algorithms (default: ES384 RS384)"
    )
    group.add_argument("--longest-seconds", type=float, default=left, help="longest validity of a JWT (3600)")
    group.add_argument("--skew-seconds", type=float, default=left, help="largest error of a client's clock (30)")
    group.add_argument(
        "--permit-endpoint", action="append", default=[], metavar="URL", help="keys may be fetched from this URL"
    )
    group.add_argument(
        "--access-log", type=Path, metavar="FILE", help="who called which service, and why not (in WARDROUND_HOME)"
    )


def signed_callers(arguments: argparse.Namespace, where: Listening, sensitivity: Sensitivity) -> SignedCallers | None:
    """Return the clients whose signed calls are accepted; None without any. UserError: invalid settings."""
    from wardround.serve.cds import SignedCallers, read_trust, trust_of

    given: dict[str, Any] = {name: getattr(arguments, name) for name in _SETTINGS if name in arguments}
    given["clients"] = dict(map(_client, arguments.client))
    settings = trust_of(read_trust(arguments.clients) if arguments.clients else {}, given)
    if not settings.clients:
        if arguments.clients or len(given) > 1:
            raise UserError("no client is declared: give --client ISS=KEYS, or [clients] in the file of --clients")
        return None
    if os.environ.get(TOKEN_VARIABLE):
        raise UserError(
            f"clients are accepted by their JWTs or by {TOKEN_VARIABLE}, not by both: unset it, or give no client"
        )
    if settings.base_url is None and not is_loopback(httpx2.URL(where.origin)):
        raise UserError(f"say with --base-url how clients call what listens on {where.host}; their JWTs name it (aud)")
    where.check(sensitivity)
    guard = DataUseGuard(sensitivity=sensitivity, permitted=tuple(arguments.permit_endpoint))
    log = arguments.access_log or user_home() / "cds-access.jsonl"
    return SignedCallers.of(settings, guard, base_url=where.origin, log=log)


def _client(text: str) -> tuple[str, str]:
    """Parse ``ISS=KEYS``; an ``iss`` may have an equals sign, keys do not."""
    issuer, _, keys = text.rpartition("=")
    if not issuer or not keys:
        raise UserError(f"--client {text!r}: write ISS=KEYS, such as https://ehr.example.org/=ehr-keys.json")
    return issuer, keys


# ``wardround serve cds-hooks``: the answers of a finished run as cards, by CDS Hooks 2.0.


CDS_EXAMPLES = """
  wardround serve cds-hooks --run run
      then GET http://127.0.0.1:8765/cds-services
  wardround serve cds-hooks --run run --agent retrosum --feedback said.jsonl
  WARDROUND_TOKEN=... wardround serve cds-hooks --run run --host 0.0.0.0 --tls-certificate cert.pem --tls-key key.pem
  wardround serve cds-hooks --run run --allow-origin https://sandbox.example.org
  wardround serve cds-hooks --run run --client https://ehr.example.org/=ehr-keys.json
      accepts only that system: it signs a JWT for every call
  wardround serve cds-hooks --run run --clients clients.toml --base-url https://cds.example.org
"""


def configure_cds(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--run", type=Path, required=True, help="folder of a finished run")
    parser.add_argument("--agent", help="whose answers, if the run has several agents")
    parser.add_argument("--model", help="whose answers, if the run has several models")
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
        scheme, _, rest = origin.partition("://")
        if scheme not in ("http", "https") or not rest or "/" in rest or "*" in rest:
            raise UserError(f"{origin!r} is not an origin such as https://sandbox.example.org")
    cards = prepare_cards(folder, agent=arguments.agent, model=arguments.model)
    shelf = CardShelf.of(folder.provenance, store, cards)
    run = folder.path.resolve()
    beside = run.with_name(f"{run.name}-feedback.jsonl")
    feedback = FeedbackFile(arguments.feedback or beside, folder.path, shelf)
    app = cds_app(shelf, feedback, token=token, signed=signed, origins=arguments.allow_origin)
    guarded = f" (bearer token: as in {TOKEN_VARIABLE})" if token else ""
    if signed is not None:
        guarded = f" (JWTs of trusted clients; calls are noted in {signed.log.path})"
    print(f"{len(cards):,} cards, research, not for care: {where.origin}/cds-services{guarded}", file=sys.stderr)
    uvicorn.run(app, host=where.host, port=where.port, log_level="warning", **where.tls_options)
    return 0


# ``wardround serve``: a chart's tools for outside agents, the cards of a run for a hospital's system.


EXAMPLES = """
  wardround serve mcp --store store --subject 12345678 --as-of "2150-01-31 08:00"
      one chart on standard input and output, for an MCP client that starts this command
  wardround serve mcp --store store --http --charts charts.jsonl
      many charts over HTTP; a line per chart: {"token": "...", "subject_id": 12345678, "as_of": "2150-01-31 08:00"},
      and if you like a "name" for the access log
  wardround serve mcp --store store --subject 12345678 --as-of "2150-01-31 08:00" --print-config
      text for an MCP client's configuration
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    protocols = parser.add_subparsers(dest="protocol", required=True, metavar="PROTOCOL")
    _configure_mcp(protocols.add_parser("mcp", help="a chart's tools, for outside agents", examples=EXAMPLES))
    cards = protocols.add_parser("cds-hooks", help="cards of a finished run, by CDS Hooks 2.0", examples=CDS_EXAMPLES)
    configure_cds(cards)
    add_action(protocols, "play", PLAY, "episodes of a benchmark, for an outside agent; recorded and scored")


def _configure_mcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, required=True, help="folder of the store")
    parser.add_argument("--subject", help="subject of the chart (the source's id)")
    parser.add_argument("--as-of", help="as of when, YYYY-MM-DD HH:MM (a date means the end of that day)")
    parser.add_argument("--benchmark", type=Path, help="offer this benchmark's candidate tables too")
    parser.add_argument("--policy", choices=["known_at", "published"], default="known_at", help="clocks")
    parser.add_argument("--http", action="store_true", help="streamable HTTP instead of standard input and output")
    parser.add_argument("--charts", type=Path, help="with --http: file of tokens, one JSON line per chart")
    add_listening_options(parser)
    parser.add_argument(
        "--access-log", type=Path, help="who called which tool on which chart, and when (default: in WARDROUND_HOME)"
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print what an MCP client's configuration needs, and serve nothing"
    )
    parser.add_argument("--result-tokens", type=int, default=2_000, help="budget of one tool result")
    parser.add_argument("--tool", action="append", default=[], help="offer this tool too (wardround list tools)")
    parser.add_argument("--library", type=Path, help="folder of corpora (default: those of wardround corpus list)")
    parser.add_argument("--images", help="where the image tools find the chart's images: a folder or a DICOMweb URL")
    parser.add_argument(
        "--permit-endpoint",
        action="append",
        default=[],
        metavar="URL",
        help="a DICOMweb server elsewhere may be asked for the chart's images (you declare it)",
    )
    parser.add_argument("--image-models", help="folder of imaging weights (default: those of wardround models list)")
    parser.add_argument("--evidence-tool", action="store_true", help="offer retrieve_evidence too")
    parser.add_argument("--encoder", default="lexical", help="with --evidence-tool: what likeness is measured with")
    parser.add_argument("--encoder-url", help="with --encoder embeddings/<name>: its endpoint, on this machine")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    if "do" in arguments:
        return int(arguments.do(arguments))
    return serve_cds(arguments) if arguments.protocol == "cds-hooks" else _serve_mcp(arguments)


def _serve_mcp(arguments: argparse.Namespace) -> int:
    if arguments.print_config:
        print(json.dumps(_client_configuration(arguments), indent=2))
        return 0
    with needs_mcp():
        import uvicorn

        from wardround.serve import (
            AccessLog,
            ServedSession,
            SessionLimits,
            SessionTokens,
            SqlLane,
            http_app,
            serve_stdio,
        )
    store = Store.open(arguments.store)
    where = listening(arguments)
    if arguments.http:
        where.check(store.spec.sensitivity)
    access, lane = AccessLog(_access_log(arguments)), SqlLane()
    guard = DataUseGuard(sensitivity=store.spec.sensitivity, permitted=tuple(arguments.permit_endpoint))
    usual = imaging_models_home()
    weights = str(usual) if arguments.image_models is None and usual.is_dir() else arguments.image_models
    images = open_images(ImageSettings(source=arguments.images, models=weights), guard)
    knowledge = Knowledge.open(KnowledgeSettings(library=library_of(arguments.library)))
    toolset = default_toolset(evidence=arguments.evidence_tool, more=arguments.tool)
    toolset = toolset.without(["finish"])  # no questions are posed here, so no answer ends the session
    config = EncoderConfig(name=arguments.encoder, base_url=arguments.encoder_url)
    encoder = open_encoder(config) if arguments.evidence_tool else None
    benchmark = Benchmark.open(arguments.benchmark) if arguments.benchmark else None

    def session(subject: str, moment: str, who: str) -> ServedSession:
        try:
            as_of = parse_time(moment)
        except ValueError as error:
            raise UserError(f"{moment!r} is not a time such as '2150-01-31 08:00': {error}") from error
        subject_id = store.subject_of(subject)
        chart = store.chart(subject_id, as_of, policy=arguments.policy)
        options = EnvironmentOptions(
            candidates={} if benchmark is None else benchmark.spaces_of(store.person_of(subject_id)),
            max_result_tokens=arguments.result_tokens,
            encoder=encoder,
            knowledge=knowledge,
            images=images.of(chart, subject),
        )
        environment = Environment(chart, toolset, options)
        return ServedSession(environment, name=who, limits=SessionLimits(calls=sys.maxsize), access=access, sql=lane)

    if not arguments.http:
        if arguments.subject is None or arguments.as_of is None:
            raise UserError("serving one chart needs --subject and --as-of")
        asyncio.run(serve_stdio(session(arguments.subject, arguments.as_of, f"process of {getpass.getuser()}")))
        return 0
    tokens = SessionTokens(seconds=arguments.token_hours * 3600)
    if arguments.charts:
        for line in _charts(arguments.charts):
            token = str(line["token"])
            tokens.issue(session(str(line["subject_id"]), str(line["as_of"]), _holder(token, line.get("name"))), token)
    elif arguments.subject is not None and arguments.as_of is not None:
        given = os.environ.get(TOKEN_VARIABLE)
        token = given or secrets.token_urlsafe(32)
        tokens.issue(session(arguments.subject, arguments.as_of, _holder(token)), token)
        shown = f"as in {TOKEN_VARIABLE}" if given else token
        print(f"token (for {arguments.token_hours:g} hours): {shown}", file=sys.stderr)
    else:
        raise UserError("serving over HTTP needs --charts FILE, or --subject and --as-of")
    print(f"{where.url}\naccess log: {access.path}", file=sys.stderr)
    app = http_app(tokens, host=where.host, port=where.port, scheme=where.scheme)
    uvicorn.run(app, host=where.host, port=where.port, log_level="warning", **where.tls_options)
    return 0


def _access_log(arguments: argparse.Namespace) -> Path:
    return Path(arguments.access_log or user_home() / "access.jsonl")


def _holder(token: str, name: object = None) -> str:
    """Return the name of a token's holder in the access log: a name, else the start of the token's hash."""
    return str(name) if name else f"token {content_hash(token)[:12]}"


def _client_configuration(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration of common MCP clients: a command to start, or an address, without the token."""
    if arguments.http:
        token = f"Bearer ${{{TOKEN_VARIABLE}}}"
        server = {"type": "http", "url": listening(arguments).url, "headers": {"Authorization": token}}
        return {"mcpServers": {"wardround": server}}
    if arguments.subject is None or arguments.as_of is None:
        raise UserError("the configuration of one chart needs --subject and --as-of (or --http)")
    words = ["-m", "wardround", "serve", "mcp", "--store", str(arguments.store.resolve())]
    words += ["--subject", str(arguments.subject), "--as-of", arguments.as_of, "--policy", arguments.policy]
    words += ["--result-tokens", str(arguments.result_tokens), "--access-log", str(_access_log(arguments).resolve())]
    if arguments.benchmark:
        words += ["--benchmark", str(arguments.benchmark.resolve())]
    for name in arguments.tool:
        words += ["--tool", name]
    words += ["--library", str(arguments.library.resolve())] if arguments.library else []
    words += ["--images", arguments.images] if arguments.images else []
    for url in arguments.permit_endpoint:
        words += ["--permit-endpoint", url]
    words += ["--image-models", arguments.image_models] if arguments.image_models else []
    if arguments.evidence_tool:
        words += ["--evidence-tool", "--encoder", arguments.encoder]
        words += ["--encoder-url", arguments.encoder_url] if arguments.encoder_url else []
    return {"mcpServers": {"wardround": {"type": "stdio", "command": sys.executable, "args": words}}}


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


# ``wardround serve play``: outside agents run episodes over MCP, recorded and scored like ours.


PLAY_EXAMPLES = """
  wardround serve play --benchmark bench --store store --task diagnoses --limit 5 --name my-agent --out played
      writes played/handout.jsonl: prompt, address and token of each episode; ends when all are finished
  wardround serve play --benchmark bench --store store --stdio --limit 1 --name my-agent --out played
      serves one episode on standard input and output (the MCP prompt `task` holds the question)
  wardround serve play --benchmark bench --store store --toolset clinseek --limit 1 --name my-agent --out played
      with the tools that seek evidence in corpora too: those of wardround corpus list, or of --library
  wardround serve play --resume played
  wardround report played
"""


def configure_play(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--benchmark", type=Path, help="folder of a built benchmark")
    parser.add_argument("--store", type=Path, help="folder of the store it was built from")
    parser.add_argument("--out", type=Path, help="folder of the new run")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run that was played")
    parser.add_argument("--name", default="outside", help="what to call the agent in tables")
    parser.add_argument("--task", nargs="+", default=[], help="only these tasks")
    parser.add_argument("--split", default="test", choices=["train", "dev", "test"], help="which samples")
    parser.add_argument("--sample", nargs="+", default=[], metavar="ID", help="only these samples, by id")
    parser.add_argument(
        "--aids",
        nargs="+",
        default=["all"],
        choices=["all", "none", *AID_NAMES],
        help="what is done for a language model beyond the papers' tools",
    )
    parser.add_argument("--toolset", choices=TOOLSETS.names, default=USUAL, help="which tools are offered")
    parser.add_argument("--tool", nargs="+", default=[], help="offer these tools too (wardround list tools)")
    parser.add_argument("--library", type=Path, help="folder of corpora (default: those of wardround corpus list)")
    parser.add_argument("--limit", type=int, help="at most this many samples per task")
    parser.add_argument("--stdio", action="store_true", help="serve one episode on standard input and output")
    add_listening_options(parser)
    parser.add_argument("--together", type=int, default=100, help="episodes open at once")
    parser.add_argument("--calls", type=int, default=200, help="tool calls an episode may use")
    parser.add_argument("--episode-seconds", type=float, help="wall time an episode may use from its first call")


def run_play(arguments: argparse.Namespace) -> int:
    """Hand out episodes, wait for their end, print the results."""
    with needs_mcp():
        from wardround.serve import PlayedRun, PlaySettings, SessionLimits
    folder = RunFolder.open(arguments.resume) if arguments.resume else _new_run(arguments)
    progress = TerminalProgress()
    settings = PlaySettings(
        listening=listening(arguments),
        token_seconds=arguments.token_hours * 3600,
        together=arguments.together,
        limits=SessionLimits(calls=arguments.calls, seconds=arguments.episode_seconds),
    )
    game = PlayedRun(folder, settings, progress)
    if arguments.stdio:
        asyncio.run(game.over_stdio())
        return 0
    print(f"handout: {folder.path / 'handout.jsonl'}  (tokens open charts: keep it private)", file=sys.stderr)
    asyncio.run(game.over_http())
    progress.close()
    print(f"all episodes finished; see them with: wardround report {folder.path}")
    return 0


def _new_run(arguments: argparse.Namespace) -> RunFolder:
    missing = [name for name in ("benchmark", "store", "out") if getattr(arguments, name) is None]
    if missing:
        raise UserError(f"a new game needs {', '.join('--' + name for name in missing)} (or --resume RUN)")
    settings = RunSettings.of(
        benchmark=str(arguments.benchmark),
        store=str(arguments.store),
        tasks=tuple(arguments.task),
        split=arguments.split,
        limit=arguments.limit,
        agents=(arguments.name,),
        models=("outside",),
        samples=tuple(arguments.sample),
        toolset=arguments.toolset,
        tools=tuple(arguments.tool),
        library=library_of(arguments.library),
        aids=Aids.named(arguments.aids),
        plugins=tuple(arguments.plugin),
    )
    return start(arguments.out, settings, outside=True)


SERVE = Command(EXAMPLES, configure, run)
PLAY = Command(PLAY_EXAMPLES, configure_play, run_play)
