"""The roles of columns in tables without a header."""

from __future__ import annotations

import pytest

from seqloom.data.column_roles import ColumnRoles, column_roles, with_tags

LEMMAS = [["gehen", "ging", "V;PST;3;SG"], ["Haus", "Häuser", "N;NOM;PL"], ["gut", "besser", "ADJ;CMPR"]]


def test_a_column_of_feature_bundles_is_tags() -> None:
    assert column_roles(LEMMAS) == ColumnRoles(1, 2, 3)


def test_the_order_of_the_columns_is_free() -> None:
    assert column_roles([[tags, lemma, form] for lemma, form, tags in LEMMAS]) == ColumnRoles(2, 3, 1)


@pytest.mark.parametrize(
    "metadata",
    [["in_distribution"] * 3, [f"CC-BY 2.0 (France) Attribution: tatoeba.org #{n}" for n in range(3)]],
)
def test_constants_and_licences_are_metadata(metadata: list[str]) -> None:
    rows = [["Hi.", "Hallo!"], ["Run!", "Lauf!"], ["Who?", "Wer?"]]
    assert column_roles([[*row, cell] for row, cell in zip(rows, metadata, strict=True)]) == ColumnRoles(
        1, 2, None
    )


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [["a", "b"], ["c", "d"]],
        [["Hi.", "Hallo!", "Salut !"], ["Run!", "Lauf!", "Cours !"], ["Who?", "Wer?", "Qui ?"]],
        [["a", "b", "V;SG"], ["c", "d"]],
    ],
    ids=["no row", "two columns", "three languages", "ragged"],
)
def test_unclear_tables_have_no_roles(rows: list[list[str]]) -> None:
    assert column_roles(rows) is None


def test_tags_become_symbols_before_the_source() -> None:
    assert with_tags("gehen", "V;PST;3;SG") == "<V> <PST> <3> <SG> gehen"
    assert with_tags("gehen", "") == "gehen"
