"""Recorded masks, compared with their definitions pair by pair, and with what changes an output."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.inspect.masks import MaskPicture, mask_picture
from seqloom.inspect.untrained import batch_of, ids, open_model
from support.commands import Command

T = 16


def picture(name: str, *assignments: str, **options: int) -> MaskPicture:
    model = open_model(Path(name), ["model.width=24", *assignments])
    return mask_picture(model, **{"length": T, **options})


def pairs(rule: Any) -> np.ndarray:
    return np.array([[int(rule(i, j)) for j in range(T)] for i in range(T)])


def test_padding_and_causal_masks() -> None:
    masks = picture("transformer", padding=3).masks
    assert (masks["encoder"].codes == pairs(lambda i, j: j < T - 3)).all()
    assert (masks["decoder"].codes == pairs(lambda i, j: j <= i)).all()


def test_a_prefix_is_seen_by_all() -> None:
    (mask,) = picture("prefix-lm", prefix=5).masks.values()
    assert (mask.codes == pairs(lambda i, j: j < 5 or j <= i)).all()
    (causal,) = picture("lm", prefix=5).masks.values()
    assert (causal.codes == pairs(lambda i, j: j <= i)).all()


def test_a_causal_window() -> None:
    options = ("model.decoder.attention=window", "model.decoder.window=3", "model.decoder.block=4")
    (mask,) = picture("lm", *options).masks.values()
    assert (mask.codes == pairs(lambda i, j: 0 <= i - j <= 3)).all()
    assert list(mask.names().values()) == ["hidden", "near"]


def test_near_global_and_random_blocks() -> None:
    options = ("model.encoder.block=2", "model.encoder.random_blocks=1")
    mask = picture("transformer-bigbird", *options, layer=2).masks["encoder"]
    blocks = mask.codes[::2, ::2]
    count = len(blocks)
    assert (mask.codes == blocks.repeat(2, 0).repeat(2, 1)).all()
    assert (blocks[0] == 2).all() and (blocks[1:, 0] >= 1).all()  # the first block is global
    for i in range(1, count):
        near = {j for j in (i - 1, i, i + 1) if 0 < j < count}
        assert {j for j in range(1, count) if blocks[i, j] == 1} == near
        assert (blocks[i] == 3).sum() == 1
    assert mask.share() == pytest.approx((blocks > 0).mean())


def test_hidden_pairs_have_no_influence_and_visible_ones_do() -> None:
    """With one layer, output i changes with input j exactly if i attends to j."""
    options = ["model.width=24", "model.layers=1", "model.encoder.block=2", "model.encoder.random_blocks=1"]
    model: Any = open_model(Path("transformer-bigbird"), options)
    codes = mask_picture(model, length=T, padding=2).masks["encoder"].codes
    source = ids(1, T, seed=1)
    lengths = torch.tensor([T - 2])
    batch = replace(batch_of(source, ids(1, T, seed=2)), source_lengths=lengths)
    with torch.no_grad():
        before = model.encode(batch)[0]
        for j in range(T - 2):
            changed = source.clone()
            changed[0, j] = 4 + (int(source[0, j]) + 7) % 30
            difference = (model.encode(replace(batch, source=changed))[0] - before).abs().amax(dim=1)
            reached = {int(i) for i in (difference[: T - 2] > 1e-6).nonzero()}
            assert reached == {i for i in range(T - 2) if codes[i, j] or i == j}


def test_the_projection_of_linformer_has_no_weight_on_padding() -> None:
    model: Any = open_model(Path("transformer-linformer"), ["model.width=24", "model.encoder.rank=5"])
    mask = mask_picture(model, length=T, padding=4).masks["encoder"]
    assert mask.projection is not None
    weights = model.encoder[0].attention.projection[0, :, :T].detach().numpy()
    assert np.allclose(mask.projection[:, :-4], weights[:, :-4])
    assert (mask.projection[:, -4:] == 0).all()


def test_the_command_prints_writes_and_refuses(command: Command, tmp_path: Path) -> None:
    done = command("inspect", "mask", "transformer", "--json", "--out", tmp_path / "m.png")
    told = json.loads(done.out)
    assert told["version"] == 1 and len(told["masks"]["decoder"]["codes"]) == 24
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    done = command("inspect", "mask", "transformer-bigbird", "--set", "model.encoder.block=4", "--length", 64)
    assert done.code == 0 and "random" in done.out and "near" in done.out
    for options, message in (
        (("lstm-last",), "no self-attention"),
        (("transformer", "--layer", 9), "no layer 9"),
        (("transformer", "--length", 4, "--padding", 4), "too few"),
        (("lm", "--length", 4), "too few"),
        (("lm", "--padding", 2), "causal mask hides it"),
    ):
        done = command("inspect", "mask", *options)
        assert done.code == 2 and message in done.err, done.err
    with pytest.raises(SeqloomError, match="options of a run are fixed"):
        open_model(tmp_path, ["model.width=8"])
