"""The squared error of arrays equals 1 - R² of scikit-learn; wrong outputs are errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import r2_score

from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import evaluate


def write(folder: Path, arrays: list[np.ndarray]) -> list[list[str]]:
    paths = [folder / f"{number}.npy" for number in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    return [[str(path)] for path in paths]


def test_the_error_is_relative_to_the_variance(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    expected = [random.normal(3, 2, (n, 2)) for n in (3, 1, 5)]
    predicted = [array + random.normal(0, 1, array.shape) for array in expected]
    texts = [json.dumps(array.tolist()) for array in predicted]
    (score,) = evaluate(texts, write(tmp_path, expected), "nmse")
    r2 = r2_score(np.concatenate(expected), np.concatenate(predicted), multioutput="variance_weighted")
    assert score.value == pytest.approx(100 * (1 - r2), rel=1e-5)
    assert score.low is not None and score.high is not None and score.low < score.value < score.high


def test_missing_and_additional_vectors_are_compared_with_zeros(tmp_path: Path) -> None:
    references = write(tmp_path, [np.array([[1.0], [2.0]]), np.array([[3.0]])])
    (score,) = evaluate(["[[1.0]]", "[[3.0], [5.0]]"], references, "nmse", bootstrap=0)
    assert score.value == pytest.approx(100 * (2**2 + 5**2) / 2)
    assert evaluate(["[]", "[]"], references, "nmse", bootstrap=0)[0].value == pytest.approx(100 * 14 / 2)


@pytest.mark.parametrize(("text", "message"), [("a b", "is not an array"), ("[[1, 2]]", "2 features, but")])
def test_other_outputs_are_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        evaluate([text], write(tmp_path, [np.ones((2, 1))]), "nmse")
