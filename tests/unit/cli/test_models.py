"""`seqloom models`."""

from __future__ import annotations

import json

import pytest

from seqloom.registry import architectures
from support.commands import Command

PROMISED = {
    "transformer",
    "recurrent",
    "rnn-last",
    "lstm-last",
    "gru-last",
    "lstm-mean",
    "lstm-dot",
    "lstm-scaled-dot",
    "lstm-bilinear",
    "lstm-additive",
    "lstm-additive-feed",
    "gru-additive",
    "bilstm-deep",
}


def test_json_lists_every_architecture(command: Command) -> None:
    rows = json.loads(command("models", "--json").out)
    assert [row["name"] for row in rows] == list(architectures())
    assert {row["name"] for row in rows} >= PROMISED
    for row in rows:
        assert row.keys() == {"name", "summary", "paper", "sizes"}
        assert row["summary"]
        assert row["paper"]
        assert {"tiny", "small", "base"} <= set(row["sizes"])


def test_the_table_lists_every_architecture(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    told = command("models").out
    for architecture in architectures().values():
        assert architecture.name in told
        assert architecture.summary[:40] in told
