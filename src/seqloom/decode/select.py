"""The engine of a translator: torch for everything, CTranslate2 where it is asked for or where it is exact."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from seqloom.decode.config import SearchConfig
from seqloom.decode.ensemble import Space
from seqloom.decode.translator import Capability, Translator
from seqloom.errors import SeqloomError, unknown
from seqloom.export.ctranslate2.cache import converted_model
from seqloom.export.ctranslate2.convert import (
    check_can_hold,
    is_installed,
    library,
    obstacle,
    position_rows,
)
from seqloom.export.ctranslate2.export import is_export, load_exported
from seqloom.export.ctranslate2.translator import CTranslate2Translator
from seqloom.models.transformer import TransformerSettings
from seqloom.run.build import choose_device
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.run.load import load as load_torch
from seqloom.run.load import load_decoder, load_ensemble, tokenizers_for_inference
from seqloom.system import UnwritableCache, checked_threads

ENGINES = ("auto", "torch", "ctranslate2")


class _LoadOptions(NamedTuple):
    """What the choice and the making of a translator depend on."""

    checkpoint: str | None
    device: str
    threads: int | None
    search: Mapping[str, Any]  # options that replace those of the run
    needs: AbstractSet[Capability]
    scores: bool  # of every token


def load(
    folder: str | Path,
    *,
    checkpoint: str | None = None,
    device: str = "auto",
    engine: str = "torch",
    threads: int | None = None,
) -> Translator:
    """Return the translator of a run directory or an exported folder: text in, text out.

    `engine` is torch, ctranslate2, or auto: CTranslate2 if its outputs equal those of torch, else torch. Only
    torch supports alignments, prefixes, required words, sampling and every search option.
    """
    return load_translator(folder, engine, checkpoint=checkpoint, device=device, threads=threads)


def load_translator(
    folder: str | Path,
    engine: str = "auto",
    *,
    ensemble: Sequence[str | Path] = (),
    space: str = "probability",
    checkpoint: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    search: Mapping[str, Any] | None = None,
    needs: AbstractSet[Capability] = frozenset(),
    scores: bool = True,
) -> Translator:
    """Return the translator of a run directory or an exported folder with these search options changed.

    With `auto`, CTranslate2 is used only if it supports what is needed and its outputs equal those of torch.
    The runs of an `ensemble` vote with the first one on every token, in probability or log `space`.
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    path, wish = Path(folder), _LoadOptions(checkpoint, device, threads, search or {}, needs, scores)
    if ensemble:
        translator = _voting([path, *ensemble], engine, space, wish)
    elif space != "probability":
        raise SeqloomError(
            f"--ensemble-space {space} is for several runs, and there is only one.",
            "name others with --ensemble RUN",
        )
    else:
        translator = _exported(path, engine, wish) if is_export(path) else _of_run(path, engine, wish)
    translator.check(translator.search, needs)
    return translator


def _voting(folders: Sequence[str | Path], engine: str, space: str, wish: _LoadOptions) -> Translator:
    if engine == "ctranslate2":
        raise SeqloomError("The engine ctranslate2 does not support ensembles.", "leave --engine out")
    if wish.threads is not None:
        torch.set_num_threads(checked_threads(wish.threads))
    return load_ensemble(
        folders,
        checkpoints=[wish.checkpoint, *[None] * (len(folders) - 1)],
        space=cast("Space", space),
        device=wish.device,
        search=wish.search,
    )


def _of_run(folder: Path, engine: str, wish: _LoadOptions) -> Translator:
    if engine == "ctranslate2":
        return _with_ctranslate2(folder, wish)
    if engine == "auto" and _fits(Run.open(folder).config(), wish):
        try:
            return _with_ctranslate2(folder, wish)
        except UnwritableCache as error:
            print(f"note: {error.message} Using torch instead of CTranslate2.", file=sys.stderr)
    if wish.threads is not None:
        torch.set_num_threads(checked_threads(wish.threads))
    return load_torch(
        folder, checkpoint=wish.checkpoint, device=wish.device, workers=wish.threads, search=wish.search
    )


def _with_ctranslate2(folder: Path, wish: _LoadOptions) -> Translator:
    run = Run.open(folder)
    config = run.config()
    library()
    check_can_hold(config.model)
    assert isinstance(config.model, TransformerSettings)
    return CTranslate2Translator(
        converted_model(run, config, wish.checkpoint),
        tokenizers_for_inference(config, run.tokenizers()),
        config.search,
        positions=position_rows(config.model),
        threads=wish.threads,
        device=choose_device(wish.device).type,
        scores=wish.scores,
        fallback=cache(lambda: load_decoder(folder, checkpoint=wish.checkpoint, device=wish.device)),
        length_ratio=run.length_ratio(),
    ).with_search(wish.search)


def _exported(folder: Path, engine: str, wish: _LoadOptions) -> Translator:
    if engine == "torch" or wish.checkpoint is not None:
        raise SeqloomError(
            f"{folder} holds one model in CTranslate2's format: it has no checkpoints and no other engine.",
            "use the engine ctranslate2 or auto, or give the run directory that it was exported from",
        )
    place = choose_device(wish.device).type
    exported = load_exported(folder, threads=wish.threads, device=place, scores=wish.scores)
    return exported.with_search(wish.search)


def _fits(config: Config, wish: _LoadOptions) -> bool:
    """Return whether CTranslate2 supports what is wanted, here and with the same outputs."""
    return (
        is_installed()
        and choose_device(wish.device).type == "cpu"
        and wish.needs <= CTranslate2Translator.CAPABILITIES
        and config.text.tokenizer != "frames"  # it embeds ids
        and obstacle(config.model) is None
        and not CTranslate2Translator.unsupported(
            SearchConfig.checked({**config.search.model_dump(), **wish.search}, "search")
        )
    )
