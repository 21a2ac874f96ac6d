"""Downloads from a local server: resumed, verified, and with a clear error for every failure."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from seqloom.data import datasets
from seqloom.data.datasets import DATASETS, Dataset, RemoteFile, get
from seqloom.errors import SeqloomError

CONTENT = {"a.gz": bytes(range(256)) * 1000, "b.gz": b"second"}


class Server(ThreadingHTTPServer):
    """Server of CONTENT, with switches that simulate failures."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = dict(CONTENT)
        self.ranges = True
        self.break_after: list[int] = []  # bytes that the next responses send before they disconnect
        self.requests: list[tuple[str, str | None]] = []  # file name, range

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/set/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name, byte_range = self.path.removeprefix("/set/"), self.headers["Range"]
        self.server.requests.append((name, byte_range))
        if name not in self.server.content:
            self.send_error(404)
            return
        body = self.server.content[name]
        start = (
            int(byte_range.removeprefix("bytes=").removesuffix("-")) if byte_range and self.server.ranges else 0
        )
        if start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        stop = start + self.server.break_after.pop(0) if self.server.break_after else len(body)
        self.wfile.write(body[start:stop])

    def log_message(self, *_: object) -> None:
        """Suppress logging."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    files = tuple(RemoteFile(n, len(c), hashlib.sha256(c).hexdigest()) for n, c in CONTENT.items())
    monkeypatch.setitem(DATASETS, "toy", Dataset("toy", "a toy", "public domain", "http://toy.invalid/", files))
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_are_downloaded_completely_and_only_once(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    paths = get("toy", tmp_path / "new", address=server.address, on_progress=lambda *a: seen.append(a))
    assert paths == [tmp_path / "new" / name for name in CONTENT]
    assert contents(tmp_path / "new") == CONTENT
    assert ("a.gz", 256_000, 256_000) in seen
    assert ("b.gz", 6, 6) in seen
    assert get("toy", tmp_path / "new", address=server.address) == paths
    assert server.requests == [("a.gz", None), ("b.gz", None)]


def test_a_broken_connection_is_resumed_in_the_same_call(server: Server, tmp_path: Path) -> None:
    server.break_after = [100_000, 50_000]
    get("toy", tmp_path, address=server.address)
    assert contents(tmp_path) == CONTENT
    assert [r for n, r in server.requests if n == "a.gz"] == [None, "bytes=100000-", "bytes=150000-"]


def test_a_download_that_keeps_failing_is_resumed_by_the_next_call(server: Server, tmp_path: Path) -> None:
    server.break_after = [1000, 1000, 1000]
    with pytest.raises(
        SeqloomError, match=r"stopped after 3,000 of 256,000 bytes in 3 attempts(.|\n)*run the command"
    ):
        get("toy", tmp_path, address=server.address)
    assert contents(tmp_path) == {"a.gz.part": CONTENT["a.gz"][:3000]}
    get("toy", tmp_path, address=server.address)
    assert server.requests[3] == ("a.gz", "bytes=3000-")
    assert contents(tmp_path) == CONTENT


def test_a_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "a.gz.part").write_bytes(b"x" * 500)
    get("toy", tmp_path, address=server.address)
    assert contents(tmp_path) == CONTENT


def test_a_partial_file_that_is_too_long_is_discarded(server: Server, tmp_path: Path) -> None:
    (tmp_path / "b.gz.part").write_bytes(b"much longer than it may be")
    get("toy", tmp_path, address=server.address)
    assert contents(tmp_path) == CONTENT


def test_a_range_beyond_the_end_starts_again_and_the_wrong_size_is_an_error(
    server: Server, tmp_path: Path
) -> None:
    server.content["a.gz"] = b"short"
    (tmp_path / "a.gz.part").write_bytes(b"x" * 500)
    with pytest.raises(SeqloomError, match="stopped after"):
        get("toy", tmp_path, address=server.address)
    assert server.requests[:2] == [("a.gz", "bytes=500-"), ("a.gz", None)]


@pytest.mark.parametrize("wrong", [b"SECOND", b"second and more"])
def test_a_file_with_a_wrong_checksum_is_removed(server: Server, tmp_path: Path, wrong: bytes) -> None:
    server.content["b.gz"] = wrong
    with pytest.raises(SeqloomError, match=r"b\.gz has the wrong SHA-256 checksum"):
        get("toy", tmp_path, address=server.address)
    assert contents(tmp_path) == {"a.gz": CONTENT["a.gz"]}


def test_a_missing_file_is_an_error(server: Server, tmp_path: Path) -> None:
    del server.content["b.gz"]
    with pytest.raises(SeqloomError, match=r"b\.gz returned 404"):
        get("toy", tmp_path, address=server.address)


def test_without_a_network_the_error_lists_files_and_folder(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(CONTENT["a.gz"])
    with pytest.raises(SeqloomError) as caught:
        get("toy", tmp_path, address="http://127.0.0.1:1/")
    assert "Cannot reach" in caught.value.message
    assert f"download these files from http://toy.invalid/ to {tmp_path}: b.gz" in caught.value.hint


def test_existing_files_are_used(server: Server, tmp_path: Path) -> None:
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    get("toy", tmp_path, address=server.address)
    assert server.requests == []


def test_an_existing_other_file_is_not_overwritten(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"mine")
    with pytest.raises(SeqloomError, match="already exists, but its checksum differs"):
        get("toy", tmp_path, address=server.address)
    assert (tmp_path / "a.gz").read_bytes() == b"mine"


def test_a_folder_that_cannot_be_created_or_written_is_an_error(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SeqloomError, match="Cannot create the folder"):
        get("toy", tmp_path / "file" / "folder", address=server.address)
    (tmp_path / "a.gz.part").mkdir()
    with pytest.raises(SeqloomError, match=r"Cannot write .*a\.gz\.part"):
        get("toy", tmp_path, address=server.address)


@pytest.mark.parametrize("name, hint", [("multi30", "did you mean 'multi30k'"), ("xyz", "the data sets are")])
def test_an_unknown_name_is_rejected(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(SeqloomError, match=hint):
        get(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_every_data_set_has_checksums() -> None:
    for name, dataset in DATASETS.items():
        assert dataset.name == name
        assert dataset.licence
        assert dataset.address.startswith("https://")
        assert len({file.name for file in dataset.files}) == len(dataset.files) > 0
        assert all(len(file.sha256) == 64 and file.size > 0 for file in dataset.files)


def test_a_server_that_does_not_respond_times_out(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "TIMEOUT", 0.05)
    silent = threading.Event()
    monkeypatch.setattr(Handler, "do_GET", lambda self: silent.wait(2))
    with pytest.raises(SeqloomError, match="stopped after 0 of"):
        get("toy", tmp_path, address=server.address)
    silent.set()
