"""Sharded training against the same updates on full weights, in a process group of one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from seqloom.data.batching import collate_ids
from seqloom.distributed.ddp import DataParallel, data_parallel
from seqloom.distributed.fsdp import FSDP, refuse_shared_weights
from seqloom.distributed.process_group import ProcessGroup
from seqloom.errors import SeqloomError
from seqloom.models.transformer import Transformer, TransformerSettings
from seqloom.training import loss as losses
from seqloom.training.config import TrainConfig
from seqloom.training.optimizer import Updater
from seqloom.types import Vocabularies
from support.commands import run_python


class Network(nn.Module):
    """A shared module, a tied weight, a buffer, and a layer that the loss does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.source = self.target = nn.Embedding(7, 4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.spare = nn.Linear(2, 2)
        self.output = nn.Linear(4, 7)
        self.output.weight = self.source.weight
        self.register_buffer("scale", torch.ones(()))

    def forward(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.source(ids) + self.target(ids)
        for layer in self.layers:
            vectors = layer(vectors).tanh()
        scores: Tensor = self.output(vectors * self.scale)
        return scores


class LossModule(nn.Module):
    """The network and a loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        loss: Tensor = self.model(ids).square().sum()
        return loss


class Training:
    """A network, its kind of data parallelism, and its optimizer."""

    def __init__(self, parallel: DataParallel, weights: dict[str, Tensor] | None = None) -> None:
        torch.manual_seed(1)
        self.model, self.parallel = Network(), parallel
        self.loss_module = parallel.wrap(LossModule(self.model))
        if weights:
            self.model.load_state_dict(weights)
        parallel.load_weights(self.model, self.loss_module)
        self.updater = Updater(
            parallel.model(self.loss_module), TrainConfig(clip=0.1, weight_decay=0.1), parallel
        )

    def update(self) -> None:
        self.loss_module(torch.arange(6)).backward()
        self.updater.update(6, 0.01)

    def weights(self) -> dict[str, Tensor]:
        self.parallel.gather_weights(self.loss_module, self.model)
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}


@pytest.fixture
def fsdp() -> Iterator[FSDP]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield FSDP(ProcessGroup(), torch.device("cpu"))
    dist.destroy_process_group()


def test_sharded_updates_and_their_state_equal_unsharded_ones(fsdp: FSDP) -> None:
    whole, sharded = Training(DataParallel(ProcessGroup())), Training(fsdp)
    for training in (whole, sharded):
        training.update()
        training.update()
    _assert_equal(sharded.weights(), whole.weights())
    _assert_equal(sharded.updater.state(), whole.updater.state())


@pytest.mark.parametrize("saved_sharded", [False, True])
def test_a_sharded_run_resumes_from_either_kind_of_checkpoint(fsdp: FSDP, saved_sharded: bool) -> None:
    saved = Training(fsdp if saved_sharded else DataParallel(ProcessGroup()))
    saved.update()
    resumed = Training(fsdp, {**saved.weights(), "scale": torch.tensor(2.0)})
    resumed.updater.restore({name: tensor.clone() for name, tensor in saved.updater.state().items()})
    assert float(resumed.weights()["scale"]) == 2.0
    _assert_equal(resumed.updater.state(), saved.updater.state())  # none for the unused layer
    for training in (saved, resumed):
        training.parallel.model(training.loss_module).scale.fill_(2.0)  # type: ignore[operator, union-attr]
        training.update()
    _assert_equal(resumed.weights(), saved.weights())
    _assert_equal(resumed.updater.state(), saved.updater.state())


def test_the_sharded_gradient_of_two_passes_equals_the_unsharded_one(fsdp: FSDP) -> None:
    batch, gradients = collate_ids([[4, 5], [6]], [[5, 6, 7], [8]], range(2)), []
    for parallel in (DataParallel(ProcessGroup()), fsdp):
        torch.manual_seed(1)
        settings = TransformerSettings.model_validate({"size": "tiny", "tag_positions": False, "dropout": 0.3})
        model = Transformer(settings, Vocabularies(9, 9, shared=True, tags=(4,)))
        loss_module = parallel.wrap(losses.LossModule(model, 0.1, "float32", rdrop=5.0))
        parallel.load_weights(model, loss_module)
        torch.manual_seed(2)
        loss_module(batch).total.backward()
        trained = parallel.model(loss_module).named_parameters()
        gradients.append(
            {name: parallel.local(weight.grad) for name, weight in trained if weight.grad is not None}
        )
    assert gradients[0].keys() == gradients[1].keys()
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-6)


def _assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in found if not torch.equal(found[name], expected[name])] == []


def test_a_single_process_does_not_import_fsdp() -> None:
    code = "import sys, seqloom.run.train; print('torch.distributed.checkpoint' in sys.modules)"
    assert run_python(code) == "False\n"


def test_one_process_never_shards() -> None:
    assert type(data_parallel(ProcessGroup(), torch.device("cpu"), shard=True)) is DataParallel


@pytest.mark.parametrize("sharing", ["layer", "model"])
def test_weights_that_several_layers_share_are_refused(sharing: str) -> None:
    encoder = {"attention": "linformer", "sharing": sharing}
    settings = TransformerSettings.model_validate({"size": "tiny", "encoder": encoder})
    blocks = Transformer(settings, Vocabularies(11, 11, True)).encoder
    if sharing == "layer":
        refuse_shared_weights(blocks)
        return
    with pytest.raises(SeqloomError, match=r"train\.shard") as caught:
        refuse_shared_weights(blocks)
    assert "model.encoder.sharing=layer" in str(caught.value)
