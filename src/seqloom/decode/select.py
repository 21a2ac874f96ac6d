"""Choice of the engine: torch by default, CTranslate2 if it is requested or gives the same outputs."""

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
    """Options for choosing and loading a translator."""

    checkpoint: str | None
    device: str
    threads: int | None
    search: Mapping[str, Any]  # options that override those of the run
    needs: AbstractSet[Capability]
    scores: bool  # compute the score of each token


def load(
    folder: str | Path,
    *,
    checkpoint: str | None = None,
    device: str = "auto",
    engine: str = "torch",
    threads: int | None = None,
) -> Translator:
    """Load the translator of a run directory or an exported folder: text in, text out.

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
    """Load the translator of a run directory or an exported folder, with these search options changed.

    With `auto`, CTranslate2 is used only if it supports all needs and its outputs equal those of torch. The
    runs of an `ensemble` are combined with the first one at each token, in probability or log `space`.
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    path, options = Path(folder), _LoadOptions(checkpoint, device, threads, search or {}, needs, scores)
    if ensemble:
        translator = _load_ensemble([path, *ensemble], engine, space, options)
    elif space != "probability":
        raise SeqloomError(
            f"--ensemble-space {space} needs several runs, but there is only one.",
            "add runs with --ensemble RUN",
        )
    else:
        translator = (
            _load_export(path, engine, options) if is_export(path) else _load_run(path, engine, options)
        )
    translator.check(translator.search, needs)
    return translator


def _load_ensemble(folders: Sequence[str | Path], engine: str, space: str, options: _LoadOptions) -> Translator:
    if engine == "ctranslate2":
        raise SeqloomError("The engine ctranslate2 does not support ensembles.", "leave --engine out")
    if options.threads is not None:
        torch.set_num_threads(checked_threads(options.threads))
    return load_ensemble(
        folders,
        checkpoints=[options.checkpoint, *[None] * (len(folders) - 1)],
        space=cast("Space", space),
        device=options.device,
        search=options.search,
    )


def _load_run(folder: Path, engine: str, options: _LoadOptions) -> Translator:
    if engine == "ctranslate2":
        return _load_with_ctranslate2(folder, options)
    if engine == "auto" and _ctranslate2_supports(Run.open(folder).config(), options):
        try:
            return _load_with_ctranslate2(folder, options)
        except UnwritableCache as error:
            print(f"note: {error.message} Using torch instead of CTranslate2.", file=sys.stderr)
    if options.threads is not None:
        torch.set_num_threads(checked_threads(options.threads))
    return load_torch(
        folder,
        checkpoint=options.checkpoint,
        device=options.device,
        workers=options.threads,
        search=options.search,
    )


def _load_with_ctranslate2(folder: Path, options: _LoadOptions) -> Translator:
    run = Run.open(folder)
    config = run.config()
    library()
    check_can_hold(config.model)
    assert isinstance(config.model, TransformerSettings)
    return CTranslate2Translator(
        converted_model(run, config, options.checkpoint),
        tokenizers_for_inference(config, run.tokenizers()),
        config.search,
        positions=position_rows(config.model),
        threads=options.threads,
        device=choose_device(options.device).type,
        scores=options.scores,
        fallback=cache(lambda: load_decoder(folder, checkpoint=options.checkpoint, device=options.device)),
        length_ratio=run.length_ratio(),
    ).with_search(options.search)


def _load_export(folder: Path, engine: str, options: _LoadOptions) -> Translator:
    if engine == "torch" or options.checkpoint is not None:
        raise SeqloomError(
            f"{folder} is a model exported to CTranslate2: it has no checkpoints and supports no other engine.",
            "use --engine ctranslate2 or auto, or give the run directory from which it was exported",
        )
    device = choose_device(options.device).type
    exported = load_exported(folder, threads=options.threads, device=device, scores=options.scores)
    return exported.with_search(options.search)


def _ctranslate2_supports(config: Config, options: _LoadOptions) -> bool:
    """Return whether CTranslate2 supports these options on this machine, with the same outputs as torch."""
    return (
        is_installed()
        and choose_device(options.device).type == "cpu"
        and options.needs <= CTranslate2Translator.CAPABILITIES
        and config.text.tokenizer != "frames"  # CTranslate2 embeds token ids
        and not config.text.writes_vectors
        and obstacle(config.model) is None
        and not CTranslate2Translator.unsupported(
            SearchConfig.checked({**config.search.model_dump(), **options.search}, "search")
        )
    )
