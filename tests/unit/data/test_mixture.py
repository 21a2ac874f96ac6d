"""Windows of mixtures: proportional to the weights, contiguous, and restorable from any position."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.mixture import Mixture, by_temperature, passes

SIZES = st.lists(st.integers(1, 300), min_size=1, max_size=4)


@st.composite
def mixtures(draw: st.DrawFn) -> Mixture:
    sizes = draw(SIZES)
    weights = draw(st.lists(st.floats(0.01, 10), min_size=len(sizes), max_size=len(sizes)))
    return Mixture(sizes, weights, window=draw(st.integers(1, 120)))


@given(mixture=mixtures(), epoch=st.integers(0, 3))
def test_windows_are_contiguous_and_make_up_an_epoch(mixture: Mixture, epoch: int) -> None:
    windows = [mixture.window(epoch, number) for number in range(mixture.windows)]
    for corpus, quota in enumerate(mixture.quotas):
        own = [window[corpus] for window in windows]
        assert (own[0].start, own[-1].stop) == (epoch * quota, (epoch + 1) * quota)
        assert all(one.stop == two.start for one, two in pairwise(own))
    starts = [mixture.start(number) for number in range(mixture.windows + 1)]
    sizes = [sum(map(len, window)) for window in windows]
    assert starts == [sum(sizes[:number]) for number in range(len(starts))]
    assert starts[-1] == mixture.pairs


@given(mixture=mixtures(), share=st.floats(0, 1))
def test_a_position_is_in_its_window(mixture: Mixture, share: float) -> None:
    place = round(share * mixture.pairs)
    number = mixture.window_of(place)
    assert mixture.start(number) <= place
    assert number == mixture.windows or place < mixture.start(number + 1)


def test_quotas_are_proportional_to_the_weights() -> None:
    mixture = Mixture([1000, 100, 50], [1, 3, 1], window=115)
    assert mixture.quotas == [230, 690, 230]
    assert [len(places) for places in mixture.window(0, 0)] == [23, 69, 23]
    assert mixture.windows == 10


def test_the_smallest_weight_gets_at_least_one_pair() -> None:
    assert Mixture([10, 10], [1, 1e-9], window=5).quotas == [20, 1]


@given(first=st.integers(0, 50), count=st.integers(0, 50), size=st.integers(1, 20))
def test_passes_cover_every_position_once(first: int, count: int, size: int) -> None:
    places = range(first, first + count)
    found = [number * size + place for number, part in passes(places, size) for place in part]
    assert found == list(places)


def test_temperature_increases_the_weight_of_small_corpora() -> None:
    assert by_temperature([100, 1], 1) == [100, 1]
    assert by_temperature([100, 1], 2) == pytest.approx([10, 1])
    assert by_temperature([100, 1], 1e9) == pytest.approx([1, 1])
