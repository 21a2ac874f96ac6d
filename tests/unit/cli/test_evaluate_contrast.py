"""`seqloom evaluate --contrast` and the text tasks of `seqloom data make`."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from seqloom.data.contrasts import read_contrasts
from seqloom.data.tasks.contrastive import generate_contrasts
from seqloom.errors import SeqloomError
from seqloom.evaluate.contrast import Contrast, contrast_report
from seqloom.run.load import load_derivations, load_scorer
from support.commands import Command
from support.golden import golden_run

HEADER = "source\tright\twrong\tkind\tdistance\n"
TEXT = (
    HEADER + "\tle chat voit .\tchat le voit .\tword\t2\n\tle chat\tle le\tword\t1\n\tun\tle chien\tother\t\n"
)
PAIRS = HEADER + "the cat\tle chat\tle chien\tnoun\t1\nthe dog\tle zzz\tle yyy\tnoun\t1\n"


@pytest.mark.parametrize("run", ["lm", "lstm-lm", "ngram", "hmm-lm", "mlm", "transformer", "lstm", "phrase"])
def test_accuracy_counts_the_scores_of_every_kind_of_model(run: str, command: Command, tmp_path: Path) -> None:
    pairs = run in ("transformer", "lstm", "phrase")
    (tmp_path / "c.tsv").write_text(PAIRS if pairs else TEXT)
    found = json.loads(command("evaluate", golden_run(run), "--contrast", tmp_path / "c.tsv", "--json").out)
    scorer = load_derivations(golden_run(run)) if run == "phrase" else load_scorer(golden_run(run))
    correct = []
    for line in (tmp_path / "c.tsv").read_text().splitlines()[1:]:
        source, right, wrong, *_ = line.split("\t")
        one, other = scorer.score([(source, right), (source, wrong)])
        scores = [x.score if run == "phrase" else x.log_prob for x in (one, other)]  # type: ignore[union-attr]
        correct.append(scores[0] is not None and (scores[1] is None or scores[0] > scores[1]))
    assert (found["count"], found["correct"]) == (len(correct), sum(correct))
    kinds = {group["kind"]: group["correct"] for group in found["by_kind"]}
    assert kinds == ({"noun": sum(correct)} if pairs else {"word": sum(correct[:2]), "other": correct[2]})


def test_groups_ties_and_texts_without_score() -> None:
    contrasts = [
        Contrast("a", "b", kind=kind, distance=d) for kind, d in (("x", 1), ("x", 1), ("x", 2), ("y", 1))
    ]
    report = contrast_report(contrasts, [0.0, -1.0, None, -3.0], [-1.0, 0.0, None, None])
    assert (report.total.correct, report.total.accuracy, report.ties) == (2, 50.0, 1)
    groups = [(g.kind, g.distance, g.count, g.correct) for g in report.groups]
    assert groups == [("x", 1, 2, 1), ("x", 2, 1, 0), ("y", 1, 1, 1)]
    assert [(g.distance, g.correct) for g in report.distances] == [(1, 2), (2, 0)]


def test_the_table_has_a_row_for_each_group(command: Command, tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text(TEXT)
    done = command("evaluate", golden_run("lm"), "--contrast", tmp_path / "c.tsv")
    assert done.code == 0
    assert sum(line.split()[:1] == ["word"] for line in done.out.splitlines()) == 3


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "no column 'right'"),
        ("a\tb\n", "no column 'right'"),
        ("right\twrong\tcolour\n", "has the header"),
        (HEADER, "contains no contrasts"),
        (HEADER + "a\tb\n", "line 2 has 2 columns"),
        ("right\twrong\na\t \n", "column wrong is empty"),
        ("right\twrong\na\ta\n", "are the same"),
        ("right\twrong\tdistance\na\tb\tfar\n", "'far' is not a number"),
    ],
)
def test_bad_files(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text(content)
    with pytest.raises(SeqloomError, match=message):
        read_contrasts(str(tmp_path / "c.tsv"))


@pytest.mark.parametrize(
    "run, options, message",
    [
        ("lm", ("--beam", 3), "does not support --beam"),
        ("lm", ("--metrics", "bleu"), "does not support --metrics"),
        ("lm", ("test.tsv",), "does not support test data"),
        ("transformer", (), "translates, but it has no source"),
        ("phrase", ("--ensemble", golden_run("lstm")), "no source"),
    ],
)
def test_what_contrasts_do_not_support(
    run: str, options: tuple[object, ...], message: str, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "c.tsv").write_text(TEXT)
    done = command("evaluate", golden_run(run), *options, "--contrast", tmp_path / "c.tsv")
    assert done.code == 2
    assert message in done.err.replace("\n", " ")


def test_a_source_for_a_language_model_is_an_error(command: Command, tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text(PAIRS)
    done = command("evaluate", golden_run("lm"), "--contrast", tmp_path / "c.tsv")
    assert (done.code, "reads plain text, but it has a source" in done.err.replace("\n", " ")) == (2, True)


def test_agreement_verbs_agree_with_the_subject() -> None:
    for one in generate_contrasts("agreement", 300, 1):
        words, others = one.right.split(), one.wrong.split()
        (verb,) = [i for i, (a, b) in enumerate(zip(words, others, strict=True)) if a != b]
        nouns = [i for i in range(1, verb) if words[i - 1] == "the"]
        assert {words[verb], others[verb]} == {"is", "are"}
        assert (words[verb] == "are") == words[nouns[0]].endswith("s")
        assert one.distance == verb - nouns[0]
        same = words[nouns[-1]].endswith("s") == words[nouns[0]].endswith("s")
        assert one.kind == ("simple" if len(nouns) == 1 else "same" if same else "attractor")


def test_tickets_repeat_a_word_at_the_distance() -> None:
    for one in generate_contrasts("tickets", 200, 1):
        words, others = one.right.split(), one.wrong.split()
        (last,) = [i for i, (a, b) in enumerate(zip(words, others, strict=True)) if a != b]
        assert one.distance is not None and words[last] == words[last - one.distance]
        assert others[last] not in words


def test_data_make_holds_the_contrasts_out(command: Command, tmp_path: Path) -> None:
    text, file = tmp_path / "text.txt", tmp_path / "c.tsv"
    options = ("--count", 200, "--contrast", file, "--contrasts", 50, "--out", text)
    assert command("data", "make", "agreement", *options).code == 0
    contrasts, lines = read_contrasts(str(file)), text.read_text().splitlines()
    assert (len(contrasts), len(set(lines))) == (50, 200)
    assert not {one.right for one in contrasts} & set(lines)
    assert all(a != b for a, b in pairwise(lines))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("copy", "--contrast", "c.tsv"), "has no contrasts"),
        (("docstrings", "--contrast", "c.tsv"), "has no contrasts"),
        (("agreement", "--contrasts", 5), "--contrast FILE"),
        (("tickets", "--count", 10**9), "different sentences"),
    ],
)
def test_errors_of_data_make(
    arguments: tuple[object, ...],
    message: str,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    if "tickets" in arguments:
        monkeypatch.setattr("seqloom.data.tasks.contrastive._FILLERS", ("it rained .",))
    done = command("data", "make", *arguments)
    assert done.code == 2
    assert message in done.err.replace("\n", " ")
    assert not list(tmp_path.iterdir())


def test_an_unknown_text_task() -> None:
    with pytest.raises(SeqloomError, match="agrement"):
        generate_contrasts("agrement", 1, 1)
