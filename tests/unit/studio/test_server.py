"""The studio over HTTP: who may use it, its documents, and what happens when something fails."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import Command, run_python
from support.golden import GOLDEN
from support.studio import StudioServer, running_studio

FIXTURES = GOLDEN / "fixtures"
TEXT = "the old cat hides the dog ."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run whose name has markup, and one that a test may change."""
    folder = tmp_path_factory.mktemp("studio")
    shutil.copytree(FIXTURES / "transformer", folder / "<b>x")
    shutil.copytree(FIXTURES / "transformer", folder / "changed")
    return folder


@pytest.fixture(scope="module")
def studio(folder: Path, _own_cache: None) -> Iterator[StudioServer]:
    with running_studio([folder, FIXTURES / "phrase"]) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {"cookie": ""}),
        ("/?token=wrong", {}),
        ("/api/runs", {"cookie": "seqloom-studio=x"}),
        ("/api/runs", {"host": "evil.example"}),
        ("/", {"host": "evil.example:80"}),
        ("/api/runs", {"origin": "http://evil.example"}),
        ("/api/runs", {"origin": "null"}),
        ("/api/runs", {"origin": "https://127.0.0.1"}),
        ("/api/runs", {"sec_fetch_site": "cross-site"}),
        ("/static/app.js", {"cookie": ""}),
    ],
)
def test_strangers_are_refused(studio: StudioServer, path: str, headers: dict[str, str]) -> None:
    reply = studio.request(path, **headers)
    assert reply.status == 403 and "content-security-policy" in reply.headers


def test_the_token_is_exchanged_for_a_cookie(studio: StudioServer) -> None:
    reply = studio.request(f"/?token={studio.token}", cookie="")
    assert reply.status == 200 and b"app.js" in reply.body
    cookie = reply.headers["set-cookie"]
    assert "SameSite=Strict" in cookie and "HttpOnly" in cookie
    assert studio.request("/", cookie=cookie.partition(";")[0]).status == 200
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_documents_are_those_of_inspect(studio: StudioServer, folder: Path, command: Command) -> None:
    run = folder / "<b>x"
    for view, options, fields in (
        ("translation", ["--beam", "3", "--forbid", "chat"], {"beam": 3, "forbid": ["chat"]}),
        ("alternatives", ["--prefix-token", "le"], {"prefix_tokens": ["le"]}),
        ("attention", ["--kind", "encoder"], {"kind": "encoder"}),
        ("search", ["--beam", "2"], {"beam": 2}),
    ):
        printed = command("inspect", view, run, TEXT, *options, "--json", "--device", "cpu")
        reply = studio.request(f"/api/{view}", {"run": "<b>x", "text": TEXT, **fields})
        assert reply.status == 200, reply.body
        assert reply.body.decode() == printed.out
    printed = command("inspect", "stacks", FIXTURES / "phrase", TEXT, "--json")
    assert studio.request("/api/stacks", {"run": "phrase", "text": TEXT}).body.decode() == printed.out
    printed = command("inspect", "curves", run, "--json")
    assert studio.request("/api/curves", {"run": "<b>x"}).body.decode() == printed.out


def test_wrong_requests_are_explained(studio: StudioServer) -> None:
    for path, body, message in (
        ("/api/translation", {"run": "../x", "text": "a"}, "no run called"),
        ("/api/nothing", {"run": "phrase"}, "no view called"),
        ("/api/translation", {"run": "phrase", "txt": "a"}, "view.txt"),
        ("/api/translation", {"run": "<b>x", "text": "a", "beam": 0}, "view.beam"),
        ("/api/translation", {"run": "<b>x", "text": "a", "checkpoint": "../../x"}, "no checkpoint"),
        ("/api/translation", {"run": "<b>x", "text": "a", "prefix_tokens": ["☃"]}, "no token"),
        ("/api/translation", {"run": "<b>x", "text": "le " * 2000}, "at most 1,024"),
        ("/api/search", {"run": "phrase", "text": "a"}, "own search"),
        ("/api/attention", {"run": "<b>x", "text": ""}, "no attention"),
        ("/api/translation", b"[]", "not an object"),
        ("/api/translation", b"{", "not JSON"),
        ("/api/translation", b'"' + b"x" * 5_000_000 + b'"', "larger than"),
        ("/api/page", {"document": {"view": "x"}, "state": {}}, "no document"),
    ):
        reply = studio.request(path, body)
        assert reply.status == 422, (path, reply)
        assert message.lower() in reply.json()["error"].lower()
    assert studio.request("/static/secret.py").status == 404
    assert studio.request("/static/..%2F__init__.py").status == 404


def test_a_saved_page_holds_the_document(studio: StudioServer) -> None:
    document = studio.request("/api/translation", {"run": "<b>x", "text": "</script><img>"}).json()
    reply = studio.request("/api/page", {"document": document, "title": "<img>", "state": {}})
    assert reply.status == 200
    assert b"<img>" not in reply.body and reply.body.count(b"</script>") == 1


def _worker(server: StudioServer, folder: Path) -> int:
    """Return the process id of the worker of a run."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"seqloom.serve.worker" in words and str(folder).encode() in words:
                return int(entry.name)
    raise AssertionError("no worker")


def test_a_worker_that_dies_is_restarted_and_a_deleted_run_is_reported(
    studio: StudioServer, folder: Path
) -> None:
    fields = {"run": "changed", "text": TEXT, "nbest": 1}
    before = studio.request("/api/translation", fields)
    assert before.status == 200
    os.kill(_worker(studio, folder / "changed"), signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (reply := studio.request("/api/translation", fields)).status != 200:
        assert reply.status == 503 and time.monotonic() < deadline
        time.sleep(0.2)
    assert reply.body == before.body
    shutil.rmtree(folder / "changed")
    gone = studio.request("/api/translation", fields)
    assert gone.status == 422 and "no longer exists" in gone.json()["error"]


def test_metrics_are_followed(studio: StudioServer, folder: Path) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=20)
    cookie = {"Cookie": f"seqloom-studio-{studio.port}={studio.token}"}
    connection.request("GET", "/api/events?run=%3Cb%3Ex", headers=cookie)
    response = connection.getresponse()
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.readline().startswith(b"data: ")
    with (folder / "<b>x" / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "train", "step": 151, "loss": 1.0, "seconds": 9.0}\n')
    while not (line := response.readline()).startswith(b"data: "):
        assert line
    connection.close()
    assert studio.request("/api/curves", {"run": "<b>x"}).json()["train"][-1]["step"] == 151


def test_the_server_does_not_import_torch() -> None:
    code = "import sys, seqloom.studio.server; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    assert run_python(code).strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere does not exist"),
        ([str(FIXTURES / "transformer" / "tokenizer")], "neither a run directory nor a folder of runs"),
        ([str(FIXTURES / "transformer"), "--host", "not a host"], "Cannot listen"),
    ],
)
def test_wrong_arguments_are_errors(command: Command, arguments: list[str], message: str) -> None:
    done = command("studio", *arguments, "--no-open", "--port", "0")
    assert done.code == 2 and message in done.err


def test_a_port_in_use_is_an_error(studio: StudioServer, command: Command) -> None:
    done = command("studio", FIXTURES / "phrase", "--no-open", "--port", studio.port)
    assert done.code == 2 and "in use" in done.err
