"""`seqloom models`."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from seqloom.cli.main import app
from seqloom.registry import architectures

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


def test_json_lists_every_architecture() -> None:
    result = CliRunner().invoke(app, ["models", "--json"])
    rows = json.loads(result.stdout)
    assert [row["name"] for row in rows] == list(architectures())
    assert {row["name"] for row in rows} >= PROMISED
    for row in rows:
        assert row.keys() == {"name", "summary", "paper", "sizes"}
        assert row["summary"]
        assert row["paper"]
        assert {"tiny", "small", "base"} <= set(row["sizes"])


def test_the_table_lists_every_architecture() -> None:
    told = CliRunner().invoke(app, ["models"], env={"COLUMNS": "200"}).stdout
    for architecture in architectures().values():
        assert architecture.name in told
        assert architecture.summary[:40] in told
