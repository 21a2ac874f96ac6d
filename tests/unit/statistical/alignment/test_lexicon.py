"""Tests of the lexicon: best translations of every word, and tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.torch import load_file, save_file

from seqloom.statistical.alignment.lexicon import Lexicon


def lexicon() -> Lexicon:
    source = np.array([0, 0, 0, 2, 2, 2], dtype=np.int32)
    target = np.array([3, 4, 5, 3, 6, 7], dtype=np.int32)
    return Lexicon.of(source, target, np.array([0.1, 0.6, 0.1, 1e-9, 0.2, 0.2]))


def test_best_come_first_padded_with_minus_one() -> None:
    np.testing.assert_array_equal(lexicon().best(2), [[4, 3], [-1, -1], [6, 7]])
    np.testing.assert_array_equal(lexicon().best(4)[2], [6, 7, -1, -1])


def test_improbable_translations_are_dropped() -> None:
    found = lexicon()
    np.testing.assert_allclose(np.bincount(found.source, found.probability), [1, 0, 1])
    assert 3 not in found.target[found.source == 2]


def test_state_dict_round_trip(tmp_path: Path) -> None:
    save_file(lexicon().state_dict(), tmp_path / "lexicon.safetensors")
    again = Lexicon.from_state(load_file(tmp_path / "lexicon.safetensors"))
    np.testing.assert_array_equal(again.best(3), lexicon().best(3))
    np.testing.assert_array_equal(again.probability, lexicon().probability)
