"""Where a server may listen: record text and tokens leave this machine encrypted, or because somebody says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from wardround.core import Sensitivity, UserError
from wardround.models.guard import is_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Address, and how it is protected: a certificate with its key, or ``plain_http`` where that is said aloud."""

    host: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    key: Path | None = None
    plain_http: bool = False

    @property
    def scheme(self) -> str:
        """``https`` where there is a certificate."""
        return "http" if self.certificate is None else "https"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"{self.origin}/mcp"

    @property
    def tls_options(self) -> dict[str, Any]:
        """What uvicorn is told of it."""
        return {} if self.certificate is None else {"ssl_certfile": self.certificate, "ssl_keyfile": self.key}

    def check(self, sensitivity: Sensitivity) -> None:
        """Raise UserError where credentialed records would go over a network for all to read."""
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise UserError(f"{str(file)!r}: no such file; give a certificate and its key in PEM form")
        if sensitivity != "credentialed" or self.scheme == "https" or self.plain_http:
            return
        if not is_loopback(httpx2.URL(self.url)):
            raise UserError(
                f"charts of credentialed records are not served to {self.host} over plain HTTP, which every machine in "
                f"between can read; give --tls-certificate FILE --tls-key FILE, or say --plain-http if something else "
                f"encrypts (a tunnel, a reverse proxy)"
            )
