"""Cache of models converted for CTranslate2: each model is converted once."""

from __future__ import annotations

import hashlib
from pathlib import Path

from seqloom.errors import SeqloomError
from seqloom.export.ctranslate2.convert import write_model
from seqloom.files import check_folder, new_folder, sha256, write_sums
from seqloom.run.build import load_model
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.system import make_cache_folder, only_cache_writer

_LAYOUT = 1  # version of the converted models; changing it converts every model again


def converted_model(run: Run, config: Config, checkpoint: str | None) -> Path:
    """Return the cache folder with the run's model in float32, converting the model if it is not cached."""
    weights = run.weights(checkpoint)
    identity = (_LAYOUT, sha256(weights), run.tokenizers().fingerprint, config.model.model_dump_json())
    key = hashlib.sha256(" ".join(map(str, identity)).encode()).hexdigest()
    folder = make_cache_folder("ctranslate2") / key
    if _is_valid(folder):
        return folder
    with only_cache_writer(folder):
        if not _is_valid(folder):  # another process may have written it in the meantime
            model, tokenizers = load_model(run, checkpoint=checkpoint)
            with new_folder(folder) as draft:
                write_model(draft, model, config.model, tokenizers)
                write_sums(draft)
    return folder


def _is_valid(folder: Path) -> bool:
    try:
        check_folder(folder)
    except SeqloomError:  # missing or damaged
        return False
    return True
