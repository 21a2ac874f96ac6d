"""The split is the same in every run, and duplicates are in the same part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.split import fingerprint, held_out_share, is_held_out


@given(st.text(), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_only_adds_sources(source: str, a: float, b: float) -> None:
    assert is_held_out(source, min(a, b)) <= is_held_out(source, max(a, b))


def test_the_share_is_about_right_and_the_ends_are_exact() -> None:
    sources = [f"sentence {i}" for i in range(20_000)]
    # Binomial: 1,000 expected, standard deviation 31; the hash is fixed, so this is not flaky.
    assert 850 < sum(is_held_out(s, 0.05) for s in sources) < 1150
    assert not any(is_held_out(s, 0.0) for s in sources)
    assert all(is_held_out(s, 1.0) for s in sources)


def test_composition_and_white_space_are_ignored() -> None:
    assert fingerprint("u\u0308ber  alles ") == fingerprint("über alles")
    assert fingerprint("über alles") != fingerprint("Über alles")


def test_the_split_is_the_same_in_every_version() -> None:
    assert fingerprint("a line") == 0xE873E462364C8630


@pytest.mark.parametrize(
    "total, expected", [(1000, 0.05), (40_000, 0.05), (80_000, 0.025), (0, 0.0), (10, 0.05)]
)
def test_share_respects_the_maximum(total: int, expected: float) -> None:
    assert held_out_share(total, 0.05, 2000) == pytest.approx(expected)
