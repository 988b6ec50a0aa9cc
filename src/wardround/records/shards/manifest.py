"""A store's manifest: written last, sealed with its own hash, and read only if the seal and the version are right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wardround.core import UserError, content_hash, sync_tree, write_atomically
from wardround.records.shards.checksums import damaged, file_sha256
from wardround.records.shards.layout import (
    MANIFEST,
    ORIGIN,
    SPEC_FOLDER,
    STORE_VERSION,
    SUBJECT_KEYS,
    SUBJECTS,
    is_unfinished,
)

_SEAL = "sha256"
_HASHED = (SUBJECTS, SUBJECT_KEYS, "dictionaries/*", f"{SPEC_FOLDER}/*", "quarantine/*", f"{ORIGIN}/*")
"""The files whose hashes stand in the manifest; those of shards stand in the shards' indexes, theirs in ``indexes``."""


def write_manifest(store: Path, body: Mapping[str, Any]) -> None:
    """Write and seal it, with the hashes of the files that lie beside it.

    Everything else is on the disk before, so that a store that opens is whole, whatever cut the power.
    """
    files = {path.relative_to(store).as_posix(): file_sha256(path.read_bytes()) for path in hashed_files(store)}
    plain = json.loads(json.dumps({**body, "version": STORE_VERSION, "files": files}))
    sync_tree(store)
    write_atomically(store / MANIFEST, json.dumps({**plain, _SEAL: content_hash(plain)}, indent=1))


def hashed_files(store: Path) -> list[Path]:
    """Return the files whose hashes belong into the manifest."""
    return sorted(path for pattern in _HASHED for path in store.glob(pattern) if path.is_file())


def read_manifest(store: Path) -> dict[str, Any]:
    """Read it. UserError: there is no store, it is unfinished or of another version. RecordError: it is damaged."""
    file = store / MANIFEST
    if not file.exists():
        if is_unfinished(store):
            raise UserError(f"{store}: the ingest was interrupted; run the same ingest command again to finish it")
        raise UserError(f"{store}: there is no store here; make one with 'wardround ingest'")
    try:
        manifest = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        raise damaged(file, "it is not JSON") from None
    if not isinstance(manifest, dict) or "version" not in manifest:
        raise UserError(f"{store}: {MANIFEST} is not that of a store; is this a benchmark or a run?")
    _check_version(store, manifest["version"])
    seal = manifest.pop(_SEAL, None)
    if content_hash(manifest) != seal:
        raise damaged(file)
    return manifest


def _check_version(store: Path, version: object) -> None:
    if version != STORE_VERSION:
        raise UserError(
            f"{store}: a store of version {version!r}, this wardround reads {STORE_VERSION}; "
            "ingest again into another folder"
        )
