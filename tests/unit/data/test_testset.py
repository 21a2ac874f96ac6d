"""Test sets: one or more references per source, and no skipped lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqloom.data.config import DataConfig
from seqloom.data.testset import read_testset
from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair

DATA = DataConfig()


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_table(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "s1\tt1\ns2\tt2\ns1\tt3\n")
    test = read_testset(DATA, [file])
    assert test.name == file
    assert test.sources == ["s1", "s2", "s1"]
    assert test.references == [["t1"], ["t2"], ["t3"]]


def test_several_tables_are_concatenated(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{n}.tsv", f"s{n}\tt{n}\n") for n in "ab"]
    test = read_testset(DATA, files)
    assert test.sources == ["sa", "sb"]
    assert test.name == " ".join(files)


def test_several_target_columns_are_several_references(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "s1\tx\tt1\tu1\ns2\tx\tt2\tu2\n")
    test = read_testset(DATA, [file], source_column="1", target_column="4,3")
    assert test.references == [["u1", "t1"], ["u2", "t2"]]


def test_columns_default_to_those_of_the_training_data(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "from,to,other\ns1,t1,u1\n")
    by_name = read_testset(DATA, [file], source_column="from", target_column="to,other")
    assert (by_name.sources, by_name.references) == (["s1"], [["t1", "u1"]])
    trained_so = DataConfig(source_column="from", target_column="other")
    assert read_testset(trained_so, [file]).references == [["u1"]]


def test_lines_with_the_same_source_are_grouped(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "s1\tt1\ns2\tt2\ns1\tt3\ns1\tt1\n")
    test = read_testset(DATA, [file], group_by_source=True)
    assert test.sources == ["s1", "s2"]
    assert test.references == [["t1", "t3"], ["t2"]]


def test_grouping_uses_all_target_columns(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "s\tt1\tu1\ns\tt2\tu1\n")
    test = read_testset(DATA, [file], target_column="2,3", group_by_source=True)
    assert test.references == [["t1", "u1", "t2"]]


def test_two_aligned_files_keep_empty_lines(tmp_path: Path) -> None:
    source, target = write(tmp_path / "s", "s1\n\ns3\n"), write(tmp_path / "t", "t1\nt2\n\n")
    test = read_testset(DATA, [], source=source, targets=[target])
    assert test.sources == ["s1", "", "s3"]
    assert test.references == [["t1"], ["t2"], [""]]


def test_several_target_files_are_several_references(tmp_path: Path) -> None:
    source = write(tmp_path / "s", "s1\ns2\n")
    targets = [write(tmp_path / name, f"{name}1\n{name}2\n") for name in "tuv"]
    test = read_testset(DATA, [], source=source, targets=targets)
    assert test.references == [["t1", "u1", "v1"], ["t2", "u2", "v2"]]
    assert read_testset(DATA, [], source=source, targets=targets, group_by_source=True) == test
    with pytest.raises(SeqloomError, match="Standard input"):
        read_testset(DATA, [], source="-", targets=targets)
    short = write(tmp_path / "short", "t1\n")
    with pytest.raises(SeqloomError, match=r"2 lines, but .*short has 1"):
        read_testset(DATA, [], source=source, targets=[targets[0], short])


def test_a_malformed_line_of_any_file_is_an_error(tmp_path: Path) -> None:
    source, target = write(tmp_path / "s", "s1\n"), write(tmp_path / "t", "t1\n")
    trees = write(tmp_path / "t.conllu", "1\ta\t_\t_\t_\t_\t7\t_\t_\t_\n\n")
    with pytest.raises(SeqloomError, match="line 1 cannot be evaluated"):
        read_testset(DATA, [], source=source, targets=[target, trees])


def test_a_malformed_line_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "s1\tt1\nonly\n")
    with pytest.raises(SeqloomError, match=r"a\.tsv, line 2 cannot be evaluated: too few columns"):
        read_testset(DATA, [file])


@pytest.mark.parametrize("given", [{}, {"source": "s"}, {"targets": ["t"]}, {"tables": ["a"], "source": "s"}])
def test_missing_test_data_is_an_error(given: dict[str, object]) -> None:
    tables = given.pop("tables", [])
    with pytest.raises(SeqloomError, match="No test data"):
        read_testset(DATA, tables, **given)  # type: ignore[arg-type]


def test_trees_are_read_with_their_sources(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "a b\tt1\t2 0\nc\tt2\t0\na b\tt3\t2 0\n")
    assert read_testset(DATA, [file], source_column="1", target_column="2").heads == [None, None, None]
    assert read_testset(DATA, [file], heads_column="3").heads == [(2, 0), (0,), (2, 0)]
    config = DataConfig(heads_column="3")
    grouped = read_testset(config, [file], group_by_source=True)
    assert (grouped.sources, grouped.heads) == (["a b", "c"], [(2, 0), (0,)])
    assert grouped.references == [["t1", "t3"], ["t2"]]


def test_a_catalogue_in_other_languages_is_an_error_that_names_them(tmp_path: Path) -> None:
    text = 'msgid ""\nmsgstr "Language: fr\\n"\n\nmsgid "a"\nmsgstr "b"\n'
    file = write(tmp_path / "a.po", text)
    with pytest.raises(SeqloomError, match=r"no pairs.*Languages of the files: \? to fr\."):
        read_testset(DATA, [file], languages=LanguagePair("en", "de"))
