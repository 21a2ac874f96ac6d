"""Normalisation of Unicode form, letter case and spaces; tags stay unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from seqloom.text.normalize import Normalizer


def normalizer(**options: Any) -> Normalizer:
    plain: dict[str, Any] = {"normalize": "none", "lowercase": False, "collapse_spaces": False, "tags": ()}
    return Normalizer(**{**plain, **options})


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("none", "e\u0301 ﬁ", "e\u0301 ﬁ"),
        ("nfc", "e\u0301 ﬁ", "\u00e9 ﬁ"),
        ("nfkc", "e\u0301 ﬁ", "\u00e9 fi"),
    ],
)
def test_unicode_form(form: str, text: str, expected: str) -> None:
    assert normalizer(normalize=form)(text) == expected


def test_lower_case() -> None:
    assert normalizer(lowercase=True)("Ärger IN Köln") == "ärger in köln"


def test_spaces_are_collapsed_or_kept() -> None:
    text = "  if x:\t\u00a0 return "
    assert normalizer(collapse_spaces=True)(text) == "if x: return"
    assert normalizer()(text) == text


def test_spaces_added_by_the_unicode_form_are_collapsed() -> None:
    assert normalizer(normalize="nfkc", collapse_spaces=True)("a \u00a8") == "a \u0308"


def test_tags_keep_their_case() -> None:
    lower = normalizer(lowercase=True, tags=("<ASV>", "<A.V>"))
    assert lower("<ASV> In The <ASV> <ASV>") == "<ASV> in the <ASV> <ASV>"
    assert lower("<ASV>In x<ASV> <AxV>") == "<asv>in x<asv> <axv>", "a tag must be a separate word"
