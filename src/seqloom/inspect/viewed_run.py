"""A run that views look into: its models are loaded when a view needs them first, and again if they change."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from seqloom.decode.torch_translator import TorchTranslator
from seqloom.decode.translator import Translator
from seqloom.errors import SeqloomError
from seqloom.run.directory import Run
from seqloom.run.load import LoadedRun, load_run, use_of

_KEPT = 3  # models of a run, for comparing its checkpoints
_LONGEST = 1024  # source or target tokens


class ViewedRun:
    """A run directory with its models by checkpoint."""

    def __init__(self, folder: str | Path, *, checkpoint: str | None = None, device: str = "auto") -> None:
        self.run = Run.open(folder)
        self.checkpoint, self.device = checkpoint, device
        self._models: OrderedDict[tuple[str, int], LoadedRun] = OrderedDict()

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.run.folder.resolve().name

    def opened(self, checkpoint: str | None = None) -> LoadedRun:
        """Return the model of a checkpoint; by default of the one that was chosen, or the best."""
        if not self.run.config_file.is_file():
            raise SeqloomError(f"The run {self.name} no longer exists.", "restore the folder, or restart")
        weights = self.run.weights(checkpoint or self.checkpoint).resolve()
        key = weights.parent.name, weights.stat().st_mtime_ns
        if key not in self._models:
            self._models[key] = load_run(
                self.run.folder, checkpoint=checkpoint or self.checkpoint, device=self.device
            )
            while len(self._models) > _KEPT:
                self._models.popitem(last=False)
        self._models.move_to_end(key)
        return self._models[key]

    def checkpoint_name(self) -> str:
        """Return the name of the checkpoint in use, e.g. step-300."""
        return self.run.weights(self.checkpoint).resolve().parent.name

    def translator(self, checkpoint: str | None = None) -> Translator:
        """Return the translator of a checkpoint; raise if the model does not translate."""
        opened = self.opened(checkpoint)
        if use_of(opened.config) != "translate":
            raise SeqloomError(
                f"The model of {self.name} ({opened.config.model.name}) does not translate.",
                "choose another view, or a run that translates",
            )
        return opened.translator(workers=1)

    def torch_translator(self, checkpoint: str | None = None) -> TorchTranslator:
        """Return the translator of a model that generates token by token."""
        found = self.translator(checkpoint)
        if not isinstance(found, TorchTranslator):
            raise SeqloomError(
                f"The model of {self.name} has its own search: it does not generate token by token.",
                "use the view of its stacks",
            )
        return found


def check_length(translator: Translator, text: str) -> None:
    """Raise if a text is too long to be shown."""
    if isinstance(translator, TorchTranslator) and not translator.tokenizers.frames:
        tokens = len(translator.tokenizers.source.encode(text))
        if tokens > _LONGEST:
            raise SeqloomError(
                f"The text has {tokens:,} tokens; views show at most {_LONGEST:,}.", "use a shorter text"
            )
