"""Which systems' calls are answered, where each is known by its signed JWTs: settings, in a file, as flags, in Python.

CDS Hooks 2.0, "Trusting CDS Clients": who calls (``iss``) and its keys are agreed on beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wardround.core import UserError, check_settings, read_toml, setting, strict
from wardround.models.guard import parse_endpoint

Algorithm = Literal["ES384", "RS384", "ES256", "RS256", "ES512", "RS512"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustSettings:
    """Clients and how their JWTs are checked. ``clients`` maps what a client calls itself to its keys."""

    clients: dict[str, str] = setting(
        dict,
        "who may call: the iss of a client's JWTs, and its public keys: a JWK Set, in a file or at a URL (its jku)",
        flag="--client",
    )
    base_url: str | None = setting(
        None,
        "address that clients call, as the aud of their JWTs begins (default: where it listens)",
        unit="URL",
        flag="--base-url",
    )
    algorithms: tuple[Algorithm, ...] = setting(
        ("ES384", "RS384"),
        "what JWTs may be signed with",
        source="CDS Hooks 2.0, JWT Signing Algorithm",
        flag="--algorithms",
    )
    longest_seconds: float = setting(
        3600.0, "for how long a JWT may be valid", unit="s", above=0, most=86_400, flag="--longest-seconds"
    )
    skew_seconds: float = setting(
        30.0, "how far a client's clock may be off", unit="s", least=0, most=300, flag="--skew-seconds"
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.algorithms:
            raise UserError("algorithms: name at least one, such as ES384")
        if self.base_url is not None:
            parse_endpoint(self.base_url)
        for issuer, keys in self.clients.items():
            if not issuer or not keys:
                raise UserError("clients: each has an iss and where its keys are")


def read_trust(path: Path) -> dict[str, Any]:
    """Read a file of these settings. Files of keys begin where it lies."""
    told = read_toml(path)
    read = strict(TrustSettings, told, str(path))
    clients = {issuer: _beginning(path.parent, keys) for issuer, keys in read.clients.items()}
    return told | {"clients": clients}


def trust_of(file: Mapping[str, Any], given: Mapping[str, Any]) -> TrustSettings:
    """Return the settings of a file, over them those that were given."""
    clients = {**file.get("clients", {}), **given.get("clients", {})}
    return strict(TrustSettings, {**file, **given, "clients": clients}, "the clients")


def is_url(keys: str) -> bool:
    """Whether keys lie at a URL, not in a file."""
    return keys.startswith(("http://", "https://"))


def _beginning(folder: Path, keys: str) -> str:
    return keys if is_url(keys) else str(folder / keys)
