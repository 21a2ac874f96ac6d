"""`seqloom data clean`: what it keeps, reports, prints and refuses."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from support.golden import golden_run

Command = Callable[..., Any]

WORDS = """
the=der a=ein man=mann woman=frau dog=hund cat=katze car=auto sees=sieht hears=hört likes=mag big=groß
small=klein red=rot old=alt young=jung house=haus tree=baum street=straße
"""
GERMAN = dict(word.split("=") for word in WORDS.split())


def translation(source: str) -> str:
    return " ".join(GERMAN[word] for word in source.split())


def make_pairs(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Different sentences and their translations, word by word."""
    random = Random(seed)
    texts = (" ".join(random.choices(list(GERMAN), k=random.randint(5, 9))) for _ in range(2 * count))
    return [(source, translation(source)) for source in list(dict.fromkeys(texts))[:count]]


def write(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def read_report(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture
def spoiled(tmp_path: Path) -> Path:
    """1,200 pairs, of which seven lines are bad, each for another reason."""
    pairs = make_pairs(1200)
    text = [f"{source}\t{target}" for source, target in pairs]
    wrong = make_pairs(1, seed=99)[0][1]
    text[9:9] = [
        text[0],  # 10
        text[1].upper(),  # 11
        f"{pairs[100][0]}\t" + "der " * 60,  # 12
        f"{pairs[200][0]} Это\tЭто по русски и это неправильно",  # 13
        f"cat tree street old hears\t{wrong}",  # 14
        "the dog\t ",  # 15
        "only one column",  # 16
    ]
    path = tmp_path / "in.tsv"
    path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return path


REASONS = {
    10: "duplicate",
    11: "near-duplicate",
    12: "length-ratio",
    13: "script",
    14: "alignment",
    15: "empty",
    16: "malformed",
}


def test_bad_lines_are_dropped_and_listed(spoiled: Path, tmp_path: Path, command: Command) -> None:
    done = command("data", "clean", spoiled, "--out", tmp_path / "out.tsv", "--threads", 1)
    assert done.code == 0, done.err
    lines = spoiled.read_text(encoding="utf-8").split("\n")[:-1]
    kept = [line for number, line in enumerate(lines, 1) if number not in REASONS]
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in kept)
    rows = read_report(tmp_path / "out.tsv.dropped.tsv")
    assert {int(row["line"]): row["rule"] for row in rows} == REASONS
    assert [int(row["line"]) for row in rows] == sorted(REASONS)
    assert all(row["reason"] and row["file"] == str(spoiled) for row in rows)
    scored = {"length-ratio", "script", "alignment"}
    assert {row["rule"] for row in rows if row["score"]} == scored
    assert rows[0]["source"] == lines[0].split("\t")[0]
    assert "1,200" in done.out and "of 1,207 lines" in done.out and "alignment" in done.out


def test_most_misaligned_lines_are_found_and_few_good_ones_lost(tmp_path: Path, command: Command) -> None:
    pairs = make_pairs(2000)
    wrong = list(range(0, 2000, 20))
    targets = {place: pairs[other][1] for place, other in zip(wrong, [*wrong[1:], wrong[0]], strict=True)}
    mixed = [(source, targets.get(place, target)) for place, (source, target) in enumerate(pairs)]
    path = write(tmp_path / "in.tsv", mixed)
    assert command("data", "clean", path, "--out", tmp_path / "out.tsv").code == 0
    dropped = {int(row["line"]) - 1 for row in read_report(tmp_path / "out.tsv.dropped.tsv")}
    assert len(dropped & set(wrong)) >= 0.8 * len(wrong)
    assert len(dropped - set(wrong)) <= 0.02 * (len(pairs) - len(wrong))


def test_rules_are_switched_by_name(spoiled: Path, tmp_path: Path, command: Command) -> None:
    def rules(*options: object) -> set[str]:
        out = tmp_path / "out.tsv"
        done = command("data", "clean", spoiled, "--out", out, "--json", *options)
        assert done.code == 0, done.err
        value = json.loads(done.out)
        assert value["lines"] == 1207
        assert value["kept"] == len(out.read_text(encoding="utf-8").splitlines())
        assert value["dropped"] == len(read_report(Path(value["report"])))
        return {name for name, rule in value["rules"].items() if rule["dropped"]}

    always = {"malformed", "empty"}
    assert rules("--rules", "duplicate,script") == always | {"duplicate", "script"}
    assert rules("--rules", "") == always
    without = rules("--without", "alignment,near-duplicate")
    assert without == always | {"duplicate", "length-ratio", "script"}
    assert rules("--rules", "length-ratio", "--max-ratio", 30) == always
    assert rules("--rules", "default,identical", "--without", "duplicate") == {*REASONS.values()} - {
        "duplicate"
    }
    assert rules("--rules", "script", "--min-script", 0) == always


def test_json_has_examples_and_limits(spoiled: Path, tmp_path: Path, command: Command) -> None:
    value = json.loads(command("data", "clean", spoiled, "--out", tmp_path / "o.tsv", "--json").out)
    [example] = value["rules"]["script"]["examples"]
    assert example["line"] == 13 and example["reason"] == "target is Cyrillic" and example["score"] < 0.5
    assert "Latin" in value["rules"]["script"]["limit"]
    assert value["files"] == [str(tmp_path / "o.tsv")]
    assert value["warnings"] == []


def test_every_input_format_gives_the_same_pairs(tmp_path: Path, command: Command) -> None:
    pairs = [("a b", "c d"), ("e", 'f "g'), ("a b", "c d"), ("h", "i")]
    write(tmp_path / "in.tsv", pairs)
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "en", "de"), *((i, *pair) for i, pair in enumerate(pairs))])
    jsonl = "".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in pairs)
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(jsonl.encode()))
    columns = {"source": [a for a, _ in pairs], "target": [b for _, b in pairs]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "in.parquet")
    for side, name in enumerate(("in.a", "in.b")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    inputs = [
        [tmp_path / "in.tsv"],
        [tmp_path / "in.csv", "--source-column", "en", "--target-column", "de"],
        [tmp_path / "in.jsonl.gz"],
        [tmp_path / "in.parquet"],
        ["--source", tmp_path / "in.a", "--target", tmp_path / "in.b"],
    ]
    for given in inputs:
        done = command("data", "clean", *given, "--out", tmp_path / "out.tsv", "--rules", "duplicate")
        assert done.code == 0, done.err
        assert (tmp_path / "out.tsv").read_text() == 'a b\tc d\ne\tf "g\nh\ti\n'
    done = command(
        "data", "clean", "-", "--out", tmp_path / "out.tsv", "--rules", "duplicate", given="a\tb\na\tb\n"
    )
    assert done.code == 0, done.err
    assert (tmp_path / "out.tsv").read_text() == "a\tb\n"


def test_two_aligned_output_files_and_gzip(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path / "in.tsv", [("a", "b"), ("a", "b"), (" c  d ", "e\u2028f")])
    outputs = ("--out-source", tmp_path / "o.a", "--out-target", tmp_path / "o.b.gz")
    for _ in range(2):
        done = command("data", "clean", path, *outputs, "--rules", "duplicate")
        assert done.code == 0, done.err
    assert (tmp_path / "o.a").read_text() == "a\n c  d \n"
    packed = (tmp_path / "o.b.gz").read_bytes()
    assert gzip.decompress(packed).decode() == "b\ne\u2028f\n"
    command("data", "clean", path, *outputs, "--rules", "duplicate")
    assert (tmp_path / "o.b.gz").read_bytes() == packed
    assert len(read_report(tmp_path / "o.a.dropped.tsv")) == 1
    names = {"in.tsv", "o.a", "o.b.gz", "o.a.dropped.tsv"}
    assert {file.name for file in tmp_path.iterdir() if not file.name.endswith(".lock")} == names


def test_text_that_a_table_cannot_hold(tmp_path: Path, command: Command) -> None:
    pairs = [{"source": "a\tb", "target": "c"}, {"source": "d", "target": "e\nf"}]
    given = tmp_path / "in.jsonl"
    given.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    done = command("data", "clean", given, "--out", tmp_path / "out.tsv")
    assert done.code == 2 and "line 1 has tabs" in done.err and "--out FILE.jsonl" in done.err
    sides = ("--out-source", tmp_path / "o.a", "--out-target", tmp_path / "o.b")
    done = command("data", "clean", given, *sides)
    assert done.code == 2 and "line 2 has line ends" in done.err
    done = command("data", "clean", given, "--out", tmp_path / "out.jsonl", "--rules", "duplicate")
    assert done.code == 0, done.err
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == pairs
    assert not (tmp_path / "out.tsv").exists()


def test_the_report_escapes_what_would_break_its_lines(tmp_path: Path, command: Command) -> None:
    given = tmp_path / "in.jsonl"
    given.write_text('{"source": "a\\tb\\n", "target": "\\\\c"}\n' * 2)
    command("data", "clean", given, "--out", tmp_path / "out.jsonl", "--rules", "duplicate")
    [row] = read_report(tmp_path / "out.jsonl.dropped.tsv")
    assert (row["source"], row["target"]) == ("a\\tb\\n", "\\\\c")


def test_parts_share_what_they_have_seen(
    spoiled: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.cleaning.clean.PART", 500)
    with spoiled.open("a", encoding="utf-8") as file:
        file.write(spoiled.read_text(encoding="utf-8").split("\n")[0] + "\n")
    done = command("data", "clean", spoiled, "--out", tmp_path / "out.tsv", "--json", "--without", "alignment")
    value = json.loads(done.out)
    assert value["rules"]["duplicate"]["dropped"] == 2
    assert value["kept"] == 1201  # without the rule alignment, line 14 stays


def test_the_output_may_be_the_input(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path / "in.tsv", [("a", "b"), ("a", "b"), ("c", "d")])
    assert command("data", "clean", path, "--out", path, "--rules", "duplicate").code == 0
    assert path.read_text() == "a\tb\nc\td\n"


def test_a_run_scores_pairs(tmp_path: Path, command: Command) -> None:
    run = golden_run("transformer")
    pairs = [line.split("\t") for line in (run.parents[1] / "data" / "pairs.tsv").read_text().splitlines()]
    path = write(tmp_path / "in.tsv", [(source, target) for source, target in pairs])
    done = command(
        *("data", "clean", path, "--out", tmp_path / "out.tsv", "--json"),
        *("--rules", "model", "--model", run, "--min-model", 1.0, "--device", "cpu"),
    )
    assert done.code == 0, done.err
    value = json.loads(done.out)
    # At the median, about half of the pairs are below the limit.
    assert 0.3 < value["rules"]["model"]["dropped"] / value["lines"] < 0.6
    scores = [float(row["score"]) for row in read_report(tmp_path / "out.tsv.dropped.tsv")]
    assert len(set(scores)) > 5


def test_a_rule_that_drops_much_gives_a_warning(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path / "in.tsv", [("a", "b")] * 4)
    done = command("data", "clean", path, "--out", tmp_path / "out.tsv", "--rules", "duplicate")
    assert "duplicate drops 75% of the lines" in done.err


LANGUAGE = ("--rules", "language")
ERRORS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "no input": (("--out", "{}/o"), ("No file given",)),
    "no output": (("{}/in.tsv",), ("No output", "--out-source")),
    "two kinds of output": (("{}/in.tsv", "--out", "{}/o", "--out-source", "{}/p"), ("or too many",)),
    "one side": (("{}/in.tsv", "--out-source", "{}/p"), ("--out-target",)),
    "the same file twice": (("{}/in.tsv", "--out-source", "{}/p", "--out-target", "{}/p"), ("two files",)),
    "report is the output": (("{}/in.tsv", "--out", "{}/o", "--report", "{}/o"), ("--report",)),
    "standard output": (("{}/in.tsv", "--out", "-"), ("standard output",)),
    "parquet output": (("{}/in.tsv", "--out", "{}/o.parquet"), (".parquet", ".jsonl")),
    "missing folder": (("{}/in.tsv", "--out", "{}/no/o.tsv"), ("there is no folder",)),
    "missing file": (("{}/none.tsv", "--out", "{}/o"), ("none.tsv",)),
    "nothing to clean": (("{}/empty.tsv", "--out", "{}/o"), ("none of 2 lines",)),
    "unknown rule": (("{}/in.tsv", "--out", "{}/o", "--rules", "duplicates"), ("did you mean 'duplicate'",)),
    "unknown rule off": (("{}/in.tsv", "--out", "{}/o", "--without", "foo"), ("no rule called 'foo'",)),
    "limit of a rule that is off": (
        ("{}/in.tsv", "--out", "{}/o", "--rules", "duplicate", "--min-alignment", "0.2"),
        ("--min-alignment cannot be used", "the rule alignment is off"),
    ),
    "language that is off": (
        ("{}/in.tsv", "--out", "{}/o", "--without", "language", "--source-language", "en"),
        ("--source-language cannot be used",),
    ),
    "threads without alignment": (
        ("{}/in.tsv", "--out", "{}/o", "--without", "alignment", "--threads", "2"),
        ("--threads cannot be used",),
    ),
    "model without a run": (("{}/in.tsv", "--out", "{}/o", "--rules", "model"), ("--model RUN",)),
    "run without the rule": (
        ("{}/in.tsv", "--out", "{}/o", "--rules", "script", "--model", "x"),
        ("rule model",),
    ),
    "no such run": (("{}/in.tsv", "--out", "{}/o", "--model", "{}/norun"), ("norun",)),
    "ratio below 1": (("{}/in.tsv", "--out", "{}/o", "--max-ratio", "0.5"), ("--max-ratio is 0.5",)),
    "share above 1": (("{}/in.tsv", "--out", "{}/o", "--min-script", "2"), ("--min-script is 2",)),
    "not a number": (("{}/in.tsv", "--out", "{}/o", "--min-alignment", "nan"), ("--min-alignment is nan",)),
    "unclear language": (("{}/mixed.tsv", "--out", "{}/o", *LANGUAGE), ("language of the source side",)),
    "unknown language": (("{}/in.tsv", "--out", "{}/o", "--target-language", "deu"), ("no language", "'deu'")),
    "plain text": (("{}/in.tsv", "--out", "{}/o", "--format", "text"), ("no pairs to clean",)),
    "several references": (("{}/in.tsv", "--out", "{}/o", "--target-column", "2,3"), ("one target",)),
    "format of two files": (
        ("--source", "{}/in.tsv", "--target", "{}/in.tsv", "--format", "tsv", "--out", "{}/o"),
        ("--format cannot be used",),
    ),
    "trees": (("--source", "{}/a.conllu", "--target", "{}/in.tsv", "--out", "{}/o"), ("CoNLL-U",)),
    "standard input twice": (("--source", "-", "--target", "-", "--out", "{}/o"), ("only once",)),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str, tmp_path: Path, command: Command) -> None:
    write(tmp_path / "in.tsv", make_pairs(5))
    (tmp_path / "empty.tsv").write_text("\t\nx\n")
    (tmp_path / "mixed.tsv").write_text("the man is here\ta\nder mann ist hier\tb\n")
    (tmp_path / "a.conllu").write_text("")
    before = {file.name for file in tmp_path.iterdir()}
    arguments, fragments = ERRORS[case]
    done = command("data", "clean", *(word.format(tmp_path) for word in arguments))
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.count("error: ") == 1 and done.err.count("hint:  ") == 1
    for fragment in fragments:
        assert fragment in done.err
    assert {file.name for file in tmp_path.iterdir()} == before


def test_a_missing_language_package_is_an_error_with_a_hint(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    path = write(tmp_path / "in.tsv", make_pairs(5))
    done = command("data", "clean", path, "--out", tmp_path / "o.tsv", *LANGUAGE)
    assert done.code == 2 and "py3langid" in done.err and "seqloom[clean]" in done.err


def test_features_are_refused(tmp_path: Path, command: Command) -> None:
    (tmp_path / "in.tsv").write_text("a.npy\tone\nb.npy\ttwo\n")
    for name in ("a.npy", "b.npy"):
        (tmp_path / name).write_bytes(b"")
    done = command("data", "clean", tmp_path / "in.tsv", "--out", tmp_path / "o.tsv")
    assert done.code == 2 and "features" in done.err


def test_a_pipe_is_refused(tmp_path: Path, command: Command) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.tsv")
    done = command("data", "clean", tmp_path / "pipe.tsv", "--out", tmp_path / "o.tsv")
    assert done.code == 2 and "more than once" in done.err
