"""A run directory for a model that came from elsewhere."""

from __future__ import annotations

from torch import Tensor

from seqloom.config import Config
from seqloom.errors import SeqloomError
from seqloom.files import new_folder, sealed_text, write_atomically
from seqloom.run import Run
from seqloom.text.pair import TokenizerPair
from seqloom.training.checkpoint import TrainState


def write_imported(run: Run, config: Config, tokenizers: TokenizerPair, weights: dict[str, Tensor]) -> None:
    """Writes the run whole or not at all; its only checkpoint says that nothing was trained here."""
    try:
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(run.folder) as folder:
            draft = Run(folder)
            write_atomically(draft.config_file, sealed_text(config.to_yaml()))
            tokenizers.save(draft.tokenizer_folder)
            draft.checkpoints().save(weights, {}, TrainState(best_step=0, finished="imported"))
    except OSError as error:
        raise SeqloomError(
            f"The run directory {run.folder} cannot be written: {error.strerror}.", "choose another --out"
        ) from error
