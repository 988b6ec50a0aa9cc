"""What a release writes: the same bytes whatever the order and times of its files, true hashes, a bill of materials."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import json
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from effort import LONG

REPOSITORY = Path(__file__).parents[2]
TIME = 1_700_000_000


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", REPOSITORY / "scripts" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel(order: list[str], moment: tuple[int, int, int, int, int, int], mode: int) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as target:
        for name in order:
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = mode << 16
            target.writestr(entry, f"# {name}")
    return raw.getvalue()


def test_a_wheel_has_the_same_bytes_whatever_order_time_and_modes_it_was_built_with(release: ModuleType) -> None:
    names = ["a/b.py", "a/a.py", "a-1.dist-info/METADATA", "a-1.dist-info/RECORD"]
    first = release.packed_wheel(wheel(names, (2020, 1, 1, 0, 0, 0), 0o600), TIME, "a.cdx.json", "{}")
    second = release.packed_wheel(wheel(names[::-1], (2024, 5, 5, 1, 1, 0), 0o644), TIME, "a.cdx.json", "{}")
    assert first == second
    with zipfile.ZipFile(io.BytesIO(first)) as opened:
        *others, record = opened.namelist()
        assert others == ["a-1.dist-info/METADATA", "a-1.dist-info/sboms/a.cdx.json", "a/a.py", "a/b.py"]
        told = dict(line.split(",", 1) for line in opened.read(record).decode().splitlines())
        digest = base64.urlsafe_b64encode(hashlib.sha256(b"# a/a.py").digest()).rstrip(b"=").decode()
        assert told["a/a.py"] == f"sha256={digest},8"
        assert told[record] == ","
        assert set(told) == {*others, record}
        assert {entry.date_time for entry in opened.infolist()} == {(2023, 11, 14, 22, 13, 20)}


def test_an_archive_is_sorted_of_nobody_and_of_one_time(release: ModuleType) -> None:
    files = {"x/b": (b"2", 0o755), "x/a": (b"1", 0o644)}
    packed = release.packed_archive(files, TIME)
    assert packed == release.packed_archive(dict(reversed(files.items())), TIME)
    with tarfile.open(fileobj=io.BytesIO(packed)) as opened:
        members = opened.getmembers()
    assert [(one.name, one.mode, one.mtime, one.uid, one.uname) for one in members] == [
        ("x/a", 0o644, TIME, 0, ""),
        ("x/b", 0o755, TIME, 0, ""),
    ]


def test_the_bill_names_what_the_package_needs_and_whose_data_it_holds(release: ModuleType) -> None:
    project = {"name": "a", "version": "1", "license": "Apache-2.0", "dependencies": ["Jinja_2>=3", "numpy>=2.0"]}
    bom = json.loads(release.bill_of_materials(project, {"numpy": "2.4.6"}, TIME))
    assert (bom["bomFormat"], bom["specVersion"], bom["metadata"]["timestamp"]) == (
        "CycloneDX",
        "1.6",
        "2023-11-14T22:13:20Z",
    )
    assert [one["bom-ref"] for one in bom["components"]] == ["pkg:pypi/jinja-2", "pkg:pypi/numpy@2.4.6", "hcup-ccs"]
    assert bom["dependencies"] == [{"ref": "pkg:pypi/a@1", "dependsOn": ["pkg:pypi/jinja-2", "pkg:pypi/numpy@2.4.6"]}]
    assert release.bill_of_materials(project, {"numpy": "2.4.6"}, TIME) == release.bill_of_materials(
        project, {"numpy": "2.4.6"}, TIME
    )


def test_every_packed_table_of_others_is_named_in_the_notice() -> None:
    notice = (REPOSITORY / "NOTICE").read_text(encoding="utf-8")
    assert "ccs_*.tsv.gz" in notice
    packed = sorted(file.name for file in (REPOSITORY / "src").rglob("*.tsv.gz"))
    assert packed
    assert all(name.startswith("ccs_") for name in packed), "a table of somebody else's needs its line in NOTICE"


@pytest.mark.skipif(not LONG, reason="builds the package twice: WARDROUND_TEST_LONG=1")
def test_two_builds_of_a_commit_are_the_same_bytes(release: ModuleType, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = (release.build(REPOSITORY, tmp_path / name, TIME) for name in ("first", "second"))
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
