"""Which engine translates for a run: torch for all, CTranslate2 where it is wanted, or where it is exact."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seqloom.building import choose_device
from seqloom.config import Config
from seqloom.decode.config import SearchConfig
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError, unknown
from seqloom.exchange.converted import converted_model
from seqloom.exchange.ctranslate2 import (
    check_can_hold,
    is_installed,
    library,
    obstacle,
    position_rows,
)
from seqloom.exchange.ctranslate2_engine import CTranslate2Translator, is_exact
from seqloom.exchange.ctranslate2_export import is_export, load_exported
from seqloom.loading import answering, load, load_decoder
from seqloom.machine import UnwritableCache, checked_threads
from seqloom.models.transformer import TransformerSettings
from seqloom.run import Run

ENGINES = ("auto", "torch", "ctranslate2")


class Wanted(NamedTuple):
    """What is asked of a translator, as far as the choice of its engine depends on it."""

    beam: int | None = None
    nbest: int | None = None
    alignment: bool = False
    prefixes: bool = False  # answers whose beginning is given
    required: bool = False  # answers that have to contain something
    scores: bool = True  # those of every token
    search: Mapping[str, Any] | None = None  # other options of the search

    def options(self, search: SearchConfig) -> SearchConfig:
        """A run's search with what is asked for."""
        given = {"beam": self.beam, "nbest": self.nbest, **(self.search or {})}
        chosen = {name: value for name, value in given.items() if value is not None}
        return SearchConfig.checked({**search.model_dump(), **chosen}, "search")


_ANYTHING = Wanted()


class Loaded(NamedTuple):
    """A translator and the name of its engine."""

    translator: (
        Any  # a TorchTranslator, a CTranslate2Translator, or what a model with a search of its own brings
    )
    engine: str  # or `own`


def load_translator(
    folder: str | Path,
    engine: str = "auto",
    *,
    checkpoint: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    wanted: Wanted = _ANYTHING,
) -> Loaded:
    """The translator of a run directory or of an exported folder.

    `auto` takes CTranslate2 only if it gives the answers that torch gives.
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    folder = Path(folder)
    if is_export(folder):
        return _exported(folder, engine, checkpoint, device, threads, wanted)
    if engine == "ctranslate2":
        return _with_ctranslate2(folder, checkpoint, device, threads, wanted)
    if engine == "auto" and _fits(Run.open(folder).config(), device, wanted):
        try:
            return _with_ctranslate2(folder, checkpoint, device, threads, wanted)
        except UnwritableCache as error:
            print(f"note: {error.message} Using torch instead of CTranslate2.", file=sys.stderr)
    return _with_torch(folder, checkpoint, device, threads, wanted)


def _with_torch(
    folder: Path, checkpoint: str | None, device: str, threads: int | None, wanted: Wanted
) -> Loaded:
    if threads is not None:
        torch.set_num_threads(checked_threads(threads))
    ours = load(folder, checkpoint=checkpoint, device=device, workers=threads)
    if not isinstance(ours, TorchTranslator):
        return Loaded(ours, "own")
    ours.search = wanted.options(ours.search)
    return Loaded(ours, "torch")


def _with_ctranslate2(
    folder: Path, checkpoint: str | None, device: str, threads: int | None, wanted: Wanted
) -> Loaded:
    run = Run.open(folder)
    config = run.config()
    library()
    check_can_hold(config.model)
    assert isinstance(config.model, TransformerSettings)
    translator = CTranslate2Translator(
        converted_model(run, config, checkpoint),
        answering(config, run.tokenizers()),
        wanted.options(config.search),
        positions=position_rows(config.model),
        threads=threads,
        device=choose_device(device).type,
        scores=wanted.scores,
        otherwise=cache(lambda: load_decoder(folder, checkpoint=checkpoint, device=device)),
    )
    return Loaded(translator, "ctranslate2")


def _exported(
    folder: Path, engine: str, checkpoint: str | None, device: str, threads: int | None, wanted: Wanted
) -> Loaded:
    if engine == "torch" or checkpoint is not None:
        raise SeqloomError(
            f"{folder} holds one model, in CTranslate2's format: it has no checkpoints and no other engine.",
            "give the run directory that it was exported from",
        )
    place = choose_device(device).type
    translator = load_exported(folder, threads=threads, device=place, scores=wanted.scores)
    translator.search = wanted.options(translator.search)
    return Loaded(translator, "ctranslate2")


def _fits(config: Config, device: str, wanted: Wanted) -> bool:
    """Whether CTranslate2 can do what is wanted, here and with the same answers."""
    return (
        is_installed()
        and choose_device(device).type == "cpu"
        and not wanted.alignment
        and not (wanted.prefixes or wanted.required)
        and config.text.tokenizer != "frames"  # it embeds ids
        and obstacle(config.model) is None
        and is_exact(wanted.options(config.search))
    )
