"""Build the wheel and the source archive so that the same commit gives the same bytes, with a bill of materials.

    python scripts/release.py dist

Writes three files: the source archive, the wheel built from it, and a CycloneDX 1.6 bill of materials, which the wheel
carries too (dist-info/sboms, PEP 770). Times are those of the commit; owners, modes and the order of files are set.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import uuid
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
_MODE, _PROGRAM_MODE, _FOLDER_MODE = 0o644, 0o755, 0o755
_OLDEST_ZIP = 315_532_800
"""1980-01-01: zip files know no earlier time."""


def main() -> int:
    """Build, print the files with their hashes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the files are written")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for file in build(REPOSITORY, folder, commit_time(REPOSITORY)):
        print(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}")
    return 0


def commit_time(repository: Path) -> int:
    """Return the time of the last commit in seconds since 1970; SOURCE_DATE_EPOCH goes before it."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    words = ["git", "-C", str(repository), "log", "-1", "--format=%ct"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def build(repository: Path, folder: Path, time: int) -> list[Path]:
    """Write archive, wheel and bill of materials; return their paths."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bom = bill_of_materials(project, constraints(repository / "constraints.txt"), time)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        tracked = subprocess.run(
            ["git", "-C", str(repository), "archive", "--format=tar", "HEAD"], capture_output=True, check=True
        ).stdout
        name = f"{project['name']}-{project['version']}"
        archive = folder / f"{name}.tar.gz"
        archive.write_bytes(packed_archive(_with_prefix(tracked, name, _package_info(project)), time))
        with tarfile.open(archive) as packed:
            packed.extractall(place, filter="data")
        words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(max(time, _OLDEST_ZIP))}
        subprocess.run([*words, "-w", str(place / "wheel"), str(place / name)], check=True, env=environment)
        (built,) = (place / "wheel").glob("*.whl")
        wheel = folder / built.name
        wheel.write_bytes(packed_wheel(built.read_bytes(), time, f"{project['name']}.cdx.json", bom))
    (folder / f"{name}.cdx.json").write_text(bom, encoding="utf-8")
    return [archive, wheel, folder / f"{name}.cdx.json"]


def _package_info(project: Mapping[str, Any]) -> str:
    """PKG-INFO of a source archive, as its format asks."""
    lines = ["Metadata-Version: 2.2", f"Name: {project['name']}", f"Version: {project['version']}"]
    lines += [f"Summary: {project['description']}", f"License-Expression: {project['license']}"]
    lines += [f"License-File: {name}" for name in project.get("license-files", ())]
    return "\n".join([*lines, f"Requires-Python: {project['requires-python']}", ""])


def _with_prefix(tar: bytes, name: str, package_info: str) -> dict[str, tuple[bytes, int]]:
    """Return the files of an archive under a folder, with their modes."""
    found = {f"{name}/PKG-INFO": (package_info.encode(), _MODE)}
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        for member in opened:
            if member.isfile():
                content = opened.extractfile(member)
                assert content is not None
                mode = _PROGRAM_MODE if member.mode & 0o100 else _MODE
                found[f"{name}/{member.name}"] = (content.read(), mode)
    return found


def packed_archive(files: Mapping[str, tuple[bytes, int]], time: int) -> bytes:
    """Return files as tar.gz: sorted, of nobody, of one time."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as target:
        for name in sorted(files):
            content, mode = files[name]
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), time, mode
            target.addfile(member, io.BytesIO(content))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=time) as zipped:
        zipped.write(raw.getvalue())
    return packed.getvalue()


def packed_wheel(wheel: bytes, time: int, bom_name: str, bom: str) -> bytes:
    """Return a wheel with a bill of materials: sorted, of one time and mode, RECORD written anew and last."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as opened:
        files = {name: opened.read(name) for name in opened.namelist() if not name.endswith("/")}
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    files[f"{record.removesuffix('RECORD')}sboms/{bom_name}"] = bom.encode()
    del files[record]
    lines = [f"{name},{_record_hash(content)},{len(content)}" for name, content in sorted(files.items())]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    moment = datetime.fromtimestamp(max(time, _OLDEST_ZIP), UTC).timetuple()[:6]
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as target:
        for name in sorted(files, key=lambda name: (name == record, name)):
            entry = zipfile.ZipInfo(name, moment)  # type: ignore[arg-type]
            entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | _MODE) << 16
            target.writestr(entry, files[name])
    return raw.getvalue()


def _record_hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


def constraints(file: Path) -> dict[str, str]:
    """Return the versions that are tested, by normalised name."""
    lines = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (line.split("==") for line in lines if "==" in line)
    return {_normalised(name): version.partition(";")[0].strip() for name, version in pairs}


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).strip().lower()


def bill_of_materials(project: Mapping[str, Any], versions: Mapping[str, str], time: int) -> str:
    """Return CycloneDX 1.6 as JSON: the package, what it needs at the tested versions, and the data of others in it."""
    needed = [_normalised(re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0]) for line in project["dependencies"]]
    reference = f"pkg:pypi/{_normalised(project['name'])}@{project['version']}"
    components: list[dict[str, Any]] = [_library(name, versions.get(name)) for name in sorted(needed)]
    body: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "library",
                "bom-ref": reference,
                "name": project["name"],
                "version": project["version"],
                "purl": reference,
                "licenses": [{"license": {"id": project["license"]}}],
            },
        },
        "components": [*components, _CCS],
        "dependencies": [{"ref": reference, "dependsOn": [one["bom-ref"] for one in components]}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return json.dumps(body | {"serialNumber": f"urn:uuid:{serial}"}, indent=2, sort_keys=True) + "\n"


_CCS: Mapping[str, Any] = {
    "type": "data",
    "bom-ref": "hcup-ccs",
    "name": "Clinical Classifications Software",
    "supplier": {"name": "Agency for Healthcare Research and Quality"},
    "description": "clinical/codes/data/ccs_*.tsv.gz; with words of the code titles of CMS and NCHS",
    "licenses": [{"license": {"name": "US government work"}}],
}


def _library(name: str, version: str | None) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}" + (f"@{version}" if version else "")
    tested = {"version": version} if version else {}
    return {"type": "library", "bom-ref": purl, "name": name, "purl": purl, "scope": "required", **tested}


if __name__ == "__main__":
    sys.exit(main())
