"""What a run directory is used by: a translator, a generator, a filler or a scorer, each from one folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch

from seqloom.decode.config import SearchConfig
from seqloom.decode.ensemble import EnsembleTranslator, Space
from seqloom.decode.generation import Generator
from seqloom.decode.mask_filling import Filler
from seqloom.decode.scoring import ForcedScorer, MaskedScorer
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.decode.translator import Translator
from seqloom.errors import SeqloomError, unknown
from seqloom.models.base import SequenceModel
from seqloom.registry import architecture
from seqloom.run.build import choose_device, load_fitted, load_model
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.statistical.base import FittedModel, HasScorer, HasTranslator
from seqloom.statistical.phrase.scorer import PhraseScorer
from seqloom.text.config import MASK
from seqloom.text.pair import TokenizerPair
from seqloom.types import StepModel

Use = Literal["translate", "generate", "fill"]
_DOES: dict[Use, tuple[str, str]] = {
    "translate": ("translates", "translate"),
    "generate": ("continues a text", "continue a text"),
    "fill": ("fills gaps in a text", "fill gaps"),
}


def use_of(config: Config) -> Use:
    """The command that a run of that configuration is made for."""
    task = architecture(config.model.name).task
    if task == "fill":
        return "fill"
    return "generate" if task == "continue" and config.data.is_text else "translate"


def commands_for(run: Run) -> tuple[str, str]:
    """Return a command that shows what the run can do, and one that measures it."""
    folder = (
        str(run.folder) if (file := run.imported()) is None else f"{run.folder} --import {shlex.quote(file)}"
    )
    commands: dict[Use, tuple[str, str]] = {
        "translate": (f"seqloom translate {folder} FILE", f"seqloom evaluate {folder} test.tsv"),
        "generate": (f'seqloom generate {folder} "A man"', f"seqloom score {folder} test.txt"),
        "fill": (f'seqloom fill {folder} "A man is {MASK} a guitar."', f"seqloom score {folder} test.txt"),
    }
    return commands[use_of(run.config())]


def _other_use(run: Run, wanted: Use) -> SeqloomError:
    config = run.config()
    (does, _), (_, other) = _DOES[use_of(config)], _DOES[wanted]
    return SeqloomError(
        f"The model of {run.folder} ({config.model.name}) {does}; it does not {other}.",
        f"e.g. {commands_for(run)[0]}",
    )


@dataclass(frozen=True)
class LoadedRun:
    """All that is needed to use a run."""

    run: Run
    model: SequenceModel | FittedModel  # on its device
    tokenizers: TokenizerPair
    config: Config
    device: torch.device

    def step_model(self) -> StepModel:
        """Return the model, which generates token by token."""
        assert not isinstance(self.model, HasTranslator), "it has a search of its own"
        return cast("StepModel", self.model)

    def sequence_model(self) -> SequenceModel:
        """Return the model, which has an output layer."""
        assert isinstance(self.model, SequenceModel)
        return self.model


def _open(folder: str | Path, wanted: Use | None, checkpoint: str | None, device: str) -> LoadedRun:
    """The model of a run that is made for the wanted use; any run if none is named."""
    run = Run.open(folder)
    config = run.config()
    if wanted is not None and use_of(config) != wanted:
        raise _other_use(run, wanted)
    place = choose_device(device)
    if architecture(config.model.name).fitted:
        fitted, tokenizers = load_fitted(run, checkpoint=checkpoint, device=place)
        return LoadedRun(run, fitted, tokenizers, config, place)
    model, tokenizers = load_model(run, checkpoint=checkpoint)
    return LoadedRun(run, model.to(place), tokenizers_for_inference(config, tokenizers), config, place)


def tokenizers_for_inference(config: Config, tokenizers: TokenizerPair) -> TokenizerPair:
    """Return the tokenizers for using a run: for a model that restores texts, [MASK] is a gap, not text."""
    if config.data.noise.kind == "none" or use_of(config) != "translate":
        return tokenizers
    gapped = tokenizers.target.with_gaps()
    return TokenizerPair(gapped, gapped)  # the source's is the same: texts have one side


def load(
    folder: str | Path,
    *,
    checkpoint: str | None = None,
    device: str = "auto",
    workers: int | None = None,
    search: Mapping[str, Any] | None = None,
) -> Translator:
    """Return the translator of a run directory, by torch or by the model's own search: text in, text out.

    `workers` is the number of processes of a model with a search of its own (default: chosen automatically).
    `search` holds search options that replace those of the run.
    """
    opened = _open(folder, "translate", checkpoint, device)
    model, run = opened.model, opened.run
    if isinstance(model, HasTranslator):
        own = model.translator(
            opened.tokenizers, opened.config.search, workers=workers, length_ratio=run.length_ratio()
        )
        return _checked(own.with_search(search or {}))
    translator = TorchTranslator(
        opened.step_model(),
        opened.tokenizers,
        opened.config.search,
        opened.device,
        run.alignment_head(),
        cache(run.shortlist),
        run.length_ratio(),
    )
    return _checked(translator.with_search(search or {}))


def _checked(translator: Translator) -> Translator:
    """Return the translator, unless it would ignore one of its search options."""
    translator.check(translator.search)
    return translator


def load_decoder(
    folder: str | Path,
    *,
    checkpoint: str | None = None,
    device: str = "auto",
    search: Mapping[str, Any] | None = None,
) -> TorchTranslator:
    """Return the translator of a run whose model generates token by token."""
    found = load(folder, checkpoint=checkpoint, device=device, search=search)
    if not isinstance(found, TorchTranslator):
        raise SeqloomError(
            f"The model of {folder} has a search of its own: it does not generate token by token.",
            f"seqloom translate {folder} FILE works, also with --nbest",
        )
    return found


def load_ensemble(
    folders: Sequence[str | Path],
    *,
    checkpoints: Sequence[str | None] | None = None,
    weights: Sequence[float] | None = None,
    space: Space = "probability",
    device: str = "auto",
    search: Mapping[str, Any] | None = None,
) -> EnsembleTranslator:
    """Return the translator of several runs that vote on every token, in probability or log space.

    Their architectures and source vocabularies may differ; the target vocabulary has to be the same.
    """
    if isinstance(folders, str | Path):
        raise SeqloomError(
            f"An ensemble needs a list of runs, got only {folders}.", "for one run use seqloom.load"
        )
    if not folders:
        raise SeqloomError("An ensemble of no runs cannot translate.", "name one or more run directories")
    for what, given in (("checkpoints", checkpoints), ("weights", weights)):
        if given is not None and len(given) != len(folders):
            raise SeqloomError(f"{len(folders)} runs have {len(given)} {what}.", "give one for each run")
    if weights and min(weights) <= 0:
        raise SeqloomError(f"A run has the weight {min(weights):g}.", "leave the run out, or weigh it above 0")
    if space not in get_args(Space):
        raise unknown("space", space, get_args(Space))
    targets = [Run.open(folder).tokenizers().target.fingerprint for folder in folders]
    for folder, target in zip(folders, targets, strict=True):
        if target != targets[0]:
            raise SeqloomError(
                f"{folder} and {folders[0]} have different target vocabularies: they cannot vote on a token.",
                "train them on the same data with the same text.* options",
            )
    named = zip(folders, checkpoints or [None] * len(folders), strict=True)
    members = [load_decoder(folder, checkpoint=checkpoint, device=device) for folder, checkpoint in named]
    return EnsembleTranslator(members, weights=weights, space=space).with_search(search or {})


def load_generator(
    folder: str | Path,
    *,
    checkpoint: str | None = None,
    device: str = "auto",
    search: Mapping[str, Any] | None = None,
) -> Generator:
    """Return what continues a text, by a language model of plain text.

    `search` holds search options that replace those of the run.
    """
    opened = _open(folder, "generate", checkpoint, device)
    longest = opened.config.data.max_length + 1
    return Generator(
        opened.step_model(),
        opened.tokenizers.target,
        SearchConfig.checked({**opened.config.search.model_dump(), **(search or {})}, "search"),
        max_length=longest,
        device=opened.device,
    )


def load_filler(folder: str | Path, *, checkpoint: str | None = None, device: str = "auto") -> Filler:
    """What fills the gaps of a text, by a masked language model."""
    opened = _open(folder, "fill", checkpoint, device)
    return Filler(opened.sequence_model(), opened.tokenizers.source, opened.config.search, opened.device)


def load_scorer(
    folder: str | Path, *, checkpoint: str | None = None, device: str = "auto", use: Use | None = None
) -> ForcedScorer | MaskedScorer:
    """What tells how probable given targets are, or by a masked language model the tokens of a text.

    A run that is not made for the given use, if one is given, is an error.
    """
    opened = _open(folder, use, checkpoint, device)
    if isinstance(opened.model, HasTranslator):
        raise SeqloomError(
            f"The model of {folder} ({opened.config.model.name}) ranks answers, it has no probabilities.",
            f"take another model here; seqloom score {folder} tells its own scores",
        )
    given = opened.tokenizers, opened.config.search, opened.device
    if use_of(opened.config) == "fill":
        return MaskedScorer(opened.sequence_model(), *given)
    return ForcedScorer(opened.step_model(), *given)


def has_own_search(config: Config) -> bool:
    """Return whether the model has a search of its own, by scores that are not probabilities."""
    return _own_search(config) is not None


def _own_search(config: Config) -> type[HasTranslator] | None:
    build = architecture(config.model.name).build
    return build if isinstance(build, type) and issubclass(build, HasTranslator) else None


def check_search_options(config: Config) -> None:
    """Raise if the model would ignore one of the search options of a new run."""
    own = _own_search(config)
    for name in own.unsupported_options(config.search) if own else ():
        raise SeqloomError(
            f"The model {config.model.name} does not support search.{name}={getattr(config.search, name)}.",
            "leave the option out, or choose a neural model",
        )


def load_derivations(
    folder: str | Path, *, checkpoint: str | None = None, workers: int | None = None
) -> PhraseScorer:
    """What finds the best derivation of given targets, by a model with a search of its own."""
    opened = _open(folder, "translate", checkpoint, "cpu")
    if not isinstance(opened.model, HasScorer):
        raise SeqloomError(
            f"The model of {folder} ({opened.config.model.name}) cannot be made to say a given target.",
            "seqloom evaluate measures its answers",
        )
    scorer: PhraseScorer = opened.model.scorer(opened.tokenizers, workers=workers)
    return scorer
