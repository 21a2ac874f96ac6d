from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.inspect.attention import Attention, attention_data, attention_picture, attention_text
from seqloom.inspect.labels import END, labels
from seqloom.types import Hypothesis
from support.commands import run_python

SOURCE, TARGET = ["c", "a", "t"], ["K", "AE1", "T"]
WEIGHTS = [[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.5, 0.5]]


def pixels(path: Path) -> np.ndarray:
    from matplotlib.image import imread

    return np.asarray(imread(path))


# -- labels


def test_pieces_show_where_words_begin() -> None:
    assert labels(["▁Ha", "llo", "▁", "▁du"]) == ["·Ha", "llo", "␣", "·du"]


def test_whole_words_lose_the_mark() -> None:
    assert labels(["▁Hallo", "▁du", "</s>"]) == ["Hallo", "du", "(end)"]


def test_phonemes_and_letters_stay_as_they_are() -> None:
    assert labels(TARGET) == TARGET


def test_labels_are_printable_and_truncated() -> None:
    assert labels(["a\tb"]) == ["a�b"]
    assert len(labels(["x" * 100])[0]) == 24


# -- data


def test_data_is_json_with_an_end_token() -> None:
    alignment = tuple(map(tuple, [*WEIGHTS, [0.0, 0.0, 1.0]]))
    hypothesis = Hypothesis(
        "K AE1 T", -0.5, tokens=tuple(TARGET), source_tokens=tuple(SOURCE), alignment=alignment
    )
    data = json.loads(json.dumps(attention_data(hypothesis)))
    assert data["target"] == [*TARGET, "</s>"]
    assert data["source"] == SOURCE
    assert data["weights"][:3] == WEIGHTS
    assert (data["text"], data["score"]) == ("K AE1 T", -0.5)


def test_a_hypothesis_without_attention_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="no attention to show"):
        attention_data(Hypothesis("K", 0.0, tokens=("K",), source_tokens=("c",)))


@pytest.mark.parametrize(
    "weights, message", [(WEIGHTS[:1], "1 x 3, but .* 3 target and 3 source"), ([[1], [1, 2]], "differ")]
)
def test_weights_of_the_wrong_shape_are_an_error(
    weights: list[list[float]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SeqloomError, match=message):
        attention_text(SOURCE, TARGET, weights)
    with pytest.raises(SeqloomError, match=message):
        attention_picture(SOURCE, TARGET, weights, tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


# -- text


def test_text_shades_by_weight() -> None:
    assert attention_text(SOURCE, TARGET, WEIGHTS).splitlines() == [
        "    c  a  t",
        "K   ██",
        "AE1    ██",
        "T      ▒▒ ▒▒",
    ]


def test_source_tokens_are_vertical_if_the_line_is_too_short() -> None:
    words = [f"word{i}" for i in range(9)]
    grid = np.eye(9).tolist()
    wide, narrow = attention_text(words, words, grid), attention_text(words, words, grid, width=40)
    assert wide.splitlines()[0].split() == words
    assert [line.split() for line in narrow.splitlines()[:2]] == [["w"] * 9, ["o"] * 9]
    assert max(map(len, narrow.splitlines())) <= 40


def test_text_aligns_wide_characters_by_their_cells() -> None:
    from rich.cells import cell_len

    head, first, second = attention_text(["今天", "好"], ["天", "ok"], [[1, 0], [0, 1]]).splitlines()
    assert cell_len(head) == cell_len(second) == 2 + 1 + 4 + 1 + 2
    assert cell_len(first) == 2 + 1 + 4


def test_text_of_zero_weights_is_blank() -> None:
    assert attention_text(["a"], ["b"], [[0.0]]).splitlines() == ["  a", "b"]


# -- picture


def test_target_tokens_go_down_and_source_tokens_across(tmp_path: Path) -> None:
    grid = np.zeros((3, 8))
    grid[2, 0] = 1  # last target token, first source token: bottom left
    attention_picture(list("abcdefgh"), TARGET, grid.tolist(), tmp_path / "x.png")
    image = pixels(tmp_path / "x.png")
    height, width = image.shape[:2]
    assert width > 1.5 * height
    rows, columns = np.nonzero(image[:, : width // 2, 2] - image[:, : width // 2, 0] > 0.3)  # the blue ones
    assert rows.mean() > 0.7 * height
    assert columns.mean() < 0.25 * width


def test_the_size_of_small_and_large_grids_is_bounded() -> None:
    def width(tokens: int) -> float:
        names = tuple(f"▁t{number}" for number in range(tokens))
        return float(Attention(names, names, np.eye(tokens)).plot().get_size_inches()[0])

    assert width(3) < 5
    assert 0.2 * 60 < width(60) < 0.4 * 60
    assert width(300) < 26


def test_dollar_signs_are_not_formulas(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for suffix in (".png", ".svg", ".pdf"):
            path = str(tmp_path / f"x{suffix}")
            attention_picture(["a", "$x_", "$"], ["$5", "$\\frac$", "x"], WEIGHTS, path, title="$\\frac$")
    assert capfd.readouterr() == ("", "")


def test_long_sides_are_grouped_by_word() -> None:
    source, target = ("▁play", "ing") * 20, ("▁du", END)
    weights = np.zeros((2, 40))
    weights[0, 2:4] = 0.25, 0.5
    shown = Attention(source, target, weights).shown()
    assert shown.source == ("▁playing",) * 20 and shown.target == target
    assert shown.weights[0, 1] == pytest.approx(0.75)
    turned = Attention(target, source, weights.T).shown()
    assert turned.weights[1, 0] == pytest.approx(0.375)  # the mean of its tokens
    assert turned.units == ("tokens", "words")


@pytest.mark.parametrize("token", ["今天" * 20, "0.03s"])
def test_tokens_that_form_no_words_are_not_grouped(token: str) -> None:
    found = Attention((token,) * 40, ("a",), np.full((1, 40), 0.025))
    assert found.shown().source == found.source


def test_entities_and_ends_are_readable() -> None:
    assert labels(["▁&quot;", "a&amp;b", "</s>", "\x00"]) == ['·"', "a&b", "(end)", "�"]


def test_no_global_state_of_pyplot_is_touched(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from seqloom.inspect.attention import attention_picture
assert "matplotlib" not in sys.modules
attention_picture(["a"], ["b"], [[1.0]], Path({str(tmp_path / "x.png")!r}))
assert "matplotlib.pyplot" not in sys.modules
assert "torch" not in sys.modules
"""
    run_python(code)


def test_an_unknown_suffix_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"cannot be written as \.bmp") as caught:
        attention_picture(SOURCE, TARGET, WEIGHTS, tmp_path / "x.bmp")
    assert ".png, .svg, .pdf" in caught.value.hint
    with pytest.raises(SeqloomError, match="a file without suffix"):
        attention_picture(SOURCE, TARGET, WEIGHTS, tmp_path / "x")


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"cannot be written: No such file"):
        attention_picture(SOURCE, TARGET, WEIGHTS, tmp_path / "no" / "x.png")


def test_missing_matplotlib_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SeqloomError, match="need matplotlib") as caught:
        attention_picture(SOURCE, TARGET, WEIGHTS, tmp_path / "x.png")
    assert caught.value.hint == "pip install 'seqloom[plot]'"


def test_a_figure_can_be_returned_instead_of_written(tmp_path: Path) -> None:
    found = attention_picture(SOURCE, TARGET, WEIGHTS)
    assert found.plot().axes and found.to_dict()["target"][0] == TARGET[0]
    assert attention_picture(SOURCE, TARGET, WEIGHTS, str(tmp_path / "x.png")).to_dict() == found.to_dict()
    assert (tmp_path / "x.png").is_file()
