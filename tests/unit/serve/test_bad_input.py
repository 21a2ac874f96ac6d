"""Bytes that a client should not send: each is refused with 4xx, and the next request is served."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import time
from collections.abc import Iterator

import pytest

from support.serving import TestServer, copying_server

GOOD = b'{"q": "a", "source": "en", "target": "de"}'
KIND = "application/json"


@pytest.fixture(scope="module")
def hasty() -> Iterator[TestServer]:
    """A server that does not wait long."""
    with copying_server(["en-de"], limits={"body_seconds": 0.3, "connections": 4}) as found:
        yield found


def with_q(value: bytes) -> bytes:
    return GOOD.replace(b'"a"', value)


BODIES = {
    "no JSON": b"{",
    "wrong type": with_q(b"1e400"),
    "NaN": with_q(b"NaN"),
    "NaN in an unknown field": GOOD.replace(b"{", b'{"x": [NaN], ', 1),
    "Infinity": GOOD.replace(b"{", b'{"alternatives": -Infinity, ', 1),
    "5,000 digits": GOOD.replace(b"{", b'{"alternatives": ' + b"9" * 5000 + b", ", 1),
    "nested brackets": b"[" * 100_000,
    "nested brackets in a field": with_q(b"[" * 100_000 + b"]" * 100_000),
    "not UTF-8": with_q(b'"\xff\xfe"'),
    "UTF-16": GOOD.decode().encode("utf-16"),
    "surrogate in a value": with_q(b'"\\ud800"'),
    "surrogate in a key": GOOD.replace(b"{", b'{"\\udfff": 1, ', 1),
    "encoded surrogate": with_q(b'"\xed\xa0\x80"'),
    "NUL": with_q(b'"\\u0000"'),
    "raw NUL": with_q(b'"\x00"'),
    "a list": b"[]",
    "a text": b'"q"',
    "empty": b"",
    "one character": with_q(b'"' + b"x" * 900_000 + b'"'),
}


@pytest.mark.parametrize("route", ["/translate", "/detect"])
@pytest.mark.parametrize("name", BODIES)
def test_a_bad_body_is_refused_with_one_line_in_the_log(
    server: TestServer, name: str, route: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "seqloom")
    found = server.request("POST", route, BODIES[name], {"Content-Type": KIND})
    assert 400 <= found.status < 500 and isinstance(found.json["error"], str)
    assert server.request("POST", "/translate", GOOD, {"Content-Type": KIND}).status == 200  # and logged before
    ids = [getattr(one, "request", "") for one in caplog.records]
    assert ids.count(found.headers["x-request-id"]) == 1
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (GOOD, {"Content-Type": "application/xml"}, 415),
        (GOOD, {"Content-Type": "text/plain"}, 415),
        (GOOD, {"Content-Type": "application/json; charset=utf-16"}, 415),
        (gzip.compress(GOOD, mtime=0), {"Content-Type": KIND, "Content-Encoding": "gzip"}, 415),
        (b"q=%ED%A0%80&source=en&target=de", {"Content-Type": "application/x-www-form-urlencoded"}, 400),
        (b"q=\xff", {"Content-Type": "application/x-www-form-urlencoded"}, 400),
        (b"&".join(b"q=a" for _ in range(3000)), {"Content-Type": "application/x-www-form-urlencoded"}, 400),
        (b"--b\r\nno header", {"Content-Type": "multipart/form-data; boundary=b"}, 400),
        (b"x", {"Content-Type": "multipart/form-data"}, 400),
        (b"x" * 1_000_001, {"Content-Type": KIND}, 413),
    ],
)
def test_wrong_headers_and_forms_are_refused(
    server: TestServer, body: bytes, headers: dict[str, str], status: int
) -> None:
    found = server.request("POST", "/translate", body, headers)
    assert found.status == status and isinstance(found.json["error"], str)


def test_unknown_routes_and_methods_have_the_error_form_of_their_api(server: TestServer) -> None:
    assert isinstance(server.get("/nothing").json["error"], str)
    assert server.get("/v1/nothing").json["error"]["code"] == "not_found"
    wrong = server.get("/translate")
    assert wrong.status == 405 and wrong.headers["allow"] == "POST" and "detail" not in wrong.json


def _talk(server: TestServer, *parts: bytes, wait: float = 0.0) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(wait)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


HEADERS = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"


def test_20_megabytes_are_refused_before_they_are_read(server: TestServer) -> None:
    assert b" 413 " in _talk(server, HEADERS + b"Content-Length: 20000000\r\n\r\n")
    chunks = [b"10000\r\n" + b"x" * 65536 + b"\r\n"] * 20
    assert b" 413 " in _talk(server, HEADERS + b"Transfer-Encoding: chunked\r\n\r\n", *chunks[:17])


def test_a_slow_body_is_refused(hasty: TestServer) -> None:
    started = time.monotonic()
    assert b" 408 " in _talk(hasty, HEADERS + b"Content-Length: 100\r\n\r\n", b"{")
    assert time.monotonic() - started < 5


def test_slow_headers_end_the_connection(hasty: TestServer) -> None:
    assert _talk(hasty, b"POST /translate HTTP/1.1\r\nHost:") == b""


def test_a_truncated_body_is_no_error_of_the_server(hasty: TestServer) -> None:
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=10) as connection:
        connection.sendall(HEADERS + b"Content-Length: 100\r\n\r\n{")
    assert hasty.request("POST", "/translate", GOOD, {"Content-Type": KIND}).status == 200


def test_bytes_that_are_not_http_are_refused(server: TestServer) -> None:
    assert b" 400 " in _talk(server, b"\x16\x03\x01\x00\xa5\x01\x00\x00\r\n\r\n")
    assert server.get("/health").status == 200


def test_connections_above_the_limit_are_refused(hasty: TestServer) -> None:
    open_ones = [socket.create_connection(("127.0.0.1", hasty.port), timeout=10) for _ in range(4)]
    for one in open_ones:
        one.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in one.recv(65536)
    refused = _talk(hasty)
    assert b" 503 " in refused and json.loads(refused.partition(b"\r\n\r\n")[2])["error"]
    for one in open_ones:
        one.close()
    time.sleep(0.1)
    assert hasty.get("/health").status == 200
