"""Contract of every architecture that is fitted by counting or EM."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from seqloom.registry import architectures
from seqloom.statistical.base import HasTranslator
from support.step_models import FITTED, OWN_SEARCH, batch_for, fitted


def test_every_fitted_architecture_is_decoded_token_by_token_or_has_its_own_search() -> None:
    for name in OWN_SEARCH:
        assert issubclass(architectures()[name].build, HasTranslator)  # type: ignore[arg-type]


def _built(name: str, **fields: Any) -> Any:
    entry = architectures()[name]
    settings = entry.settings.model_validate({"name": name, "size": "tiny", **fields})
    return entry.build(settings, fitted(name).vocabularies)


@pytest.mark.parametrize("name", FITTED)
def test_a_restored_model_gives_the_same_outputs(name: str) -> None:
    saved, restored, batch = fitted(name).model, _built(name), batch_for(name, [[4, 5, 6], [5]])
    restored.load_state_dict({key: tensor.clone() for key, tensor in saved.state_dict().items()})
    last = torch.ones(len(batch.source), dtype=torch.long)
    answers = [model.step(*model.start(batch), last).log_probs for model in (saved, restored)]
    assert torch.equal(*answers)


@pytest.mark.parametrize("name", FITTED)
def test_fitting_again_gives_the_same_model(name: str) -> None:
    first, again = (fit(name).model.state_dict() for fit in (fitted, fitted.__wrapped__))
    assert first.keys() == again.keys()
    assert all(torch.equal(first[key], again[key]) for key in first)


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("field", ["ordre", "learning_rate"])
def test_the_settings_reject_unknown_fields(name: str, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        _built(name, **{field: 3})
