"""Published Python clients, as they are: they translate, list, detect, and get the errors that they expect."""

from __future__ import annotations

import os
import subprocess
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from libretranslatepy import LibreTranslateAPI

from support.serving import TestServer, copying_server

NPM_CLIENTS = os.environ.get("SEQLOOM_NPM_CLIENTS")  # folder with their node_modules
KEY, WRONG, SLOWED = "correct-horse", "battery-staple", "paper-clips"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    """A server with two keys, one of which has sent too many requests."""
    keys: Path = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"{KEY}\n{SLOWED}\n", encoding="utf-8")
    limits = {"requests_per_minute": 100}
    with copying_server(["en-de", "de-en", "lm"], api_keys=str(keys), limits=limits) as server:
        server.context.access._rate._clock = lambda: 0.0  # no new requests are allowed with time
        found = [server.form("/detect", q="a", api_key=SLOWED).status for _ in range(101)]
        assert found[-1] == 429
        yield server


def test_libretranslatepy(keyed: TestServer) -> None:
    client = LibreTranslateAPI(keyed.url, KEY)
    assert client.translate("Hello there. Ä!\n", "en", "de") == "Hello there. Ä!\n"
    assert {"code": "en", "name": "English", "targets": ["de"]} in client.languages()
    assert client.detect("The weather is nice today")[0]["language"] == "en"
    for key, language, code in ((SLOWED, "de", 429), (KEY, "xx", 400), (WRONG, "de", 403)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            LibreTranslateAPI(keyed.url, key).translate("Hello", "en", language)
        assert refused.value.code == code


def test_deep_translator(keyed: TestServer) -> None:
    def client(key: str, target: str = "de") -> LibreTranslator:
        return LibreTranslator("en", target, api_key=key, custom_url=f"{keyed.url}/")

    assert client(KEY).translate("Hello there. Ä & b=c") == "Hello there. Ä & b=c"
    assert client(KEY).translate_batch(["One.", "Two."]) == ["One.", "Two."]
    with pytest.raises(AuthorizationException):
        client(WRONG).translate("Hello")
    for key, target in ((SLOWED, "de"), (KEY, "fr")):
        with pytest.raises(ServerException):
            client(key, target).translate("Hello")


def test_openai(keyed: TestServer) -> None:
    def client(key: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{keyed.url}/v1", api_key=key, max_retries=0)

    own = client(KEY)
    assert {model.id for model in own.models.list()} == {"en-de", "de-en", "lm"}
    assert own.completions.create(model="en-de", prompt="One. Two.").choices[0].text == "One. Two."
    found = own.completions.create(model="lm", prompt="le chien", max_tokens=8, logprobs=1, temperature=0)
    assert found.choices[0].text == " and so on" and found.choices[0].logprobs is not None
    stream = own.completions.create(model="lm", prompt="le chien", max_tokens=8, stream=True)
    assert "".join(part.choices[0].text for part in stream) == " and so on"
    with pytest.raises(openai.NotFoundError, match="no model"):
        own.completions.create(model="missing", prompt="x")
    with pytest.raises(openai.BadRequestError):
        own.completions.create(model="lm", prompt="x", suffix="y")
    with pytest.raises(openai.PermissionDeniedError):
        client(WRONG).completions.create(model="lm", prompt="x")
    with pytest.raises(openai.RateLimitError):
        client(SLOWED).completions.create(model="lm", prompt="x")


@pytest.mark.skipif(NPM_CLIENTS is None, reason="needs npm packages: see make test-clients")
def test_npm_clients(keyed: TestServer) -> None:
    assert NPM_CLIENTS is not None
    script = Path(__file__).with_name("clients.mjs")
    command = ["node", str(script), NPM_CLIENTS, keyed.url, KEY, WRONG, SLOWED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "ok\n", done.stderr
