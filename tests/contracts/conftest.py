"""Every registered architecture, in two shapes and with both kinds of vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from seqloom.data.batching import collate_ids
from seqloom.registry import Architecture, architectures
from seqloom.types import Batch, Vocabularies

# Sizes that no preset has, to catch what works by luck only; an architecture takes the fields that it knows.
ODD = {"width": 30, "layers": 3, "decoder_layers": 1, "heads": 5, "ffn": 13, "tie": "none"}
SHARED, SEPARATE = Vocabularies(23, 23, True), Vocabularies(29, 19, False)


@dataclass(frozen=True)
class Case:
    """An architecture and how to build it."""

    architecture: Architecture
    vocabularies: Vocabularies
    fields: dict[str, Any] = field(default_factory=dict)

    def build(self, seed: int = 1, **fields: Any) -> Any:
        """The model with fresh weights, in double precision so that equal means equal, not training."""
        torch.manual_seed(seed)
        entry = self.architecture
        values = {**entry.overrides, "name": entry.name, "size": "tiny", **self.fields, **fields}
        return entry.build(entry.settings.model_validate(values), self.vocabularies).double().eval()

    def batch(self, seed: int = 2) -> Batch:
        """Four pairs of differing lengths, the shortest source only an end of sentence away from nothing."""
        random = torch.Generator().manual_seed(seed)
        sources = [_ids(n, self.vocabularies.source, random) for n in (3, 7, 1, 5)]
        targets = [_ids(n, self.vocabularies.target, random) for n in (4, 0, 6, 2)]
        return collate_ids(sources, targets, range(len(sources)))


def _ids(count: int, vocabulary: int, random: torch.Generator) -> Sequence[int]:
    ids: list[int] = torch.randint(3, vocabulary, (count,), generator=random).tolist()
    return ids


def _cases() -> dict[str, Case]:
    found = {}
    for name, entry in architectures().items():
        odd = {key: value for key, value in ODD.items() if key in entry.settings.model_fields}
        found[f"{name}-shared"] = Case(entry, SHARED)
        found[f"{name}-separate"] = Case(entry, SEPARATE)
        found[f"{name}-odd"] = Case(entry, SEPARATE, odd)
    return found


CASES = _cases()


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    """Each architecture three times: with one vocabulary, with two, and with odd sizes."""
    return CASES[request.param]


@pytest.fixture(params=[name for name in CASES if name.endswith("-shared")])
def default_case(request: pytest.FixtureRequest) -> Case:
    """Each architecture once, for what takes longer."""
    return CASES[request.param]


@pytest.fixture
def model(case: Case) -> Any:
    return case.build()


@pytest.fixture
def batch(case: Case) -> Batch:
    return case.batch()
