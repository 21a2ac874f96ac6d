"""Tests of ARPA files: round trip, and errors that name the line."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.statistical.ngram.arpa import read_arpa, write_arpa
from seqloom.statistical.ngram.levels import spell
from seqloom.statistical.ngram.tables import Ngrams

ROWS = [[4, 5, 6], [4, 5], [6, 4], [5]]
NAMES = ["<pad>", "<s>", "</s>", "<unk>", "a", "b\u2028c", "ü"]
MODEL = Ngrams.estimate(ROWS, order=3, vocabulary=7)

GOOD = """made by nobody

\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-99\t<s>\t-0.5
-0.5 a -0.25
-1\tb
-0.7\t</s>

\\2-grams:
-0.3\t<s> a
-0.4\ta b

\\end\\
"""


@pytest.mark.parametrize("name", ["x.arpa", "x.arpa.gz"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    write_arpa(tmp_path / name, MODEL.levels, NAMES)
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    arpa = read_arpa(tmp_path / name)
    assert arpa.words == NAMES[1:]
    for n, (level, rows, found) in enumerate(zip(MODEL.levels, spell(MODEL.levels), arpa.orders, strict=True)):
        kept = slice(1, None) if n == 0 else slice(None)  # PAD is not written
        assert (found.rows + 1).tolist() == rows[kept].tolist()
        finite = np.isfinite(level.log_probs[kept])
        np.testing.assert_allclose(found.log_probs[finite], level.log_probs[kept][finite], rtol=1e-6)
        if n < 2:
            np.testing.assert_allclose(found.backoffs, level.backoffs[kept], rtol=1e-6, atol=1e-9)
    assert found.line == 2 + 3 + 3 + 6 + 2 + len(arpa.orders[1]) + 1


def test_separators_and_leading_text(tmp_path: Path) -> None:
    (tmp_path / "x.arpa").write_text(GOOD.replace("\n", "\r\n"), newline="")
    arpa = read_arpa(tmp_path / "x.arpa")
    assert arpa.words == ["<s>", "a", "b", "</s>"]
    assert arpa.orders[0].backoffs / np.log(10) == pytest.approx([-0.5, -0.25, 0, 0])
    assert arpa.orders[1].rows.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "data", "line 18: the file has no \\data\\ header"),
        ("ngram 2=2", "ngram 3=2", "line 5: expected 'ngram 2=COUNT', got 'ngram 3=2'"),
        ("ngram 1=4\nngram 2=2\n", "", "line 4: the header lists no n-grams"),
        ("ngram 2=2", "ngram 2=3", "line 16: \\2-grams: has 2 entries, but the header lists 3"),
        ("ngram 2=2", "ngram 2=1", "line 15: expected \\end\\ after the last section"),
        ("\\1-grams:", "\\2-grams:", "line 7: expected \\1-grams:, got '\\\\2-grams:'"),
        ("-0.5 a", "o.5 a", "line 9: expected a number, got 'o.5'"),
        ("-0.5 a", "nan a", "line 9: expected a number, got 'nan'"),
        ("-0.5 a", "0.5 a", "line 9: expected a log probability of at most 0, got '0.5'"),
        ("-0.25", "inf", "line 9: expected a number, got 'inf'"),
        ("-1\tb", "-1", "line 10: expected a log probability, 1 word and an optional backoff weight"),
        ("-1\tb", "-1\ta", "line 10: duplicate word 'a'"),
        ("a b\n", "a c\n", "line 15: the word 'c' is not among the 1-grams"),
        ("a b\n", "a b -0.1\n", "line 15: expected a log probability, 2 words"),
        ("\n\\end\\\n", "", "line 16: the file ends here, before \\end\\"),
    ],
)
def test_invalid_file_is_a_user_error(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    (tmp_path / "x.arpa").write_text(GOOD.replace(old, new))
    with pytest.raises(SeqloomError) as caught:
        read_arpa(tmp_path / "x.arpa")
    assert caught.value.message == f"{tmp_path / 'x.arpa'}, {message}."


def test_unreadable_file_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "x.arpa").write_bytes(GOOD.encode().replace(b"-1\tb", b"-1\t\xff"))
    with pytest.raises(SeqloomError, match="line 10: not valid UTF-8"):
        read_arpa(tmp_path / "x.arpa")
    with pytest.raises(SeqloomError, match=r"ARPA file .*: No such file"):
        read_arpa(tmp_path / "y.arpa")
    (tmp_path / "x.arpa.gz").write_text(GOOD)
    with pytest.raises(SeqloomError, match=r"ARPA file .*: Not a gzipped file"):
        read_arpa(tmp_path / "x.arpa.gz")
    (tmp_path / "x.arpa.gz").write_bytes(gzip.compress(GOOD.encode())[:60])
    with pytest.raises(SeqloomError, match="ARPA file"):
        read_arpa(tmp_path / "x.arpa.gz")


def test_damaged_files_never_crash(tmp_path: Path) -> None:
    write_arpa(tmp_path / "good.arpa", MODEL.levels, NAMES)
    good = (tmp_path / "good.arpa").read_bytes()
    draw = random.Random(0)
    refused = list[str]()
    for _ in range(400):
        damaged = bytearray(good)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(damaged))
            damaged[at : at + draw.randrange(3)] = draw.choice(
                [b"", b"\n", b"\t", b"-", b"9", b"\\", b"\xc3", b"a"]
            )
        (tmp_path / "x.arpa").write_bytes(damaged)
        try:
            read_arpa(tmp_path / "x.arpa")
        except SeqloomError as error:
            refused.append(error.message)
    assert len(refused) > 100 and all(", line " in message for message in refused)
