"""Keys, rates, queues, deadlines, clients that leave, and the end of the server."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seqloom import SeqloomError
from seqloom.serve.config import ServeConfig
from seqloom.serve.errors import ApiError
from seqloom.serve.keys import ApiKeys, RateLimiter
from seqloom.serve.logs import JsonFormatter, json_log
from seqloom.serve.server import open_socket
from support.serving import TRANSFORMER, TestServer, copying_server

PAIR = {"source": "en", "target": "de"}
KEY, OTHER = "correct-horse", "battery-staple"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with one key."""
    path = tmp_path / "keys.txt"
    path.write_text(f"# keys\n{KEY}\n", encoding="utf-8")
    return path


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it does not happen")


def test_a_key_is_accepted_in_every_place_and_read_again(keys: Path) -> None:
    with copying_server(["en-de"], api_keys=str(keys)) as server:
        good = [
            server.form("/translate", q="a", api_key=KEY, **PAIR),
            server.request("POST", f"/translate?q=a&source=en&target=de&api_key={KEY}"),
            server.post("/translate", {"q": "a", **PAIR}, Authorization=f"Bearer {KEY}"),
            server.post("/translate", {"q": "a", **PAIR, "api_key": None}, **{"X-API-Key": KEY}),
        ]
        assert [one.status for one in good] == [200] * 4
        wrong = server.form("/translate", q="a", api_key=OTHER, **PAIR)
        missing = server.form("/translate", q="a", api_key="", **PAIR)
        assert wrong.status == missing.status == 403 and wrong.json["error"] == "Invalid API key"
        assert server.post("/detect", {"q": "a", "api_key": "\u00e9" * 9}).status == 403
        assert server.get("/health").status == server.get("/languages").status == 200
        assert server.get("/frontend/settings").json["keyRequired"] is True
        keys.write_text(f"{OTHER}\n", encoding="utf-8")
        server.call(server.server._reload_keys)
        assert server.form("/translate", q="a", api_key=OTHER, **PAIR).status == 200
        assert server.form("/translate", q="a", api_key=KEY, **PAIR).status == 403
        keys.write_text("", encoding="utf-8")
        server.call(server.server._reload_keys)  # a bad file does not open or close the server
        assert server.form("/translate", q="a", api_key=OTHER, **PAIR).status == 200


@pytest.mark.parametrize("content", ["", "# nothing\n", "short\n"])
def test_a_file_without_good_keys_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys").write_text(content, encoding="utf-8")
    with pytest.raises(SeqloomError, match="key"):
        ApiKeys(str(tmp_path / "keys"))


def test_neither_keys_nor_texts_are_in_the_log_or_the_metrics(keys: Path) -> None:
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(JsonFormatter().format(record))  # type: ignore[method-assign]
    for name in ("seqloom", "uvicorn", "uvicorn.access", "uvicorn.error"):
        logging.getLogger(name).addHandler(handler)
    logging.getLogger("seqloom").setLevel(logging.INFO)
    try:
        with copying_server(["en-de"], api_keys=str(keys)) as server:
            server.request("POST", f"/translate?q=secret+text&source=en&target=de&api_key={KEY}")
            server.get("/secret-path")
            found = server.form("/translate", q="secret", source="secret", target="de", api_key=KEY)
            assert found.status == 400 and found.headers["x-request-id"]
            page = server.get("/metrics").body.decode()
    finally:
        for name in ("seqloom", "uvicorn", "uvicorn.access", "uvicorn.error"):
            logging.getLogger(name).removeHandler(handler)
    requests = [one for one in map(json.loads, records) if one["message"] == "request"]
    assert [(one["route"], one["code"]) for one in requests] == [
        ("/translate", 200),
        ("other", 404),
        ("/translate", 400),
    ]
    for secret in ("secret", KEY, "127.0.0.1:"):
        assert secret not in page
        assert not any(secret in one for one in records if '"url"' not in one), secret


def test_a_log_on_a_full_disk_does_not_stop_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    full = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w", encoding="utf-8")
    monkeypatch.setattr("sys.stderr", full)
    with json_log(), copying_server(["en-de"]) as server:
        assert [server.form("/translate", q="a", **PAIR).status for _ in range(3)] == [200] * 3
        assert server.get("/nothing").status == 404
    with pytest.raises(OSError, match="No space left"):
        full.close()


def test_the_rate_of_a_client_is_limited() -> None:
    now = [0.0]
    limiter = RateLimiter(60, clock=lambda: now[0])
    for _ in range(60):
        limiter.count("a")
    with pytest.raises(ApiError) as refused:
        limiter.count("a")
    assert refused.value.status == 429 and refused.value.retry_after == 1.0
    limiter.count("b")
    now[0] = 1.0
    limiter.count("a")
    with pytest.raises(ApiError):
        limiter.count("a")


def test_too_many_requests_of_a_key_are_refused(keys: Path) -> None:
    with copying_server(["en-de"], api_keys=str(keys), limits={"requests_per_minute": 2}) as server:
        found = [server.form("/translate", q="a", api_key=KEY, **PAIR) for _ in range(3)]
        assert [one.status for one in found] == [200, 200, 429]
        assert int(found[-1].headers["retry-after"]) >= 1 and "Slowdown" in found[-1].json["error"]
        assert 'seqloom_refused_total{reason="rate_limit"} 1.0' in server.get("/metrics").body.decode()


@pytest.fixture
def busy() -> Iterator[TestServer]:
    """A server whose model waits until the test opens its gate."""
    with copying_server(["en-de"], limits={"queue": 2, "seconds": 30.0, "drain_seconds": 10.0}) as server:
        server.call(server.process().gate.clear)
        yield server
        server.call(server.process().gate.set)


def test_a_full_queue_and_a_deadline_refuse_requests_at_once(busy: TestServer) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(busy.form, "/translate", q="a", **PAIR)]
        wait_for(lambda: len(busy.process().batches) == 1)  # one runs, two wait
        waiting += [pool.submit(busy.form, "/translate", q="a", **PAIR) for _ in range(2)]
        wait_for(lambda: busy.context.models.all["en-de"].scheduler.depth == 2)
        refused = busy.form("/translate", q="a", **PAIR)
        assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
        assert "seqloom_queue_depth" in busy.get("/metrics").body.decode()
        assert busy.get("/health").status == 200
        busy.call(busy.process().gate.set)
        assert [one.result().status for one in waiting] == [200] * 3


def test_a_request_that_takes_too_long_is_504() -> None:
    with copying_server(["en-de"], limits={"seconds": 0.2}) as server:
        server.call(server.process().gate.clear)
        found = server.form("/translate", q="a", **PAIR)
        assert found.status == 504 and isinstance(found.json["error"], str)
        assert server.process().cancelled == 1
        server.call(server.process().gate.set)
        assert server.form("/translate", q="a", **PAIR).status == 200


def test_the_work_of_a_client_that_leaves_is_dropped(busy: TestServer) -> None:
    body = json.dumps({"q": ["a", "b"], **PAIR}).encode()
    head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", busy.port)) as connection:
        connection.sendall(head.encode() + body)
        wait_for(lambda: len(busy.process().batches) == 1)
    wait_for(lambda: busy.process().cancelled == 1)
    busy.call(busy.process().gate.set)
    assert busy.form("/translate", q="c", **PAIR).status == 200
    wait_for(lambda: 'code="499"' in busy.get("/metrics").body.decode())


def test_a_lost_worker_is_503_with_retry_after(busy: TestServer) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(busy.form, "/translate", q="a", **PAIR)
        wait_for(lambda: len(busy.process().batches) == 1)
        busy.process().is_lost = True
        busy.call(busy.process().gate.set)
        assert waiting.result().status == 503 and waiting.result().headers["retry-after"] == "5"


def test_stopping_finishes_accepted_requests_and_accepts_no_others() -> None:
    with copying_server(["en-de"]) as server:
        server.call(server.process().gate.clear)
        assert server.get("/ready").status == server.get("/readyz").status == server.get("/livez").status == 200
        with ThreadPoolExecutor() as pool:
            accepted = pool.submit(server.form, "/translate", q="a", **PAIR)
            wait_for(lambda: len(server.process().batches) == 1)
            server.call(server.server.stop)
            ready = server.get("/ready")
            assert ready.status == 503 and ready.json["reason"] == "the server stops"
            assert server.get("/health").status == 200
            assert server.form("/translate", q="a", **PAIR).status == 503
            server.call(server.process().gate.set)
            assert accepted.result().status == 200


def test_metrics_have_the_documented_names(server: TestServer) -> None:
    server.form("/translate", q="One. Two.", **PAIR)
    page = server.get("/metrics").body.decode()
    for line in (
        'seqloom_requests_total{code="200",model="en-de",route="/translate"} 1.0',
        'seqloom_request_seconds_count{route="/translate"} 1.0',
        'seqloom_queue_seconds_count{model="en-de"} 2.0',
        'seqloom_queue_depth{model="en-de"} 0.0',
        'seqloom_batch_sentences_sum{model="en-de"} 2.0',
        'seqloom_batch_seconds_count{model="en-de"} 1.0',
        'seqloom_time_to_first_token_seconds_count{model="en-de"} 0.0',
        'seqloom_source_tokens_total{model="en-de"} 2.0',
        'seqloom_target_tokens_total{model="en-de"} 2.0',
        'seqloom_worker_restarts_total{model="en-de"} 0.0',
        "# TYPE seqloom_refused_total counter",
    ):
        assert line in page, line


def test_web_pages_of_other_origins_need_cors(server: TestServer) -> None:
    origin = {"Origin": "https://example.org", "Content-Type": "application/json"}
    body = json.dumps({"q": "a", **PAIR}).encode()
    assert "access-control-allow-origin" not in server.request("POST", "/translate", body, origin).headers
    with copying_server(["en-de"], cors=True) as open_server:
        found = open_server.request("POST", "/translate", body, origin)
        assert found.headers["access-control-allow-origin"] == "*"
        asked = {**origin, "Access-Control-Request-Method": "POST"}
        assert open_server.request("OPTIONS", "/translate", None, asked).status == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": {}}, "no model"),
        ({"models": {"x": "missing"}}, "not a run directory"),
        ({"host": "0.0.0.0"}, "Everybody"),
        ({"suggestions": "table.csv"}, "not the name of a table"),
        ({"port": 70000}, "port"),
        ({"prot": 1}, "prot"),
        ({"limits": {"beam": 0}}, "beam"),
    ],
)
def test_a_wrong_option_is_an_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        ServeConfig.compose(None, {"models": {"x": TRANSFORMER}, **options})


def test_a_file_gives_the_options_that_the_command_line_leaves_open(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(f"models: {{en-de: {TRANSFORMER}}}\nport: 81\nlimits: {{beam: 3}}\n", encoding="utf-8")
    config = ServeConfig.compose(file, {"port": 82, "host": None})
    assert (config.port, config.limits.beam, config.host) == (82, 3, "127.0.0.1")
    assert ServeConfig.compose(None, {"models": {"x": TRANSFORMER}, "host": "0.0.0.0", "no_auth": True})


def test_a_port_in_use_is_an_error() -> None:
    with open_socket("127.0.0.1", 0) as first, pytest.raises(SeqloomError, match="in use"):
        open_socket("127.0.0.1", first.getsockname()[1])
    with pytest.raises(SeqloomError, match="no address"):
        open_socket("no.such.host.invalid", 0)
