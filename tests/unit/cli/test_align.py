"""`seqloom align` and `seqloom inspect alignment`: input formats, one output line per input line, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import Command

LINES = [
    ("the house", "das Haus"),
    ("the book", "das Buch"),
    ("a book", "ein Buch"),
    ("the man reads a book", "der Mann liest ein Buch"),
    ("a house", "ein Haus"),
    ("the man", "der Mann"),
] * 3


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in LINES), encoding="utf-8")
    return path


def test_links_come_in_the_order_of_the_lines(pairs: Path, command: Command) -> None:
    done = command("align", pairs)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert len(lines) == len(LINES)
    assert lines[:3] == ["0-0 1-1"] * 3
    assert lines[3] == "0-0 1-1 2-2 3-3 4-4"
    assert "hmm 5: log-likelihood" in done.err


def test_lines_without_a_pair_stay_as_empty_lines(pairs: Path, command: Command) -> None:
    whole = command("align", pairs).out.splitlines()
    text = pairs.read_text(encoding="utf-8")
    pairs.write_text(f"only one column\n\n{text}\t\nend\n", encoding="utf-8")
    done = command("align", pairs)
    assert done.out.split("\n") == ["", "", *whole, "", "", ""]
    assert "too few columns" in done.err and "empty line" in done.err


def test_two_files_jsonl_and_standard_input_give_the_same(
    pairs: Path, command: Command, tmp_path: Path
) -> None:
    right = command("align", pairs).out
    sides = [tmp_path / "text.en", tmp_path / "text.de"]
    for side, path in enumerate(sides):
        path.write_text("".join(f"{pair[side]}\n" for pair in LINES), encoding="utf-8")
    objects = tmp_path / "pairs.jsonl"
    objects.write_text("".join(json.dumps({"de": t, "en": s}) + "\n" for s, t in LINES), encoding="utf-8")
    assert command("align", "--source", sides[0], "--target", sides[1]).out == right
    assert command("align", objects, "--source-column", "en", "--target-column", "de").out == right
    assert command("align", "-", given=pairs.read_text(encoding="utf-8")).out == right


def test_reverse_turns_every_link(pairs: Path, command: Command) -> None:
    pairs.write_text("a b c\tx\n" * 5, encoding="utf-8")
    ahead = command("align", pairs, "--symmetrise", "union").out
    back = command("align", pairs, "--symmetrise", "union", "--reverse").out
    turn = lambda link: "-".join(reversed(link.split("-")))  # noqa: E731
    assert [" ".join(map(turn, line.split())) for line in ahead.splitlines()] == back.splitlines()
    assert ahead != back


def test_forward_links_have_at_most_one_source_per_target_word(pairs: Path, command: Command) -> None:
    for method, side in (("forward", 1), ("backward", 0)):
        for line in command("align", pairs, "--symmetrise", method).out.splitlines():
            ends = [link.split("-")[side] for link in line.split()]
            assert len(set(ends)) == len(ends)


def test_the_summary_has_link_counts_and_likelihoods(pairs: Path, command: Command, tmp_path: Path) -> None:
    out = tmp_path / "links.txt"
    done = command("align", pairs, "--model", "ibm2", "--iterations", 3, "--out", out, "--json")
    found = json.loads(done.out)
    links = out.read_text(encoding="utf-8").split()
    assert (found["lines"], found["links"], found["model"]) == (len(LINES), len(links), "ibm2")
    assert [(r["stage"], r["number"]) for r in found["rounds"]] == [
        (stage, n) for stage in ("ibm1", "ibm2") for n in (1, 2, 3)
    ]
    assert 0.9 < found["linked_source_words"] <= 1


def test_words_can_be_compared_by_their_first_letters(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("Houses\tx\nHOUSE\tx\n", encoding="utf-8")
    out = tmp_path / "links"
    plain, same = (
        json.loads(command("align", path, "--out", out, "--json", *options).out)["rounds"][-1]["backward"]
        for options in ((), ("--lowercase", "--letters", "5"))
    )
    assert same > plain  # one word is easier to explain than two


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--model", "ibm9"], "There is no alignment model called 'ibm9'"),
        (["--symmetrise", "grow"], "There is no symmetrisation called 'grow'"),
        (["--json"], "--json needs --out"),
        (["--out", "nowhere/links.txt"], "there is no folder nowhere"),
        (["--source-column", "en"], "has no column 'en'"),
    ],
)
def test_wrong_options_are_errors(options: list[str], told: str, pairs: Path, command: Command) -> None:
    done = command("align", pairs, *options)
    assert done.code == 2
    assert told in done.err
    assert done.out == ""


def test_no_file_and_nothing_to_align_are_errors(command: Command, tmp_path: Path) -> None:
    assert "No file given" in command("align").err
    path = tmp_path / "empty.tsv"
    path.write_text("a\t\n\tb\n", encoding="utf-8")
    done = command("align", path)
    assert done.code == 2
    assert "none of the 2 lines has words on both sides" in done.err


def test_one_pair_as_figure_and_json(pairs: Path, command: Command, tmp_path: Path) -> None:
    gold, picture = tmp_path / "gold", tmp_path / "pair.png"
    gold.write_text("1-1 2-2\n" * 4, encoding="utf-8")
    done = command(
        "inspect", "alignment", pairs, "--line", 4, "--gold", gold, "--gold-from", 1, "--out", picture, "--json"
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["source"] == LINES[3][0].split()
    assert found["links"] == [[i, i] for i in range(5)]
    assert found["gold"] == {"sure": [[0, 0], [1, 1]], "possible": [[0, 0], [1, 1]]}
    assert len(found["forward"]) == len(found["backward"][0]) == 5
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert command("inspect", "alignment", pairs, "--line", 4).out.splitlines()[1].startswith("the\tder\t")


def test_a_line_that_does_not_exist_is_an_error(pairs: Path, command: Command, tmp_path: Path) -> None:
    assert "There is no line 99: the corpus has 18" in command("inspect", "alignment", pairs, "--line", 99).err
    gold = tmp_path / "gold"
    gold.write_text("0-0\n", encoding="utf-8")
    assert "There is no line 2 in" in command("inspect", "alignment", pairs, "--line", 2, "--gold", gold).err
    pairs.write_text("a\tb\nc\t\n", encoding="utf-8")
    assert "Pair 2 cannot be aligned" in command("inspect", "alignment", pairs, "--line", 2).err
