"""The argument parser, and the options that several commands share: executors, servers."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import httpx2

from wardround.core import Sensitivity, UserError, needs_extra, parse_time
from wardround.core.executors import EXECUTORS
from wardround.models.guard import is_loopback

if TYPE_CHECKING:
    from wardround.serve import Listening


_LAST_PORT = 65_535


# The argument parser of every command and action: examples in its help, wrong use as one clear line.


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` whose errors are a UserError; parsers of actions are of the same class.

    Options cannot be abbreviated: ``--api-key KEY`` would mean ``--api-key-variable``, and a new option could change
    the meaning of a script.
    """

    def __init__(self, *, examples: str = "", **options: Any) -> None:
        if examples:
            options["epilog"] = "examples:\n" + examples.strip("\n")
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, **options)
        self.settings: Mapping[str, str] = {}
        """By the flag that a user may expect: how a setting without a flag is written."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse; unknown options are named in the error, without values, since these may be keys."""
        given = sys.argv[1:] if args is None else list(args)
        parsed, rest = self.parse_known_args(given, namespace)
        if rest:
            self._refuse(rest, given)
        return parsed

    def _refuse(self, rest: Sequence[str], given: Sequence[str]) -> NoReturn:
        unknown = [word.partition("=")[0] for word in rest if word.startswith("--")]
        if unknown:
            self.error("; ".join(f"unknown option {name}{self._hint(name)}" for name in dict.fromkeys(unknown)))
        secret = any(word.startswith("--") and "key" in word for word in given)
        self.error(f"{len(rest)} more words than it takes" + ("" if secret else f": {' '.join(rest)}"))

    def _hint(self, name: str) -> str:
        if name in ("--api-key", "--key", "--token"):
            return ": a key is read from the environment variable that --api-key-variable NAME names"
        settings = _settings(self)
        close = get_close_matches(name, sorted(set(_options(self))), n=1, cutoff=0.9 if name in settings else 0.7)
        if close == [name]:
            return f" here; it belongs to: {', '.join(_actions_with(self, name))}"
        if close:
            return f"; did you mean {close[0]}?"
        return f"; write {settings[name]}" if name in settings else ""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong and where help is, and nothing else."""
        raise UserError(f"{message} ({self.prog} --help)")


class _Formatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps line breaks of examples and shows defaults, except None, False and empty ones."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False or action.default in ((), []):
            return action.help
        if "(default: " in (action.help or ""):  # one that depends on the machine, in words
            return action.help
        if isinstance(action.default, list):
            return f"{action.help} (default: {' '.join(map(str, action.default))})"
        return super()._get_help_string(action)


def _settings(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return how settings without a flag are written, for a parser and its actions."""
    found = dict(parser.settings) if isinstance(parser, Parser) else {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                found |= _settings(inner)
    return found


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Return every long option of a parser and its actions."""
    for action in parser._actions:
        yield from (name for name in action.option_strings if name.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _options(inner)


def _actions_with(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """Return the actions of a parser that have an option."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from (inner.prog for inner in action.choices.values() if name in _options(inner))


# Parsers of values for all commands; argparse adds the option to their errors.


def moment(text: str) -> datetime:
    """Parse a clinical time; a date means the end of that day."""
    try:
        return parse_time(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; write 2150-01-31 (the end of that day) or '2150-01-31 08:00'"
        ) from None


def port(text: str) -> int:
    """Parse the number of a port."""
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; write a number from 0 to {_LAST_PORT}")
    return int(text)


# A command, which may be an action of another one.


class Command(NamedTuple):
    """What a module of the command line has for each of its commands: examples, arguments, and what is done."""

    examples: str
    configure: Callable[[argparse.ArgumentParser], None]
    """Declares the arguments."""
    run: Callable[[argparse.Namespace], int]
    """Runs the command; returns the exit status."""


def add_action(actions: Any, name: str, command: Command, summary: str) -> None:
    """Add a command as an action of another one; ``arguments.do`` runs it."""
    parser = actions.add_parser(name, help=summary, examples=command.examples)
    command.configure(parser)
    parser.set_defaults(do=command.run)


# Executor and number of workers, as options of several commands.


USUAL = "(default: one for each core, at most 4)"
WHERE = "where the work is done: processes of this machine, or ray, a cluster (docs/clusters.md)"


def usual_workers() -> int:
    """Return how many processes play episodes unless it is said."""
    return min(4, os.cpu_count() or 1)


def add_executor_options(parser: argparse.ArgumentParser) -> None:
    """Declare ``--workers`` and ``--executor``."""
    parser.add_argument("--workers", type=int, default=1, help="processes, of all machines")
    parser.add_argument("--executor", choices=EXECUTORS.names, default="processes", help=WHERE)


# Options of servers: address, lifetime of tokens, and the SDK that MCP needs.


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
