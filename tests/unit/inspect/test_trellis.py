"""Trellis of a text: its contents, the states that are drawn, and the figure."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.inspect.trellis import HiddenStates, shown_states
from seqloom.statistical.hmm.recursions import Chain
from seqloom.statistical.hmm.trellis import Trellis, trellis_of

START = torch.tensor([0.6, 0.3, 0.1]).double()
TRANSITION = torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.4, 0.1], [0.2, 0.2, 0.6]]).double()
DENSITY = torch.tensor([[0.7, 0.2, 0.001], [0.1, 0.5, 0.001], [0.6, 0.3, 0.001]]).double()
END = torch.tensor([0.1, 0.8, 0.1]).double()


def trellis() -> Trellis:
    chain = Chain.of(START, TRANSITION)
    return trellis_of(chain, DENSITY.log(), ("$a$", "incomprehensibly", "▁c"), ("N", "V", "$X"), END.log())


def test_posteriors_agree_with_an_enumeration_of_all_paths() -> None:
    shown, paths = trellis(), {}
    for path in product(range(3), repeat=3):
        value = float(START[path[0]] * DENSITY[0, path[0]] * END[path[2]])
        for t in (1, 2):
            value *= float(TRANSITION[path[t - 1], path[t]] * DENSITY[t, path[t]])
        paths[path] = value
    total = sum(paths.values())
    best = max(paths, key=lambda path: paths[path])
    assert shown.path == best
    assert math.exp(shown.log_prob) == pytest.approx(paths[best] / total)
    for t, i, j in product((0, 1), range(3), range(3)):
        share = sum(value for path, value in paths.items() if path[t : t + 2] == (i, j)) / total
        assert float(shown.transition_posteriors[t, i, j]) == pytest.approx(share)
    torch.testing.assert_close(shown.transition_posteriors.sum(1), shown.posteriors[1:])


def test_improbable_states_are_omitted() -> None:
    assert shown_states(trellis()) == [0, 1]
    assert shown_states(trellis(), most=1) == [0, 1]  # the path is always shown


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_figure(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    HiddenStates(trellis()).save(path)
    assert path.stat().st_size > 3000


def test_json() -> None:
    told = json.loads(json.dumps(HiddenStates(trellis()).to_dict()))
    assert told["path"] == ["N", "V", "V"] and len(told["posteriors"]) == 3


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"cannot be written as \.gif"):
        HiddenStates(trellis()).save(tmp_path / "a.gif")
