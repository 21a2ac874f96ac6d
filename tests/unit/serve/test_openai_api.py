"""Completions in the form of OpenAI: language models, translators, streams and refused options."""

from __future__ import annotations

from typing import Any

import pytest

from support.serving import TestServer, events


def test_a_language_model_continues_its_prompt(server: TestServer) -> None:
    asked = {"model": "lm", "prompt": "le chien", "max_tokens": 5, "temperature": 0, "logprobs": 1}
    values = server.post("/v1/completions", asked).json
    (choice,) = values["choices"]
    assert values["object"] == "text_completion" and values["model"] == "lm"
    assert choice["text"] == " and so on" and choice["finish_reason"] == "stop"
    task = server.process("lm").tasks[-1]
    assert task.kind == "generate" and task.sampling is not None and task.sampling.temperature == 0
    assert task.max_length == server.context.models.all["lm"].tokens("le chien") + 5
    assert set(choice["logprobs"]) == {"tokens", "token_logprobs", "top_logprobs", "text_offset"}
    usage = values["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_several_prompts_outputs_echo_and_stop(server: TestServer) -> None:
    asked = {"model": "lm", "prompt": ["le chien", "le"], "n": 2, "echo": True, "stop": [" so", "x"], "seed": 3}
    values = server.post("/v1/completions", asked).json
    texts = [one["text"] for one in values["choices"]]
    assert texts == ["le chien and", "le chien and", "le and", "le and"]
    assert [one["index"] for one in values["choices"]] == [0, 1, 2, 3]
    assert all(task.sampling and task.sampling.seed == 3 for task in server.process("lm").tasks[-2:])


def test_a_translator_takes_its_source_as_the_prompt(server: TestServer) -> None:
    values = server.post("/v1/completions", {"model": "en-de", "prompt": "One. Two.\n"}).json
    assert values["choices"][0]["text"] == "One. Two.\n"
    assert server.process().tasks[-1].sampling is None
    server.post("/v1/completions", {"model": "en-de", "prompt": "One", "temperature": 0.5, "n": 2})
    sampling = server.process().tasks[-1].sampling
    assert sampling is not None and (sampling.samples, sampling.temperature) == (2, 0.5)


def test_a_stream_sends_final_pieces(server: TestServer) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    found = events(server.post("/v1/completions", {"model": "lm", "prompt": "le", **options}))
    pieces = [one["choices"][0]["text"] for one in found if one["choices"]]
    assert "".join(pieces) == " and so on" and len(pieces) > 2
    assert found[-2]["choices"][0]["finish_reason"] == "stop" and found[-1]["usage"]["total_tokens"] > 0
    beam = events(server.post("/v1/completions", {"model": "en-de", "prompt": "a b", "stream": True}))
    assert [one["choices"][0]["text"] for one in beam] == ["a b"]  # provisional text is never sent


def test_models_are_listed(server: TestServer) -> None:
    values = server.get("/v1/models").json
    assert {one["id"]: one["kind"] for one in values["data"]} == {
        "en-de": "translate",
        "de-en": "translate",
        "lm": "generate",
    }
    assert server.get("/v1/models/en-de").json["languages"] == ["en", "de"]
    missing = server.get("/v1/models/missing")
    assert missing.status == 404 and missing.json["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": "missing"}, "model"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[1, 2]]}, "prompt.0"),
        ({"n": 21}, "n"),
        ({"n": 2, "temperature": 0}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"suffix": "x"}, "suffix"),
        ({"presence_penalty": 1}, "presence_penalty"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"messages": []}, "messages"),
    ],
)
def test_what_has_no_effect_is_refused(server: TestServer, fields: dict[str, Any], param: str) -> None:
    found = server.post("/v1/completions", {"model": "lm", "prompt": "a", **fields})
    assert found.status in (400, 404) and found.json["error"]["param"] == param
