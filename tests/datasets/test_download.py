"""Downloads from a server on this machine: whole and right, or nothing is left behind."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ggmc import datasets
from ggmc.datasets import cifar, download
from ggmc.datasets.download import fetch
from ggmc.errors import BadInput
from ggmc.progress import wanted
from tests.support.cifar_files import archive

CONTENT = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves one content, well or badly."""

    daemon_threads = True
    content = CONTENT
    over = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        content, path = self.server.content, self.path.strip("/")
        if path == "missing":
            self.send_error(404)
            return
        if path == "moved":
            self.send_response(302)
            self.send_header("Location", "/whole")
            self.end_headers()
            return
        if path == "silent":
            self.server.over.wait(20)
            return
        self.send_response(200)
        if path not in ("endless", "unannounced"):
            self.send_header("Content-Length", str(2**40 if path == "huge" else len(content)))
        self.end_headers()
        if path == "endless":
            while not self.server.over.is_set():
                self.wfile.write(content)
        elif path == "cut":
            self.wfile.write(content[: len(content) // 2])
        elif path == "stalled":
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.server.over.wait(20)
        elif path != "huge":
            self.wfile.write(content)

    def handle(self) -> None:
        with suppress(OSError):  # the client has left
            super().handle()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server(("127.0.0.1", 0), Handler) as running:
        running.over = threading.Event()
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield running
        running.over.set()
        running.shutdown()


@pytest.mark.parametrize("path", ["whole", "unannounced", "moved"])
def test_a_download(server: Server, tmp_path: Path, path: str) -> None:
    file = tmp_path / "new" / "folder" / "a.tar.gz"
    fetch(server.url(path), file, sha256=SHA256, largest=len(CONTENT))
    assert file.read_bytes() == CONTENT
    assert list(file.parent.iterdir()) == [file]


FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "whole": ({"sha256": "0" * 64}, f"has the SHA-256 {SHA256}, not 0000.*was not kept. Try again, or download it"),
    "unannounced": ({"sha256": "0" * 64}, "has the SHA-256"),
    "cut": ({}, r"ended after 512000 of 1024000 bytes\). Try again, or download it in another way and put it at"),
    "huge": ({}, "has 1099511627776 bytes, and at most 2048000 are expected"),
    "endless": ({}, "has more than the 2048000 bytes"),
    "missing": ({}, "404.*Try again"),
    "silent": ({"timeout": 0.2}, "timed out.*Try again"),
    "stalled": ({"timeout": 0.2}, "timed out.*Try again"),
}


@pytest.mark.parametrize("path", FAILURES)
def test_failures_leave_nothing_behind(server: Server, tmp_path: Path, path: str) -> None:
    options, words = FAILURES[path]
    start = time.monotonic()
    with pytest.raises(BadInput, match=words):
        fetch(
            server.url(path),
            tmp_path / "new" / "folder" / "a.gz",
            **{"sha256": SHA256, "largest": 2 * len(CONTENT), **options},
        )
    assert list(tmp_path.iterdir()) == []
    assert time.monotonic() - start < 15


def test_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as unused:  # bound, but nobody listens
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/whole"
        with pytest.raises(BadInput, match=r"could not download http.*Try again"):
            fetch(url, tmp_path / "new" / "a.gz", sha256=SHA256, largest=10**7, timeout=5)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="could not download"):
        fetch(server.url("whole"), tmp_path / "file" / "a.gz", sha256=SHA256, largest=10**7)


class Bar:
    """Takes note of what is shown, and may interrupt."""

    shown: int = 0

    def __init__(self, interrupt: bool = False, **options: Any) -> None:
        self.options = options
        self.interrupt = interrupt

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, number: int) -> None:
        self.shown += number
        if self.interrupt:
            raise KeyboardInterrupt


def test_interrupted(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(download, "bar", lambda **_: Bar(interrupt=True))
    for folder in ("kept", "new"):
        with pytest.raises(KeyboardInterrupt):
            fetch(server.url("whole"), tmp_path / folder / "a.gz", sha256=SHA256, largest=10**7)
    assert list(tmp_path.rglob("*")) == [tmp_path / "kept"]


def test_what_was_there_stays(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"before")
    with pytest.raises(BadInput):
        fetch(server.url("whole"), tmp_path / "a.gz", sha256="0" * 64, largest=10**7)
    assert (tmp_path / "a.gz").read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


def test_progress_is_shown(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Bar] = []
    monkeypatch.setattr(download, "bar", lambda **options: bars.append(Bar(**options)) or bars[-1])
    fetch(server.url("whole"), tmp_path / "a.gz", sha256=SHA256, largest=10**7)
    assert bars[0].options["total"] == bars[0].shown == len(CONTENT)
    monkeypatch.undo()
    with wanted(False), download.bar(total=1) as shown:
        assert shown.disable


@pytest.fixture
def official(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server with a small archive, whose checksum stands for the official one."""
    server.content = archive(tmp_path / "served.tar.gz").read_bytes()
    (tmp_path / "served.tar.gz").unlink()
    monkeypatch.setattr(cifar, "URL", server.url("whole"))
    monkeypatch.setattr(cifar, "SHA256", hashlib.sha256(server.content).hexdigest())
    return server


def test_cifar10(official: Server, tmp_path: Path) -> None:
    assert len(datasets.cifar10(tmp_path / "data", download=True, progress=False).x) == 50
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["cifar-10-python.tar.gz"]
    official.shutdown()
    assert len(datasets.cifar10(tmp_path / "data", download=True).x) == 50  # nothing is fetched a second time
    official.over.set()


def test_cifar10_of_another_content(official: Server, tmp_path: Path) -> None:
    official.content = official.content[:-1] + b"\1"
    with pytest.raises(BadInput, match="SHA-256"):
        datasets.cifar10(tmp_path / "data", download=True)
    assert list(tmp_path.iterdir()) == []


def test_the_official_address() -> None:
    assert cifar.URL == "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    assert len(cifar.SHA256) == 64
