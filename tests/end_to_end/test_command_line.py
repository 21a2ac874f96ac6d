"""Make data, train, translate, evaluate, look: as a person does it, with real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import Command
from support.configs import learner_flags


def pairs(file: Path) -> list[list[str]]:
    return [line.split("\t") for line in file.read_text().splitlines()]


def scores(report: str) -> dict[str, float]:
    return {score["name"]: score["value"] for score in json.loads(report)["scores"]}


def test_transformer_learns_to_copy(trained: Path, data: Path, process: Command) -> None:
    done = process("evaluate", trained, data / "test.tsv", "--metrics", "exact,per,bleu", "--json")
    assert done.code == 0, done.err
    measured = scores(done.out)
    assert measured["exact"] > 90
    assert measured["per"] < 5
    assert measured["bleu"] > 90


def test_lstm_learns_to_copy_and_is_compared(
    tmp_path: Path, trained: Path, data: Path, process: Command, command: Command
) -> None:
    flags = learner_flags({"train.max_steps": 400, "train.batch_tokens": 800})
    out = tmp_path / "lstm"
    model = ("--model", "lstm-bilinear", "--size", "tiny")
    done = process("train", data / "copy.tsv", "--out", out, *model, *flags)
    assert done.code == 0, done.err
    evaluated = ("evaluate", out, data / "test.tsv", "--metrics", "exact", "--beam", 1, "--compare", trained)
    picture = tmp_path / "lengths.png"
    report = command(*evaluated, "--json", "--plot", picture)
    assert scores(report.out)["exact"] > 90
    (against,) = json.loads(report.out)["against"]
    assert against["name"] == str(trained)
    assert against["comparisons"][0]["a"] == scores(report.out)["exact"]
    assert picture.stat().st_size > 1000
    assert f"against {trained}" in " ".join(command(*evaluated).out.split())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_transformer_learns_to_reverse(tmp_path: Path, process: Command) -> None:
    for name, count, seed in (("train", 5000, 1), ("test", 200, 99)):
        process("data", "make", "reverse", "--count", count, "--seed", seed, "--out", tmp_path / f"{name}.tsv")
    flags = learner_flags({"train.max_steps": 1200, "model.layers": 2, "model.ffn": 128})
    done = process("train", tmp_path / "train.tsv", "--out", tmp_path / "run", "--size", "tiny", *flags)
    assert done.code == 0, done.err
    report = process("evaluate", tmp_path / "run", tmp_path / "test.tsv", "--metrics", "exact", "--json")
    assert scores(report.out)["exact"] > 90


def test_standard_input_to_standard_output(trained: Path, process: Command) -> None:
    done = process("translate", trained, given="1 2 3\n\n4 5 6 7\n")
    assert done.code == 0, done.err
    assert done.out == "1 2 3\n\n4 5 6 7\n"
    assert done.err == "suspicious: 2 of 3 outputs (copy: the output equals the source)\n"


def test_an_answer_can_be_told_how_to_begin_and_what_not_to_say(
    trained: Path, process: Command, tmp_path: Path
) -> None:
    table = tmp_path / "begun.tsv"
    table.write_text("1 2 3\t3\n4 5\t\n")
    begun = process("translate", trained, table, "--prefix-column", "2", "--json")
    assert begun.code == 0, begun.err
    first, second = map(json.loads, begun.out.splitlines())
    assert first["hypotheses"][0]["text"].startswith("3")
    assert (second["hypotheses"][0]["text"], second["hypotheses"][0]["flags"]) == ("4 5", [])
    limits = ("--set", "search.forbid=2", "--set", "search.longest=6", "--set", "search.min_length=2")
    without = process("translate", trained, *limits, given="1 2 3\n")
    assert without.code == 0, without.err
    assert "2" not in without.out.split()


def test_an_answer_can_be_told_what_to_contain(trained: Path, command: Command, tmp_path: Path) -> None:
    table = tmp_path / "terms.tsv"
    table.write_text("1 2 3\t9; 8 7\n4 5\t\n\t1\n")
    done = command("translate", trained, table, "--require-column", 2)
    assert done.code == 0, done.err
    first, second, third = done.out.splitlines()
    assert "9" in first.split() and "8 7" in first
    assert (second, third) == ("4 5", "")
    everywhere = command("translate", trained, table, "--set", "search.require=6")
    assert ["6" in line.split() for line in everywhere.out.splitlines()] == [True, True, False]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (("--require-column", "2", "--sample"), "--require-column needs a beam search"),
        (
            ("--require-column", "2", "--engine", "ctranslate2"),
            "The engine ctranslate2 does not support required words",
        ),
        (("--set", "search.require=6", "--set", "search.groups=5"), "set search.groups=1"),
        (("--set", "search.require=☃"), "'☃' is not in the target vocabulary"),
    ],
)
def test_what_required_words_do_not_go_with(
    trained: Path, command: Command, tmp_path: Path, others: tuple[str, ...], message: str
) -> None:
    (tmp_path / "terms.tsv").write_text("1 2 3\t9\n")
    done = command("translate", trained, tmp_path / "terms.tsv", *others)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize("option", ["search.bean=2", "train.max_steps=3"])
def test_an_option_that_search_has_not(trained: Path, process: Command, option: str) -> None:
    done = process("translate", trained, "--set", option, given="1\n")
    assert done.code == 2
    assert f"There is no option {option.split('=')[0]}" in done.err


def test_as_many_lines_out_as_in_and_in_order(
    trained: Path, tmp_path: Path, data: Path, command: Command
) -> None:
    sources = [source for source, _ in pairs(data / "test.tsv")]
    sources[3:3] = ["", "   "]
    (tmp_path / "lines.txt").write_text("\n".join([*sources, "8 9"]))  # the last line has no end
    done = command("translate", trained, tmp_path / "lines.txt", "--out", tmp_path / "answers.txt")
    assert (done.code, done.out) == (0, "")
    answers = (tmp_path / "answers.txt").read_text().splitlines()
    assert len(answers) == len(sources) + 1
    assert answers[3:5] == ["", ""]
    right = [a == s.strip() for a, s in zip(answers, [*sources, "8 9"], strict=True)]
    assert sum(right) > 0.9 * len(right)


def test_a_table_is_translated_by_its_column(trained: Path, tmp_path: Path, command: Command) -> None:
    (tmp_path / "table.csv").write_text('name,digits\n"a, b",1 2 3\nc,4 5\n')
    done = command("translate", trained, tmp_path / "table.csv", "--column", "digits")
    assert done.out == "1 2 3\n4 5\n"


def test_nbest_gives_n_lines_per_line_best_first(trained: Path, command: Command) -> None:
    done = command("translate", trained, "--beam", 4, "--nbest", 3, given=b"1 2 3\n4 5 6\n")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [number for number, _, _ in rows] == ["1"] * 3 + ["2"] * 3
    assert (rows[0][2], rows[3][2]) == ("1 2 3", "4 5 6")
    for first, second, third in (rows[:3], rows[3:]):
        assert float(first[1]) >= float(second[1]) >= float(third[1])
        assert len({first[2], second[2], third[2]}) == 3


def test_json_holds_scores_tokens_and_alignment(trained: Path, command: Command) -> None:
    done = command("translate", trained, "--nbest", 2, "--json", "--alignment", given=b"1 2 3\n\n")
    first, empty = map(json.loads, done.out.splitlines())
    assert (first["line"], first["source"], empty["line"]) == (1, "1 2 3", 2)
    best, second = first["hypotheses"]
    assert best["text"] == "1 2 3"
    assert best["score"] >= second["score"]
    assert best["tokens"] == best["source_tokens"] == ["1", "2", "3"]
    assert len(best["token_log_probs"]) == 4
    assert sum(best["token_log_probs"]) == pytest.approx(best["log_prob"])
    assert [len(row) for row in best["alignment"]] == [
        4
    ] * 4  # each of 3 tokens and the end looks at 3 + the end
    assert [sum(row) for row in best["alignment"]] == pytest.approx([1] * 4, abs=1e-4)
    assert empty["hypotheses"][0]["text"] == ""


def test_without_the_flag_json_has_no_alignment(trained: Path, command: Command) -> None:
    done = command("translate", trained, "--json", given=b"1 2 3\n")
    assert not json.loads(done.out)["hypotheses"][0]["alignment"]


def test_a_sentence_has_one_answer_alone_or_in_company(trained: Path, data: Path, command: Command) -> None:
    sources = [source for source, _ in pairs(data / "test.tsv")][:12]
    together = command("translate", trained, "--json", given="\n".join(sources).encode()).out.splitlines()
    for line, source in zip(together, sources, strict=True):
        [alone] = command("translate", trained, "--json", given=source.encode()).out.splitlines()
        mine, others = json.loads(alone)["hypotheses"][0], json.loads(line)["hypotheses"][0]
        assert mine["text"] == others["text"]
        assert mine["score"] == pytest.approx(others["score"], abs=1e-4)


def test_evaluate_prints_a_table_and_writes_the_answers(
    trained: Path, data: Path, tmp_path: Path, command: Command
) -> None:
    done = command(
        "evaluate", trained, data / "test.tsv", "--metrics", "exact,cer", "--out", tmp_path / "a.txt"
    )
    assert "exact" in done.out
    assert "CER" in done.out
    assert len((tmp_path / "a.txt").read_text().splitlines()) == 100


def test_evaluate_takes_two_aligned_files(trained: Path, data: Path, tmp_path: Path, command: Command) -> None:
    table = pairs(data / "test.tsv")
    for name, column in (("s.txt", 0), ("t.txt", 1)):
        (tmp_path / name).write_text("".join(pair[column] + "\n" for pair in table))
    files = command(
        "evaluate", trained, "--source", tmp_path / "s.txt", "--target", tmp_path / "t.txt", "--json"
    )
    one_table = command("evaluate", trained, data / "test.tsv", "--json")
    assert scores(files.out) == scores(one_table.out)


def test_info_tells_the_model_and_how_good_it_is(trained: Path, command: Command) -> None:
    facts = json.loads(command("info", trained, "--json").out)
    assert facts["model"]["name"] == "transformer"
    assert facts["model"]["width"] == 64
    assert facts["parameters"] > 50_000
    assert facts["steps"] == 400
    assert facts["checkpoints"] == [200, 400]
    assert facts["best_step"] == 400
    assert facts["best"]["loss"] < 0.5
    readable = command("info", trained).out
    assert "transformer" in readable
    assert f"{facts['parameters']:,}" in readable


def test_resuming_a_finished_run_changes_nothing(trained: Path, command: Command) -> None:
    def content() -> dict[str, bytes | str]:
        files = [file for file in trained.rglob("*") if file.is_file() and file.name != "log.txt"]
        links = {str(link): str(link.readlink()) for link in trained.rglob("*") if link.is_symlink()}
        return {**{str(file): file.read_bytes() for file in files}, **links}

    before = content()
    done = command("resume", trained)
    assert done.code == 0
    assert "400 steps" in done.out
    assert content() == before


def test_a_checkpoint_can_be_chosen(trained: Path, command: Command) -> None:
    early = json.loads(command("translate", trained, "--checkpoint", "step-200", "--json", given=b"1 2").out)
    late = json.loads(command("translate", trained, "--checkpoint", "step-400", "--json", given=b"1 2").out)
    best = json.loads(command("translate", trained, "--json", given=b"1 2").out)
    assert early != late
    assert best == late


def test_the_run_directory_is_all_that_translating_needs(
    trained: Path, tmp_path: Path, command: Command
) -> None:
    trained_copy = tmp_path / "moved"
    for name in ("config.yaml", "tokenizer", "checkpoints/best"):
        source = trained / name
        files = [source] if source.is_file() else list(source.iterdir())
        for file in files:
            to = trained_copy / name / file.name if source.is_dir() else trained_copy / name
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(file.read_bytes())
    assert command("translate", trained_copy, given=b"7 8 9").out == "7 8 9\n"
