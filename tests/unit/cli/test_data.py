"""`seqloom data`: output of the commands."""

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

from seqloom.data.datasets import DATASETS, Dataset, RemoteFile
from support.commands import run_command, run_python


def printed(*arguments: object, given: str = "") -> str:
    done = run_command("data", *arguments, given=given)
    assert done.code == 0, done.err
    return done.out


def sentence(*arguments: object) -> str:
    """Return the error of the command."""
    done = run_command("data", *arguments)
    assert done.code == 2, done.out
    return done.err


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"source [bold]{i}[/bold]\ttarget {i}\n" for i in range(20)) + "x\tx\nodd\n")
    return path


def test_check_as_table_and_as_json(table: Path) -> None:
    text = printed("check", table)
    assert "22 lines, 21 pairs" in " ".join(text.split())
    assert "identical" in text
    value = json.loads(printed("check", table, table, "--json"))
    assert value["corpora"][0]["findings"]["malformed"] == {"count": 1, "lines": [22]}
    assert value["overlaps"][0]["shared_pairs"] == 21


def test_check_gives_the_reasons_for_malformed_lines(tmp_path: Path) -> None:
    rows = ["a\tb", "c\td", "only", "", "e\tf", "alone"]
    (tmp_path / "a.tsv").write_text("".join(f"{row}\n" for row in rows))
    text = printed("check", tmp_path / "a.tsv")
    assert re.search(r"malformed +3 .*\n +too few columns +2 +3, 6 *\n +empty line +1 +4 ", text)
    [corpus] = json.loads(printed("check", tmp_path / "a.tsv", "--json"))["corpora"]
    assert corpus["malformed"] == {
        "too few columns": {"count": 2, "lines": [3, 6]},
        "empty line": {"count": 1, "lines": [4]},
    }


@pytest.mark.parametrize("content", ["", "only\nsources\n", " \tb\n"])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_check_exits_with_1_if_no_pair_is_left(
    tmp_path: Path, content: str, form: list[str], table: Path
) -> None:
    (tmp_path / "empty.tsv").write_text(content)
    done = run_command("data", "check", table, tmp_path / "empty.tsv", *form)
    assert done.code == 1
    assert "empty.tsv" in (done.out + done.err).replace("\n", "")


def test_check_prints_the_overlap_of_files(table: Path) -> None:
    assert "100.0%" in printed("check", table, table)


def test_check_reads_two_files_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("a\nb\n")
    (tmp_path / "a.de").write_text("A\nB\n")
    value = json.loads(printed("check", "--source", tmp_path / "a.en", "--target", tmp_path / "a.de", "--json"))
    assert value["corpora"][0]["pairs"] == 2
    assert json.loads(printed("check", "-", "--json", given="a\tb\n"))["corpora"][0]["pairs"] == 1


def test_columns_and_format_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_text("id,en,de\n1,one,eins\n")
    options = ("--format", "csv", "--source-column", "en", "--target-column", "de", "--json")
    assert json.loads(printed("show", tmp_path / "a.dat", *options)) == [
        {"line": 2, "source": "one", "target": "eins", "columns": {"id": "1"}}
    ]


def test_show_prints_texts_verbatim(table: Path) -> None:
    text = printed("show", table, "-n", 3)
    assert "[bold]2[/bold]" in text  # not taken for mark-up
    assert "[bold]3[/bold]" not in text


def test_show_escapes_control_characters(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"a\x1b[31mb\tc\x00\n")
    text = printed("show", tmp_path / "a.tsv")
    assert "a\\x1b[31mb" in text
    assert "c\\x00" in text


def test_show_random_pairs_depends_on_the_seed_alone(table: Path) -> None:
    def lines(seed: int) -> list[int]:
        return [
            row["line"]
            for row in json.loads(printed("show", table, "-n", 5, "--random", "--seed", seed, "--json"))
        ]

    assert lines(1) == lines(1) == sorted(lines(1))
    assert len({tuple(lines(seed)) for seed in range(5)}) > 1
    assert {line for seed in range(40) for line in lines(seed)} == set(range(1, 22))


def test_show_reports_dropped_lines(table: Path) -> None:
    done = run_command("data", "show", table, "-n", 100)
    assert "21 of 22 lines kept (1 too few columns)" in done.out + done.err


def test_list_as_table_and_as_json() -> None:
    assert "multi30k" in printed("list")
    [entry] = [e for e in json.loads(printed("list", "--json")) if e["name"] == "multi30k"]
    assert len(entry["files"]) == 9
    assert entry["licence"].startswith("research")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> bytes:
    content = b"toy"
    files = (RemoteFile("a.gz", len(content), hashlib.sha256(content).hexdigest()),)
    monkeypatch.setitem(DATASETS, "toy", Dataset("toy", "a toy", "public domain", "http://127.0.0.1:1/", files))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return content


def test_get_prints_the_paths(toy: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    path = tmp_path / "data" / "toy" / "a.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(toy)
    assert printed("get", "toy").split() == [str(path)]
    assert printed("get", "toy", "--to", path.parent).split() == [str(path)]


@pytest.mark.usefixtures("toy")
def test_get_without_a_network_gives_a_hint(tmp_path: Path) -> None:
    assert f"to {tmp_path}: a.gz" in sentence("get", "toy", "--to", tmp_path)


def test_make_writes_the_same_to_a_file_and_to_standard_output(tmp_path: Path) -> None:
    out = tmp_path / "new.tsv"
    printed("make", "reverse", "--count", 7, "--seed", 2, "--out", out)
    text = out.read_text()
    assert text == printed("make", "reverse", "--count", 7, "--seed", 2)
    rows = [line.split("\t") for line in text.splitlines()]
    assert [s[::-1] for s, _ in rows] == [t for _, t in rows]
    assert len(rows) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["new.tsv"]


def test_make_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "num2words", None)
    assert "num2words" in sentence("make", "numbers", "--out", tmp_path / "a.tsv")
    assert list(tmp_path.iterdir()) == []


def test_user_errors(table: Path, tmp_path: Path) -> None:
    assert "No file given" in sentence("check")
    assert "source and target must be given together" in sentence("check", "--source", table)
    assert "data.format in the options: input should be" in sentence("check", table, "--format", "xml")
    assert "More than one corpus" in sentence("show", table, "--source", table, "--target", table)
    assert "no task called 'revers'" in sentence("make", "revers")
    assert "no data set called 'x'" in sentence("get", "x")
    assert "cannot be written" in sentence("make", "copy", "--out", tmp_path / "none" / "a.tsv")
    assert "does not exist" in sentence("show", tmp_path / "none.tsv")


def test_the_commands_start_without_heavy_imports() -> None:
    program = (
        "import sys, seqloom.cli.data;"
        "print([m for m in ('torch', 'numpy', 'pydantic', 'pyarrow') if m in sys.modules])"
    )
    assert run_python(program) == "[]\n"
