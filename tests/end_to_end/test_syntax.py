"""Trees from the file to the model: trained on, translated and measured from CoNLL-U and from a table."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from support.commands import Command
from support.configs import learner_flags

WORDS = ["dogs", "cats", "birds", "see", "like", "fear", "the", "old", "big"]


def _sentence(draw: Random) -> tuple[str, str, str]:
    """Words, the first letter of the head of each (`o`: a root), and the heads: they alone tell the letters."""
    count = draw.randint(2, 6)
    words = [draw.choice(WORDS) for _ in range(count)]
    root = draw.randrange(count)
    heads = [0 if i == root else root + 1 for i in range(count)]
    target = ["o" if head == 0 else words[head - 1][0] for head in heads]
    return " ".join(words), " ".join(target), " ".join(map(str, heads))


def _conllu(sentences: list[tuple[str, str, str]]) -> str:
    blocks = []
    for text, _, heads in sentences:
        lines = [
            "\t".join((str(i), word, "_", "_", "_", "_", head, "_", "_", "_"))
            for i, (word, head) in enumerate(zip(text.split(), heads.split(), strict=True), 1)
        ]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("trees"), Random(1)
    train, test = ([_sentence(draw) for _ in range(count)] for count in (600, 40))
    (folder / "train.tsv").write_text("".join("\t".join(row) + "\n" for row in train))
    (folder / "test.tsv").write_text("".join("\t".join(row) + "\n" for row in test))
    (folder / "test.conllu").write_text(_conllu(test))
    (folder / "test.txt").write_text("".join(f"{text}\n" for text, _, _ in test))
    (folder / "answers.txt").write_text("".join(f"{target}\n" for _, target, _ in test))
    return folder


@pytest.fixture(scope="module")
def run(files: Path, process: Command) -> Path:
    """A model that has learnt what only the tree tells."""
    settings = {"train.max_steps": 250, "data.heads_column": 3, "model.layers": 1, "train.metrics": "[exact]"}
    done = process(
        "train",
        files / "train.tsv",
        *("--model", "transformer-syntax", "--size", "tiny", "--out", files / "run"),
        *learner_flags(settings),
    )
    assert done.code == 0, done.err
    return files / "run"


def test_the_answer_comes_from_the_tree(run: Path, files: Path, command: Command) -> None:
    answers = (files / "answers.txt").read_text().splitlines()
    from_conllu = command("translate", run, files / "test.conllu")
    assert from_conllu.code == 0, from_conllu.err
    right = sum(one == other for one, other in zip(from_conllu.out.splitlines(), answers, strict=True))
    assert right >= 30  # of 40; a model that does not see the trees has about 7
    from_table = command("translate", run, files / "test.tsv", "--heads-column", 3)
    assert from_table.out == from_conllu.out
    piped = command("translate", run, "--format", "conllu", given=(files / "test.conllu").read_bytes())
    assert piped.out == from_conllu.out


def test_both_forms_measure_the_same(run: Path, files: Path, command: Command) -> None:
    table = command("evaluate", run, files / "test.tsv", "--metrics", "exact", "--json")
    aligned = command(
        "evaluate",
        run,
        *("--source", files / "test.conllu", "--target", files / "answers.txt", "--metrics", "exact", "--json"),
    )
    assert table.code == aligned.code == 0, aligned.err
    scores = [[line for line in done.out.splitlines() if '"value"' in line] for done in (table, aligned)]
    assert scores[0] == scores[1] != []


def test_a_malformed_tree_leaves_its_line_empty_and_is_told(run: Path, files: Path, command: Command) -> None:
    (files / "wrong.tsv").write_text("dogs see cats\t2 0 2\ndogs see cats\t2 0\n")
    done = command("translate", run, files / "wrong.tsv", "--heads-column", 2)
    assert done.code == 0
    assert [bool(line) for line in done.out.splitlines()] == [True, False]
    assert "the number of heads differs from the number of words" in done.err


def test_text_without_trees_is_a_sentence(run: Path, files: Path, command: Command) -> None:
    done = command("translate", run, files / "test.txt")
    assert (done.code, done.out) == (2, "")
    assert "needs a dependency tree for every source" in done.err
    assert "--heads-column" in done.err


def test_training_without_trees_is_a_sentence_and_leaves_nothing(files: Path, command: Command) -> None:
    out = files / "none"
    done = command("train", files / "train.tsv", "--model", "transformer-syntax", "--out", out)
    assert done.code == 2 and "but this data has none" in done.err
    assert not out.exists()


def test_two_files_train_as_well(files: Path, command: Command) -> None:
    out = files / "two"
    pair = ("--source", files / "test.conllu", "--target", files / "answers.txt")
    flags = learner_flags({"train.max_steps": 2, "model.layers": 1})
    done = command("train", *pair, "--model", "transformer-syntax", "--size", "tiny", "--out", out, *flags)
    assert done.code == 0, done.err
    assert "40 of 40 lines kept" in done.err
