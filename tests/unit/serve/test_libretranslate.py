"""The API of LibreTranslate: bodies in every form, languages, detection, alternatives, files, suggestions."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from seqloom.data.readers import read
from seqloom.data.report import DataReport
from seqloom.serve import suggestion_table
from support.serving import FAILS, TestServer, copying_server

PAIR = {"source": "en", "target": "de"}


@pytest.mark.parametrize("form", ["json", "form", "query", "multipart"])
def test_every_form_of_a_body_is_read(server: TestServer, form: str) -> None:
    fields = {"q": "One. Two.", **PAIR, "alternatives": "1", "api_key": "", "unknown": "x"}
    if form == "json":
        found = server.post("/translate", {**fields, "api_key": None, "unknown": {"a": [1]}})
    elif form == "form":
        found = server.form("/translate", **fields)
    elif form == "query":
        found = server.request("POST", "/translate?q=One.+Two.&source=en&target=de&alternatives=1")
    else:
        parts = [f'--b\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items()]
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        found = server.request("POST", "/translate", ("".join(parts) + "--b--\r\n").encode(), kind)
    assert found.status == 200
    assert found.json == {"translatedText": "One. Two.", "alternatives": ["One. ? Two. ?"]}


def test_lists_stay_lists_and_empty_texts_come_back(server: TestServer) -> None:
    texts = ["One. Two.\n\n  Three.\r\n", "  \n", "🎉", ""]
    assert server.post("/translate", {"q": texts, **PAIR}).json == {"translatedText": texts}
    assert server.post("/translate", {"q": ["a"], **PAIR}).json == {"translatedText": ["a"]}
    assert server.form("/translate", q=["a", "b"], **PAIR).json == {"translatedText": ["a", "b"]}


def test_languages_are_detected_only_for_auto(server: TestServer) -> None:
    texts = ["The weather is very nice today.", "Das Wetter ist heute sehr schön."]
    found = server.post("/translate", {"q": texts, "source": "auto", "target": "de"}).json
    assert [one["language"] for one in found["detectedLanguage"]] == ["en", "de"]
    assert all(50 < one["confidence"] <= 100 for one in found["detectedLanguage"])
    assert found["translatedText"] == texts  # the second one is German already
    (single,) = [server.form("/translate", q=texts[1], source="auto", target="en").json]
    assert single["detectedLanguage"]["language"] == "de" and "alternatives" not in single
    assert server.form("/detect", q=texts[0]).json[0]["language"] == "en"


def test_codes_have_several_forms() -> None:
    with copying_server(["en-zh", "en-pt-BR"]) as server:
        codes = {one["code"]: one for one in server.get("/languages").json}
        assert codes["en"] == {"code": "en", "name": "English", "targets": ["pt-BR", "zh-Hans"]}
        assert sorted(codes) == ["en", "pt-BR", "zh-Hans"] and codes["pt-BR"]["targets"] == []
        for target in ("ZH", "zh-Hans", "zh-hans", "pb", "pt-BR", "PT_br"):
            assert server.form("/translate", q="a", source="EN", target=target).status == 200, target


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"q": ""}, "missing q"),
        ({"q": []}, "missing q"),
        ({"q": None}, "missing q"),
        ({"q": [1]}, "q must be"),
        ({"q": {"a": "b"}}, "q must be"),
        ({"source": ""}, "missing source"),
        ({"target": None}, "missing target"),
        ({"source": "xx"}, "xx is not supported"),
        ({"target": "xx"}, "xx is not supported"),
        ({"source": "auto", "target": "xx"}, "xx is not supported"),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"alternatives": 21}, "from 0 to 20"),
        ({"alternatives": "many"}, "from 0 to 20"),
        ({"alternatives": -1}, "from 0 to 20"),
        ({"q": "x" * 50_001}, "50,000"),
        ({"q": ["x"] * 1001}, "1,000"),
        ({"q": "a\x00b"}, "NUL"),
    ],
)
def test_a_wrong_field_is_an_error(server: TestServer, fields: dict[str, Any], message: str) -> None:
    found = server.post("/translate", {"q": "a", **PAIR, **fields})
    assert found.status == 400 and list(found.json) == ["error"] and message in found.json["error"]


def test_a_fault_of_the_model_is_an_internal_error(server: TestServer) -> None:
    found = server.post("/translate", {"q": FAILS, **PAIR})
    assert found.status == 500 and list(found.json) == ["error"]
    assert server.post("/translate", {"q": "a", **PAIR}).status == 200


def test_settings_and_the_schema_describe_the_server(server: TestServer) -> None:
    settings = server.get("/frontend/settings").json
    assert settings["charLimit"] == 50_000 and not settings["keyRequired"] and not settings["suggestions"]
    assert settings["language"]["source"] == {"code": "de", "name": "German"}
    paths = server.get("/spec").json["paths"]
    assert {"/translate", "/detect", "/languages", "/suggest", "/translate_file"} <= paths.keys()


def _upload(
    server: TestServer, name: str, content: bytes, fields: Sequence[tuple[str, str]] = tuple(PAIR.items())
) -> Any:
    parts = [f'--b\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields]
    header = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    body = b"".join([*parts, header, content, b"\r\n--b--\r\n"])
    return server.request("POST", "/translate_file", body, {"Content-Type": "multipart/form-data; boundary=b"})


def test_a_file_is_translated_and_downloaded(server: TestServer) -> None:
    text = "One. Two.\r\n\r\nÄ three.\n"
    found = _upload(server, "../../etc/passwd.txt", text.encode())
    assert found.status == 200
    address = found.json["translatedFileUrl"]
    assert address.startswith(server.url) and "passwd" not in address
    download = server.get(address.removeprefix(server.url))
    assert download.body.decode() == text and "attachment" in download.headers["content-disposition"]


def test_subtitles_keep_their_times_and_markup_moves_by_the_alignment(server: TestServer) -> None:
    text = "1\n00:00:01,000 --> 00:00:02,500\n<i>One</i> two.\n\n2\n00:00:03,000 --> 00:00:04,000\nThree.\n"
    found = _upload(server, "a.srt", text.encode())
    times = server.get(found.json["translatedFileUrl"].removeprefix(server.url)).body.decode()
    assert "00:00:01,000 --> 00:00:02,500" in times and "Three." in times
    aligned = {task.alignment for task in server.process().tasks[-2:]}
    assert aligned == {True, False}


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("a.exe", b"x", PAIR),
        ("a.txt", b"\xff\xfe", PAIR),
        ("a.txt", b"a\x00", PAIR),
        ("a.txt", b"a", {"source": "en"}),
        ("", b"a", PAIR),
    ],
)
def test_a_file_that_is_no_text_is_an_error(
    server: TestServer, name: str, content: bytes, fields: dict[str, str]
) -> None:
    assert _upload(server, name, content, tuple(fields.items())).status == 400
    assert server.get("/download_file/..%2f..%2fetc%2fpasswd").status == 404


@pytest.mark.parametrize("suffix", ["tsv", "jsonl"])
def test_suggestions_become_a_table_for_training(tmp_path: Path, suffix: str) -> None:
    table = tmp_path / f"suggestions.{suffix}"
    with copying_server(["en-de"], suggestions=str(table)) as server:
        for text in ("tabs\tand\nlines", "second"):
            found = server.form("/suggest", q=text, s=f"{text} besser", **PAIR)
            assert found.json == {"success": True}
        assert server.form("/suggest", q="a", s="", **PAIR).status == 400
        assert server.form("/suggest", q="a", s="b", source="en", target="fr").status == 400
        assert server.get("/frontend/settings").json["suggestions"] is True
    pairs = list(read(str(table), report=DataReport()))
    assert [one.source.split() for one in pairs] == [["tabs", "and", "lines"], ["second"]]
    assert pairs[1].target == "second besser"


def test_suggestions_are_off_by_default(server: TestServer) -> None:
    assert server.form("/suggest", q="a", s="b", **PAIR).status == 403


def test_a_full_disk_leaves_the_table_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "suggestions.jsonl"
    with copying_server(["en-de"], suggestions=str(table)) as server:
        assert server.form("/suggest", q="a", s="b", **PAIR).status == 200

        def half(handle: int, content: bytes) -> None:
            os.write(handle, content[:5])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(suggestion_table, "write_all", half)
        found = server.form("/suggest", q="c", s="d", **PAIR)
        assert found.status == 503 and "retry-after" in found.headers
        monkeypatch.undo()
        assert server.form("/suggest", q="e", s="f", **PAIR).status == 200
    assert [json.loads(line)["source"] for line in table.read_text().splitlines()] == ["a", "e"]
