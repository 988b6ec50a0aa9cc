"""The pictures of a log: their bytes, once each, by the hash that messages name them by."""

from __future__ import annotations

import hashlib
import sqlite3

from wardround.core import Picture, UserError

TABLE = "CREATE TABLE picture (hash BLOB PRIMARY KEY, media_type TEXT NOT NULL, data BLOB NOT NULL)"
INSERT = "INSERT OR IGNORE INTO picture VALUES (?, ?, ?)"


def row_of_picture(picture: Picture) -> tuple[bytes, str, bytes]:
    """Return the row of a picture."""
    return bytes.fromhex(picture.sha256), picture.media_type, picture.data


def read_picture(connection: sqlite3.Connection, sha256: str) -> bytes:
    """Return the bytes behind a hash; empty where the log has none. UserError: they are not as they were written."""
    row = connection.execute("SELECT data FROM picture WHERE hash = ?", (bytes.fromhex(sha256),)).fetchone()
    if row is not None and hashlib.sha256(row[0]).hexdigest() != sha256:
        raise UserError("a log is damaged: a picture in it is not as it was written")
    return b"" if row is None else bytes(row[0])
