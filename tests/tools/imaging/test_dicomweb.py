"""Images from a DICOMweb server of the test's own that speaks real multipart, and from Orthanc where it is."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import numpy as np
import pytest

pytest.importorskip("pydicom", reason="needs the extra [imaging]")

from dicom_files import film, written
from test_pictures_on_their_way import first_film

from wardround.core import ToolFailure, UserError
from wardround.models import DataUseGuard
from wardround.records import Store
from wardround.tools import Environment, EnvironmentOptions, default_toolset
from wardround.tools.imaging import ImageSettings, open_images, read_radiograph
from wardround.tools.imaging import source as dicomweb
from wardround.tools.imaging.source import DicomWeb, ImageName

FILM = film()
FILM.SOPInstanceUID, FILM.StudyInstanceUID, FILM.SeriesInstanceUID = "2.25.11", "2.25.12", "2.25.13"
DATA = written(FILM)
NAME = ImageName(subject="4711", image="a", study="1", instance="2.25.11")
BOUNDARY = "a_boundary_of_26_letters_x"


class Server(ThreadingHTTPServer):
    """``found`` answers searches, ``body`` and ``kind`` what is fetched."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.authorized: list[str | None] = []
        self.found = [{tag: {"vr": "UI", "Value": [value]} for tag, value in zip(TAGS, VALUES, strict=True)}]
        head = f"--{BOUNDARY}\r\nContent-Type: application/dicom\r\nContent-Length: {len(DATA)}\r\n\r\n".encode()
        self.body = head + DATA + f"\r\n--{BOUNDARY}--\r\n".encode()
        self.kind = f'multipart/related; type="application/dicom"; boundary="{BOUNDARY}"'
        self.status = 200
        self.packed = False
        self.silent_seconds = 0.0


TAGS = ("0020000D", "0020000E", "00080018", "00100020")
VALUES = ("2.25.12", "2.25.13", "2.25.11", "4711")


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        time.sleep(self.server.silent_seconds)
        self.server.authorized.append(self.headers["Authorization"])
        address = urlsplit(self.path)
        if address.path.endswith("/dicom-web/instances"):
            wanted = parse_qs(address.query)["SOPInstanceUID"] == ["2.25.11"]
            self._answer(json.dumps(self.server.found if wanted else []).encode(), "application/dicom+json")
        elif address.path.endswith("/studies/2.25.12/series/2.25.13/instances/2.25.11"):
            self._answer(self.server.body, self.server.kind)
        else:
            self.send_error(404)

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(self.server.status)
        self.send_header("Content-Type", kind)
        if self.server.packed:
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[tuple[Server, DicomWeb]]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        source = DicomWeb(f"http://127.0.0.1:{server.server_port}/dicom-web")
        try:
            yield server, source
        finally:
            source.close()
            server.shutdown()
            thread.join()


def test_a_film_is_found_by_its_uid_and_unpacked_of_its_multipart() -> None:
    with serving() as (server, source):
        assert source.read(NAME) == DATA
        assert source.read(NAME) == DATA
    assert [path.partition("?")[0] for path in server.asked].count("/dicom-web/instances") == 1
    assert "PatientID=4711" in server.asked[0]


def test_what_is_another_persons_or_nobodys_is_not_there() -> None:
    with serving() as (server, source):
        server.found[0]["00100020"]["Value"] = ["4712"]
        with pytest.raises(ToolFailure, match="not there"):
            source.read(NAME)
        server.found = []
        with pytest.raises(ToolFailure, match="not there"):
            source.read(NAME)
        assert not [path for path in server.asked if "/series/" in path]


def test_answers_that_are_cut_off_or_wrong_are_one_line() -> None:
    with serving() as (server, source):
        whole, kind = server.body, server.kind
        for body, said, status in (
            (whole[: len(whole) // 2], kind, 200),
            (b"", kind, 200),
            (whole, "multipart/related", 200),
            (whole, kind, 500),
            (whole, kind, 404),
        ):
            server.body, server.kind, server.status = body, said, 200
            source._found.clear()
            source._look_up(NAME)
            server.status = status
            with pytest.raises(ToolFailure):
                source.read(NAME)
    with pytest.raises(ToolFailure, match="cannot be asked"):
        DicomWeb("http://127.0.0.1:9/dicom-web").read(NAME)
    with pytest.raises(ToolFailure, match="does not say"):
        DicomWeb("http://127.0.0.1:9/dicom-web").read(ImageName(subject="1", image="a", instance="../../x"))


def test_an_answer_is_read_up_to_its_limit_however_small_it_travels() -> None:
    limit = 1024 * 1024
    with serving() as (server, source):
        server.packed = True
        room = limit - len(json.dumps([*server.found, ""]))
        server.found.append("x" * room)
        assert source.read(NAME) == DATA, "so many bytes are read"
    with serving() as (server, source):
        server.packed = True
        server.found.append("x" * (room + 1))
        with pytest.raises(ToolFailure, match="sent more than 1,048,576 bytes"):
            source.read(NAME)


def test_this_machine_is_reached_without_a_proxy_and_no_password_is_picked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the guard lets through goes where the guard looked; certificates of the environment's are not needed."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with serving() as (server, source):
        assert source.read(NAME) == DATA
        assert server.authorized == [None, None]


def test_a_server_that_drips_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dicomweb, "_SECONDS_IN_ALL", -1.0)
    with serving() as (_, source), pytest.raises(ToolFailure, match="the image server took longer"):
        source.read(NAME)


def test_a_server_that_says_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dicomweb, "_SECONDS", 0.05)
    with serving() as (server, source):
        server.silent_seconds = 0.3
        with pytest.raises(ToolFailure, match=r"the image server cannot be asked \(ReadTimeout\)"):
            source.read(NAME)


def test_the_guard_decides_which_server_learns_of_a_person() -> None:
    settings = ImageSettings(source="https://pacs.example.org/dicom-web")
    with pytest.raises(UserError, match="not on this machine"):
        open_images(settings, DataUseGuard(sensitivity="credentialed"))
    permitted = DataUseGuard(sensitivity="credentialed", permitted=("https://pacs.example.org/dicom-web",))
    open_images(settings, permitted).close()


@contextmanager
def orthanc(folder: Path) -> Iterator[str]:
    program = shutil.which("Orthanc") or shutil.which("orthanc")
    if program is None:
        pytest.skip("Orthanc is not installed (Debian: orthanc orthanc-dicomweb)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    plugins = [str(path) for path in Path("/usr/share/orthanc/plugins").glob("*")]
    settings = {
        "StorageDirectory": str(folder),
        "IndexDirectory": str(folder),
        "HttpPort": port,
        "RemoteAccessAllowed": False,
        "AuthenticationEnabled": False,
        "DicomServerEnabled": False,
        "Plugins": plugins,
    }
    (folder / "orthanc.json").write_text(json.dumps(settings))
    process = subprocess.Popen([program, str(folder / "orthanc.json")], stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(200):
            try:
                httpx2.get(f"{url}/system")
                break
            except httpx2.HTTPError:
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()


def test_orthanc_serves_the_films_of_a_chart(film_store: Store, film_hospital: Path, tmp_path: Path) -> None:
    with orthanc(tmp_path) as url:
        row = first_film(film_store)
        file = next((film_hospital / "cxr" / "files").rglob(f"{row['dicom_id']}.dcm"))
        httpx2.post(f"{url}/instances", content=file.read_bytes()).raise_for_status()
        chart = film_store.chart(row["subject_id"], row["acquired"])
        images = open_images(ImageSettings(source=f"{url}/dicom-web"), DataUseGuard(sensitivity="synthetic"))
        open_environment = Environment(
            chart,
            default_toolset(more=["image.image_visualizer"]),
            EnvironmentOptions(images=images.of(chart, film_store.subject_key(row["subject_id"]))),
        )
        shown = open_environment.call("image.image_visualizer", {"image_path": row["row_id"]})
        assert shown.pictures, shown.text
        served = read_radiograph(open_environment.images.data(open_environment.images.find(row["row_id"])))
        assert np.array_equal(served.pixels, read_radiograph(file.read_bytes()).pixels)
        images.close()
