"""Run directories of imported models."""

from __future__ import annotations

from torch import Tensor

from seqloom.files import sealed_text, write_atomically
from seqloom.outputs import new_output_folder
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.text.pair import TokenizerPair
from seqloom.training.checkpoint import TrainState


def write_imported(run: Run, config: Config, tokenizers: TokenizerPair, weights: dict[str, Tensor]) -> None:
    """Write the run directory; its only checkpoint records that the model was imported, not trained."""
    with new_output_folder(run.folder) as folder:
        draft = Run(folder)
        write_atomically(draft.config_file, sealed_text(config.to_yaml()))
        tokenizers.save(draft.tokenizer_folder)
        draft.checkpoints().save(weights, {}, TrainState(best_step=0, finished="imported"))
