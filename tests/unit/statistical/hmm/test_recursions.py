"""Tests of the recursions under underflow: exact in double and single precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seqloom.statistical.hmm.packed import pack
from seqloom.statistical.hmm.recursions import (
    Chain,
    TransitionLinks,
    backward,
    forward,
    log_product,
    posteriors,
    transition_counts,
    viterbi,
)
from seqloom.statistical.hmm.starts import chain_start


def reference_log_likelihood(chain: Chain, density: Tensor) -> Tensor:
    """Return log P(x) of one sequence, computed in the log domain."""
    alpha = chain.log_start + density[0]
    for row in density[1:]:
        alpha = (alpha.unsqueeze(1) + chain.log_transition).logsumexp(0) + row
    return alpha.logsumexp(0)


def extreme_densities() -> Tensor:
    """Return densities so different that all states but the best underflow, even reachable ones."""
    random = torch.Generator().manual_seed(1)
    return 3000 * torch.randn(12, 4, generator=random, dtype=torch.float64)


@pytest.mark.parametrize("topology", ["ergodic", "left-right"])
def test_underflowing_densities(topology: str) -> None:
    density = extreme_densities()
    chain = Chain.of(*chain_start(4, topology))  # type: ignore[arg-type]
    (packed,) = pack([density], dtype=torch.float64, device=density.device, max_frames=100, width=4)
    filtered = forward(chain, packed.frames, packed)
    assert float(filtered.log_likelihood) == pytest.approx(
        float(reference_log_likelihood(chain, density)), rel=1e-12
    )
    gamma = posteriors(filtered, backward(chain, packed.frames, packed))
    torch.testing.assert_close(gamma.sum(1), torch.ones(12, dtype=torch.float64))
    counts = transition_counts(chain, filtered, gamma, packed)
    torch.testing.assert_close(counts.sum(0), gamma[1:].sum(0))
    torch.testing.assert_close(counts.sum(1), gamma[:-1].sum(0))
    path, score = viterbi(chain, packed.frames, packed)
    assert score <= filtered.log_likelihood + 1e-6
    assert torch.equal(path, gamma.argmax(1))  # a single path has nearly all the probability


def test_single_precision_is_close_to_double() -> None:
    density = extreme_densities() / 100
    start, transition = chain_start(4, "left-right")
    totals = []
    for dtype in (torch.float32, torch.float64):
        (packed,) = pack([density], dtype=dtype, device=density.device, max_frames=100, width=4)
        chain = Chain.of(start.to(dtype), transition.to(dtype))
        totals.append(float(forward(chain, packed.frames, packed).log_likelihood))
    assert totals[0] == pytest.approx(totals[1], rel=1e-5)


def test_log_product_is_exact_under_underflow() -> None:
    links = TransitionLinks.of(torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64))
    x = torch.tensor([[0.0, -2000.0], [0.0, -torch.inf]], dtype=torch.float64)
    assert log_product(x, links).tolist() == [[0.0, -2000.0], [0.0, -torch.inf]]


def test_links_are_as_sparse_as_the_model() -> None:
    _, transition = chain_start(6, "left-right")
    assert TransitionLinks.of(transition).sources.shape == (6, 2)
    assert TransitionLinks.of(chain_start(6, "ergodic")[1]).sources.shape == (6, 6)
