from __future__ import annotations

import pytest

from support.commands import Command


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("train x.tsv --epochs 3", "--set train.max_epochs=3"),
        ("train x.tsv --max-epoch=3", "--set train.max_epochs=3"),
        ("train x.tsv --max-update 100", "--set train.max_steps=100"),
        ("train x.tsv --lr 3e-4", "--set train.learning_rate=3e-4"),
        ("train x.tsv --learning-rate", "--set train.learning_rate=VALUE"),
        ("train x.tsv --batch-size 64", "--set train.batch_tokens=TOKENS"),
        ("train x.tsv --dropout 0.1", "--set model.dropout=0.1"),
        ("train x.tsv --vocab-size 800", "--set text.vocab_size=800"),
        ("train x.tsv --seed 7", "--set train.seed=7"),
        ("train x.tsv --fp16 --out x", "--set train.precision=bfloat16"),
        ("train x.tsv --output runs/x", "--out runs/x"),
        ("train x.tsv -o runs/x", "--out runs/x"),
        ("train x.tsv --outt runs/x", "--out runs/x"),
        ("train x.tsv --num-beams 4", "--set search.beam=4"),
        ("resume run --max-epoch 9", "--set train.max_epochs=9"),
        ("translate run --num-beams 4", "--beam 4"),
        ("translate run --beam-size=4", "--beam 4"),
        ("translate run --lenpen 0.6", "--set search.length_penalty=0.6"),
        ("translate run --batch-size 8", "--set search.batch_tokens=TOKENS"),
        ("translate run --cpu", "--device cpu"),
        ("translate run --no-repeat-ngram-size 3", "--set search.no_repeat=3"),
        ("generate run --max-new-tokens 30", "--max-length 30"),
    ],
)
def test_an_unknown_option_gets_a_suggestion(command: Command, words: str, hint: str) -> None:
    code, out, err = command(*words.split())
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == f"error: There is no option {words.split()[2].partition('=')[0]}."
    assert err.splitlines()[1] == f"hint:  did you mean {hint}?"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("translate run --dropout 0.1", "see seqloom translate --help"),  # an option of training only
        ("train x.tsv --xyzzy", "see seqloom train --help"),
        ("--beam 3 translate run", "see seqloom --help; the options of a command follow its name"),
    ],
)
def test_an_option_without_a_similar_one_refers_to_the_help(command: Command, words: str, hint: str) -> None:
    code, _, err = command(*words.split())
    assert (code, err.splitlines()[1]) == (2, f"hint:  {hint}")


def test_values_are_quoted_for_the_shell(command: Command) -> None:
    assert "--out 'my run'?" in command("train", "x.tsv", "--output", "my run").err
    assert "--set 'train.metrics=bleu, chrf'?" in command("train", "x", "--eval-metric", "bleu, chrf").err
