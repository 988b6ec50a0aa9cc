"""Options of ``serve`` and ``play``: address, lifetime of tokens, and the SDK that the server needs."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

from wardround.cli.parser import port
from wardround.core import Sensitivity, UserError, needs_extra
from wardround.models.guard import is_loopback

if TYPE_CHECKING:
    from wardround.serve import Listening

TOKEN_VARIABLE = "WARDROUND_TOKEN"


def add_address_options(parser: argparse.ArgumentParser) -> None:
    """Declare where a server listens, and how it is protected."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=port, default=8765, help="port to listen on")
    parser.add_argument("--tls-certificate", type=Path, help="serve HTTPS: certificate (PEM)")
    parser.add_argument("--tls-key", type=Path, help="serve HTTPS: its key (PEM)")
    parser.add_argument(
        "--plain-http", action="store_true", help="credentialed charts over plain HTTP on a --host that others reach"
    )


def add_listening_options(parser: argparse.ArgumentParser) -> None:
    """Declare all of them."""
    add_address_options(parser)
    parser.add_argument("--token-hours", type=float, default=12.0, help="tokens open nothing after so long")


def listening(arguments: argparse.Namespace) -> Listening:
    """Return the parsed options."""
    where = address(arguments)
    if arguments.token_hours <= 0:
        raise UserError(f"--token-hours must be more than 0, not {arguments.token_hours:g}")
    return where


def address(arguments: argparse.Namespace) -> Listening:
    """Return the address given by the options."""
    with needs_mcp():
        from wardround.serve import Listening
    if (arguments.tls_certificate is None) != (arguments.tls_key is None):
        raise UserError("HTTPS needs both --tls-certificate and --tls-key")
    return Listening(
        host=arguments.host,
        port=arguments.port,
        certificate=arguments.tls_certificate,
        key=arguments.tls_key,
        plain_http=arguments.plain_http,
    )


def guarding_token(where: Listening, what: str, sensitivities: Iterable[Sensitivity]) -> str | None:
    """Return the token from the environment, if any. UserError: others could read records, since there is no token, or
    the network is not encrypted."""
    from wardround.serve.viewer import must_be_token

    token = os.environ.get(TOKEN_VARIABLE) or None
    if token is not None:
        must_be_token(token)
    if is_loopback(httpx2.URL(where.origin)):
        return token
    if token is None:
        raise UserError(f"{what} listens on {where.host} only with a token: set {TOKEN_VARIABLE}")
    for sensitivity in sensitivities:
        where.check(sensitivity)
    return token


@contextmanager
def needs_mcp() -> Iterator[None]:
    """Raise a clear UserError if version 1 of the SDK is installed: the server needs version 2."""
    try:
        version = importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    if version.startswith(("0.", "1.")):
        raise UserError(
            f"the server needs mcp 2.3 or newer and mcp {version} is installed here: install wardround in an "
            f"environment of its own; clients on 1.x connect to it all the same"
        )
    with needs_extra("mcp"):
        yield
