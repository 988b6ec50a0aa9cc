"""A log read whole: every row against its seal, every text, message and picture against the hash that names it."""

from __future__ import annotations

import sqlite3
from hashlib import sha256
from pathlib import Path

from wardround.core import UserError, count_broken_seals, sealed_tables
from wardround.log.database import open_for_reading


def damage_of_log(path: Path) -> list[str]:
    """Return what is damaged in a log, a line each; nothing where all is as it was written."""
    try:
        connection = open_for_reading(path)
    except UserError as error:
        return [str(error)]
    try:
        return [f"{path}: {line}" for line in _damage(connection)]
    except sqlite3.Error as error:
        return [f"{path} cannot be read whole: {error}"]
    finally:
        connection.close()


def _damage(connection: sqlite3.Connection) -> list[str]:
    found = {
        f"rows of {name}": count_broken_seals(connection, name, columns) for name, columns in sealed_tables(connection)
    }
    texts = connection.execute("SELECT hash, text FROM body")
    found["texts"] = sum(sha256(text.encode()).digest() != digest for digest, text in texts)
    nodes = connection.execute("SELECT hash, parent, body FROM message")
    found["messages"] = sum(sha256(parent + body).digest() != node for node, parent, body in nodes)
    pictures = connection.execute("SELECT hash, data FROM picture")
    found["pictures"] = sum(sha256(data).digest() != digest for digest, data in pictures)
    lines = [f"{count:,} {what} are not as they were written" for what, count in found.items() if count]
    whole = [row[0] for row in connection.execute("PRAGMA quick_check(5)")]
    return lines + ([] if whole == ["ok"] else [f"its pages are damaged: {'; '.join(whole)}"])
