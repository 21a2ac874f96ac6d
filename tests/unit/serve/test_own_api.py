"""/v1/translate and /v1/score: every field, streams, and errors as objects."""

from __future__ import annotations

from typing import Any

import pytest

from seqloom.serve.jobs import DecodingTask, Item, ModelSpec
from seqloom.serve.reproduce import translate_command
from support.serving import FAILS, TestServer, copying_server, events


def test_a_text_has_segments_with_their_places(server: TestServer) -> None:
    text = "One two. Three.\r\n\r\n  Four."
    found = server.post("/v1/translate", {"model": "en-de", "texts": text})
    values = found.json
    (output,) = values["outputs"]
    assert found.status == 200 and output["text"] == text and output["alternatives"] == []
    for segment in output["segments"]:
        assert text[segment["source_start"] : segment["source_end"]] == segment["source"]
        assert output["text"][segment["start"] : segment["end"]] == segment["text"]
    assert output["log_prob"] == sum(one["log_prob"] for one in output["segments"])
    assert (values["model"], values["checkpoint"], values["engine"]) == ("en-de", "step-1", "torch")
    assert values["usage"]["source_tokens"] > 0 and values["timing"]["total_ms"] > 0
    assert values["id"] == found.headers["x-request-id"]


def test_every_option_reaches_the_model(server: TestServer) -> None:
    asked = {
        "source": "en",
        "target": "de",
        "texts": ["a b", "c"],
        "beam": 6,
        "nbest": 2,
        "forbid": ["x"],
        "prefix": ["p ", ""],
        "require": [["a"], ["c"]],
        "alignment": True,
        "scores": True,
        "max_length": 9,
    }
    values = server.post("/v1/translate", asked).json
    task, items = server.process().tasks[-1], server.process().batches[-1]
    expected = DecodingTask(beam=6, nbest=2, forbid=("x",), alignment=True, scores=True, max_length=9)
    assert task == expected
    assert [(one.source, one.prefix, one.required) for one in items] == [
        ("a b", "p ", ("a",)),
        ("c", "", ("c",)),
    ]
    first = values["outputs"][0]
    assert first["text"] == "p a b" and [one["text"] for one in first["alternatives"]] == ["p a b ?"]
    (segment,) = first["segments"]
    assert segment["tokens"] == ["p", "a", "b"] and len(segment["log_probs"]) == 4
    assert len(segment["alignment"]) == 4 and segment["source_tokens"] == ["x"]


def test_samples_have_the_keys_of_the_command_line(server: TestServer) -> None:
    asked = {"model": "en-de", "texts": ["a", "a"], "sampling": {"samples": 3, "seed": 7, "temperature": 0.5}}
    values = server.post("/v1/translate", asked).json
    assert [one.key for one in server.process().batches[-1]] == [1, 2]
    assert len(values["outputs"][0]["alternatives"]) == 2
    command = "seqloom translate {} --engine auto --json --sample --seed 7 --nbest 3 --temperature 0.5"
    spec = server.context.models.all["en-de"].spec
    assert values["reproduce"] == f"printf '%s\\n' a a | {command.format(spec.folders[0])}"


def test_the_command_quotes_what_a_shell_would_read() -> None:
    spec = ModelSpec("m", ("runs/my run", "runs/b"), checkpoint="step-3")
    plain = translate_command(spec, DecodingTask(beam=2, forbid=("it's",)), [Item("it's $HOME")])
    assert plain.startswith(
        "printf '%s\\n' 'it'\"'\"'s $HOME' | seqloom translate 'runs/my run' --ensemble runs/b"
    )
    assert "--checkpoint step-3" in plain and "--beam 2" in plain
    table = translate_command(spec, DecodingTask(), [Item("a", prefix="b", required=("c", ("d", "D")))])
    assert "'a\tb\tc;d'" in table and "--prefix-column 2 --require-column 3" in table
    assert "segments.txt" in translate_command(spec, DecodingTask(), [Item("x" * 5000)])


def test_a_lost_term_or_placeholder_is_required_or_flagged() -> None:
    with copying_server(["en-de"]) as server:
        asked = {"texts": "the house {x}", "glossary": {"house": ["maison"]}}
        values = server.post("/v1/translate", asked).json
        first, again = server.process().batches
        assert first[0].required == () and again[0].required[-1] == ("maison",)
        assert values["outputs"][0]["flags"] == ["term"]  # this model does not obey


def test_scores_of_given_targets(server: TestServer) -> None:
    asked = {"model": "en-de", "pairs": [{"source": "a", "target": "b c"}, {"source": "", "target": "d"}]}
    values = server.post("/v1/score", asked).json
    assert [one["tokens"] for one in values["outputs"]] == [["b", "c"], ["d"]]
    assert values["outputs"][0]["log_prob"] == -1.25 and values["usage"]["target_tokens"] == 3


def test_a_segment_streams_its_tokens_and_a_document_its_segments(server: TestServer) -> None:
    greedy = events(
        server.post("/v1/translate", {"model": "en-de", "texts": "a b c", "beam": 1, "stream": True})
    )
    assert [one.get("text") for one in greedy[:-1]] == ["a", "a b", "a b c"]
    assert not any(one["provisional"] for one in greedy[:-1])
    assert greedy[-1]["type"] == "result" and greedy[-1]["outputs"][0]["text"] == "a b c"
    beam = events(server.post("/v1/translate", {"model": "en-de", "texts": "a b c", "stream": True}))
    assert all(one["provisional"] for one in beam[:-1]) and len(beam) == 4
    texts = ["One two. Three four.", "Five six."]
    document = events(server.post("/v1/translate", {"model": "en-de", "texts": texts, "stream": True}))
    assert sorted((one["index"], one["segment"], one["text"]) for one in document[:-1]) == [
        (0, 0, "One two."),
        (0, 1, "Three four."),
        (1, 0, "Five six."),
    ]
    page = server.get("/metrics").body.decode()
    assert 'seqloom_time_to_first_token_seconds_count{model="en-de"} 3.0' in page


def test_an_error_before_the_stream_is_an_error_of_the_request(server: TestServer) -> None:
    failed = server.post("/v1/translate", {"model": "en-de", "texts": FAILS, "stream": True})
    assert failed.status == 500 and failed.json["error"]["type"] == "server_error"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": "missing"}, "model"),
        ({"model": None}, "model"),
        ({"model": "lm"}, "model"),
        ({"model": None, "source": "en"}, None),
        ({"source": "en", "target": "de"}, None),
        ({"model": None, "source": "en", "target": "xx"}, "target"),
        ({"texts": []}, "texts"),
        ({"texts": [1]}, "texts.0"),
        ({"texts": "x" * 50_001}, "texts"),
        ({"texts": ["x"] * 1001}, "texts"),
        ({"beam": 0}, "beam"),
        ({"beam": 21}, "beam"),
        ({"beam": "many"}, "beam"),
        ({"beam": 2, "nbest": 3}, None),
        ({"nbest": 21}, "nbest"),
        ({"sampling": {"samples": 21}}, "sampling.samples"),
        ({"sampling": {"top_k": -1}}, "sampling.top_k"),
        ({"sampling": {"nonsense": 1}}, "sampling.nonsense"),
        ({"sampling": {}, "beam": 2}, None),
        ({"sampling": {}, "alignment": True}, None),
        ({"prefix": ["a", "b"]}, None),
        ({"prefix": "a", "texts": "One two. Three.", "split": "sentences"}, "texts"),
        ({"prefix": "☃"}, None),
        ({"glossary": {"": "x"}}, "glossary"),
        ({"split": "words"}, "split"),
        ({"format": "pdf"}, "format"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"temperature": 1}, "temperature"),
        ({"forbid": ["a\u0000"]}, "texts"),
    ],
)
def test_a_wrong_field_is_named(server: TestServer, fields: dict[str, Any], param: str | None) -> None:
    asked = {"model": "en-de", "texts": "a", **fields}
    found = server.post("/v1/translate", {k: v for k, v in asked.items() if v is not None})
    error = found.json["error"]
    assert found.status in (400, 404) and error.keys() == {"message", "type", "param", "code"}
    assert error["param"] == param, error


def test_a_timeout_of_the_request_is_shorter_than_the_limit() -> None:
    with copying_server(["en-de"]) as server:
        server.call(server.process().gate.clear)
        found = server.post("/v1/translate", {"texts": "a", "timeout_ms": 50})
        assert found.status == 504 and found.json["error"]["code"] == "timeout"
        server.call(server.process().gate.set)
