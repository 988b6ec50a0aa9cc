"""Which systems may call ``serve cds-hooks`` by their signed JWTs: a file of settings, and a flag for each."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from wardround.cli.mcp_options import TOKEN_VARIABLE
from wardround.cli.paths import home
from wardround.core import Sensitivity, UserError
from wardround.models import DataUseGuard
from wardround.models.guard import is_loopback

if TYPE_CHECKING:
    from wardround.serve import Listening
    from wardround.serve.cds import SignedCallers

_SETTINGS = ("base_url", "algorithms", "longest_seconds", "skew_seconds")


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Declare the settings of trust; their defaults stand in ``TrustSettings``."""
    group = parser.add_argument_group("trusted clients", "let in systems that sign their calls (JWT, CDS Hooks 2.0)")
    left = argparse.SUPPRESS
    group.add_argument("--clients", type=Path, metavar="FILE", help="TOML file of these settings, by the same names")
    group.add_argument(
        "--client",
        action="append",
        default=[],
        metavar="ISS=KEYS",
        help="who may call, as its JWTs say (iss), and its public keys: a JWK Set, in a file or at a URL (its jku)",
    )
    group.add_argument("--base-url", default=left, metavar="URL", help="how clients call this server (aud begins so)")
    group.add_argument("--algorithms", nargs="+", default=left, help="what may be signed with (default: ES384 RS384)")
    group.add_argument("--longest-seconds", type=float, default=left, help="a JWT is valid for so long at most (3600)")
    group.add_argument("--skew-seconds", type=float, default=left, help="a client's clock may be so far off (30)")
    group.add_argument(
        "--permit-endpoint", action="append", default=[], metavar="URL", help="keys may be fetched from this URL"
    )
    group.add_argument(
        "--access-log", type=Path, metavar="FILE", help="who called which service, and why not (in WARDROUND_HOME)"
    )


def signed_callers(arguments: argparse.Namespace, where: Listening, sensitivity: Sensitivity) -> SignedCallers | None:
    """Return whose signed calls are let in; None where no client is named. UserError: settings that do not hold."""
    from wardround.serve.cds import SignedCallers, read_trust, trust_of

    given: dict[str, Any] = {name: getattr(arguments, name) for name in _SETTINGS if name in arguments}
    given["clients"] = dict(map(_client, arguments.client))
    settings = trust_of(read_trust(arguments.clients) if arguments.clients else {}, given)
    if not settings.clients:
        if arguments.clients or len(given) > 1:
            raise UserError("no client is named: give --client ISS=KEYS, or [clients] in the file of --clients")
        return None
    if os.environ.get(TOKEN_VARIABLE):
        raise UserError(f"clients are let in by their JWTs or by {TOKEN_VARIABLE}, not by both: unset it, or name none")
    if settings.base_url is None and not is_loopback(httpx2.URL(where.origin)):
        raise UserError(f"say with --base-url how clients call what listens on {where.host}; their JWTs name it (aud)")
    where.check(sensitivity)
    guard = DataUseGuard(sensitivity=sensitivity, permitted=tuple(arguments.permit_endpoint))
    log = arguments.access_log or home() / "cds-access.jsonl"
    return SignedCallers.of(settings, guard, base_url=where.origin, log=log)


def _client(text: str) -> tuple[str, str]:
    """Read ``ISS=KEYS``; an ``iss`` may hold an equals sign, keys do not."""
    issuer, _, keys = text.rpartition("=")
    if not issuer or not keys:
        raise UserError(f"--client {text!r}: write ISS=KEYS, such as https://ehr.example.org/=ehr-keys.json")
    return issuer, keys
