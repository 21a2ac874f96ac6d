"""Worker model of the studio: documents of `seqloom.inspect` in place of translations."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence

from seqloom.errors import SeqloomError
from seqloom.inspect.viewed_run import ViewedRun
from seqloom.inspect.views import document, document_text
from seqloom.serve.jobs import Cancelled, DecodingTask, Item, ModelInfo, ModelSpec, Output


class ViewedModel:
    """Run of a specification with the engine `views`. The source of an item is JSON: a view and its fields."""

    def __init__(self, spec: ModelSpec) -> None:
        (folder,) = spec.folders
        self._viewed = ViewedRun(folder, checkpoint=spec.checkpoint, device=spec.device)
        if spec.threads:
            import torch

            torch.set_num_threads(spec.threads)

    def info(self) -> ModelInfo:
        """Return the description of the model, after loading it if it has a checkpoint."""
        run = self._viewed.run
        config = run.config()
        has_weights = any((run.folder / "checkpoints").glob("*/model.safetensors"))
        if has_weights:
            self._viewed.opened()
        return ModelInfo(
            kind="view",
            architecture=config.model.name,
            engine="views",
            checkpoint=self._viewed.checkpoint_name() if has_weights else "",
            created=int(run.config_file.stat().st_mtime),
            capabilities=(),
            beam=config.search.beam,
            longest=config.data.max_length,
            tokenizers=str(run.tokenizer_folder.resolve()),
            seconds_per_token=0.001,
        )

    def run(self, task: DecodingTask, items: Sequence[Item]) -> list[Output]:
        """Return the document of each item."""
        return [self._document(item) for item in items]

    def _document(self, item: Item) -> Output:
        request = json.loads(item.source)
        try:
            found = document(self._viewed, request["view"], request["fields"])
            return Output(engine="views", document=document_text(found))
        except Cancelled:
            raise
        except SeqloomError as error:
            return Output(error=error.message, hint=error.hint)
        except Exception as error:
            traceback.print_exc()
            return Output(error=f"{type(error).__name__} in the view.", is_internal=True)

    def count_tokens(self, text: str) -> int:
        """Return 0: documents have no hypotheses."""
        return 0

    def text_so_far(self, ids: list[int]) -> tuple[str, list[str]]:
        """Return nothing: a document is sent when it is complete."""
        return "", []
