from __future__ import annotations

import pytest

from seqloom.decode.config import SearchConfig


def test_nbest_above_beam_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"search\.nbest=6 exceeds search\.beam=5"):
        SearchConfig(nbest=6)


def test_the_maximum_length_depends_on_the_source() -> None:
    search = SearchConfig(max_length_factor=1.5, max_length_extra=4)
    assert [search.max_length(n) for n in (0, 1, 10)] == [4, 5, 19]
