"""Counts and lines of suspicious pairs in a corpus."""

import json
from pathlib import Path

import pytest

from seqloom.data.check import CheckFinding, CorpusCheck, check
from seqloom.data.config import DataConfig


def corpus(path: Path, lines: list[str]) -> DataConfig:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return DataConfig(train=(str(path),))


def checked(tmp_path: Path, lines: list[str]) -> CorpusCheck:
    return check([corpus(tmp_path / "a.tsv", lines)]).corpora[0]


PLAIN = [f"this is sentence {i}\tdas ist der Satz {i}" for i in range(50)]


def test_a_plain_corpus_has_no_findings(tmp_path: Path) -> None:
    result = checked(tmp_path, PLAIN)
    assert (result.lines, result.pairs, result.distinct_sources, result.distinct_pairs) == (50, 50, 50, 50)
    assert {name: f.count for name, f in result.findings.items() if f.count} == {}


@pytest.mark.parametrize(
    "finding, lines, expected",
    [
        ("malformed", ["no target"], [51]),
        ("malformed", [""], [51]),
        ("empty", ["a\t ", "\tb"], [51, 52]),
        ("identical", ["the same\tthe same "], [51]),
        ("control_characters", ["a\x07bc\tabcd", "abcd\tab\ufffdd", "abcde\tab\x85d"], [51, 52, 53]),
        ("mixed_scripts", ["pаypal one\tpaypal eins", "ok\tχi"], [51, 52]),  # Cyrillic а
        ("duplicate_pairs", ["x y\tx z", "x  y\tx z", "x y\tx z"], [52, 53]),
        (
            "sources_with_several_targets",
            ["u u\tu v", "x y\tx z", "x y\tx w", "x y\tx w", "u u\tu w"],
            [51, 52],
        ),
        ("length_ratio_outliers", ["ab\t" + "x" * 40, "y" * 90 + "\tab"], [51, 52]),
    ],
)
def test_findings_list_their_lines(tmp_path: Path, finding: str, lines: list[str], expected: list[int]) -> None:
    assert checked(tmp_path, PLAIN + lines).findings[finding] == CheckFinding(len(expected), expected)


def test_adjacent_words_in_two_scripts_are_not_mixed(tmp_path: Path) -> None:
    assert checked(tmp_path, ["the word привет means hello\tслово hello"]).findings["mixed_scripts"].count == 0


def test_pairs_that_differ_only_in_the_split_are_distinct(tmp_path: Path) -> None:
    result = checked(tmp_path, ["a b\tc", "a\tb c", "c\ta b", "a b\tc"])
    assert (result.distinct_pairs, result.findings["duplicate_pairs"].lines) == (3, [4])


def test_at_most_five_lines_are_listed(tmp_path: Path) -> None:
    assert checked(tmp_path, ["same\tsame"] * 9).findings["identical"] == CheckFinding(9, [1, 2, 3, 4, 5])


def test_lengths(tmp_path: Path) -> None:
    result = checked(tmp_path, ["a\ta b c d", "ab cd\tx", "abc\tx", "abcdefgh\tx"])
    characters = result.lengths["source_characters"]
    assert (characters.min, characters.median, characters.mean, characters.max) == (1, 4.0, 4.25, 8)
    assert characters.histogram == {"1": 1, "2-3": 1, "4-7": 1, "8-15": 1}
    assert result.lengths["target_words"].histogram == {"1": 3, "4-7": 1}


def test_the_typical_ratio_counts_characters(tmp_path: Path) -> None:
    assert checked(tmp_path, [f"{'a' * n}\t{'b' * 2 * n}" for n in range(1, 9)]).typical_ratio == pytest.approx(
        2
    )


def test_overlap_of_each_two_corpora(tmp_path: Path) -> None:
    train = corpus(tmp_path / "train.tsv", ["a\tb", "c\td", "c\te"])
    valid = corpus(tmp_path / "valid.tsv", ["x\ty"])
    test = corpus(tmp_path / "test.tsv", ["q\tr", "c \td", "a\tother", "a\tb", "s\tt"])
    first, second, third = check([train, valid, test]).overlaps
    assert (first.shared_sources, first.shared_pairs, first.lines) == (0, 0, [])
    assert (second.first, second.second) == (train.train[0], test.train[0])
    assert (second.shared_sources, second.shared_pairs) == (2, 2)
    assert (second.share_of_second, second.lines) == (0.6, [2, 3, 4])
    assert third.shared_sources == 0


def test_two_aligned_files_are_one_corpus(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("a\nb\n")
    (tmp_path / "a.de").write_text("A\nB\n")
    result = check([DataConfig(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.de"))])
    assert result.corpora[0].pairs == 2
    assert result.corpora[0].name.endswith("a.de")


@pytest.mark.parametrize("lines", [[], ["\t"], ["only one column"]])
def test_a_corpus_without_usable_lines_gives_a_result(tmp_path: Path, lines: list[str]) -> None:
    result = check([corpus(tmp_path / "a.tsv", lines), corpus(tmp_path / "b.tsv", PLAIN)])
    assert (result.corpora[0].lines, result.corpora[0].pairs) == (len(lines), 0)
    json.dumps(result.as_dict())


def test_the_result_can_be_written_as_json(tmp_path: Path) -> None:
    value = check([corpus(tmp_path / "a.tsv", PLAIN)]).as_dict()
    assert json.loads(json.dumps(value)) == value
    assert value["corpora"][0]["findings"]["empty"] == {"count": 0, "lines": []}
