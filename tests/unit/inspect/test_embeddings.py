"""Embeddings of a vocabulary, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.inspect.viewed_run import ViewedRun
from seqloom.inspect.views import document, document_text
from seqloom.models.transformer import Transformer
from seqloom.types import UNK
from support.commands import Command
from support.golden import GOLDEN

RUN = GOLDEN / "fixtures" / "transformer"


def test_points_and_neighbours_are_those_of_numpy(command: Command) -> None:
    viewed = ViewedRun(RUN, device="cpu")
    model = viewed.opened().model
    assert isinstance(model, Transformer)
    table = model.target_embedding.weight.detach().double().numpy()[UNK + 1 :]
    found = document(viewed, "embeddings", {"side": "target", "token": "chat", "neighbours": 3})
    tokens = found["tokens"]
    assert len(tokens) == found["vocabulary"] == len(table)
    u, s, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    assert np.abs(np.array(found["points"])) == pytest.approx(np.abs(u[:, :2] * s[:2]), abs=1e-4)
    assert found["explained"] == pytest.approx(list(s[:2] ** 2 / (s**2).sum()), abs=1e-5)
    own = table[tokens.index("chat")]
    cosines = table @ own / np.linalg.norm(table, axis=1) / np.linalg.norm(own)
    order = np.argsort(-cosines)[:4]
    assert [one["token"] for one in found["neighbours"]] == [tokens[i] for i in order]
    assert [one["cosine"] for one in found["neighbours"]] == pytest.approx(cosines[order], abs=1e-5)
    done = command("inspect", "embeddings", RUN, "--side", "target", "--token", "chat", "--json")
    assert done.out == document_text(document(viewed, "embeddings", {"side": "target", "token": "chat"}))
    assert "chat" in command("inspect", "embeddings", RUN, "--side", "target", "--token", "chat").out
    with pytest.raises(SeqloomError, match="not a token"):
        document(viewed, "embeddings", {"token": "☃"})


def test_positions_are_those_of_the_command(command: Command) -> None:
    viewed = ViewedRun(RUN, device="cpu")
    done = command("inspect", "positions", RUN, "--json")
    assert done.out == document_text(document(viewed, "positions", {}))


def test_a_model_without_them_is_an_error(command: Command) -> None:
    viewed = ViewedRun(GOLDEN / "fixtures" / "hmm", device="cpu")
    for view in ("embeddings", "positions"):
        with pytest.raises(SeqloomError, match="has no"):
            document(viewed, view, {})
    done = command("inspect", "embeddings", RUN)
    assert done.code == 2 and "--token" in done.err
