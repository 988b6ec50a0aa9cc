"""A client of CDS Hooks that signs its calls, with a key of this round; and one that forges them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

_ISSUER = "https://ehr.example.org/"
_KEY = "key-of-this-round"


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


@dataclass(frozen=True)
class Client:
    """Calls services below ``base_url``."""

    base_url: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)

    def named_with_keys(self, path: Path) -> str:
        """Write the public key as a JWK Set; return what ``--client`` is told."""
        public = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        path.write_text(json.dumps({"keys": [public | {"kid": _KEY, "alg": "ES384", "use": "sig"}]}))
        return f"{_ISSUER}={path}"

    def signed(self, path: str, *, without: str = "") -> str:
        """A JWT for one call, of ES384; a claim may be missing."""
        told = {name: value for name, value in self._claims(path).items() if name != without}
        return jwt.encode(told, self.key, algorithm="ES384", headers={"kid": _KEY})

    def forged(self, path: str, algorithm: str) -> str:
        """A JWT that nobody signed, or that a shared secret did."""
        secret = None if algorithm == "none" else "a secret that the server has never heard of, long enough"
        return jwt.encode(self._claims(path), secret, algorithm=algorithm, headers={"kid": _KEY})

    def _claims(self, path: str) -> dict[str, object]:
        now = int(time.time())
        aud = f"{self.base_url}{path}"
        return {"iss": _ISSUER, "aud": aud, "iat": now, "exp": now + 300, "jti": str(uuid4())}
