"""Load translators, generators, fillers and scorers from a run directory."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args

import torch

from seqloom.decode.config import SearchConfig
from seqloom.decode.ensemble import Ensemble, EnsembleTranslator, Space
from seqloom.decode.generation import Generator
from seqloom.decode.mask_filling import Filler
from seqloom.decode.scoring import ForcedScorer, MaskedScorer
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.decode.translator import Translator
from seqloom.decode.vector_translator import VectorTranslator
from seqloom.errors import SeqloomError, unknown
from seqloom.models.base import SequenceModel, VectorModel
from seqloom.registry import Use, architecture
from seqloom.run.build import choose_device, load_fitted, load_model
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.statistical.base import FittedModel, HasScorer, HasTranslator
from seqloom.statistical.phrase.scorer import PhraseScorer
from seqloom.text.config import MASK
from seqloom.text.pair import TokenizerPair
from seqloom.types import StepModel

_VERBS: dict[Use, tuple[str, str]] = {  # what a model does; what it does not
    "translate": ("translates", "translate"),
    "generate": ("continues a text", "continue a text"),
    "fill": ("fills gaps in a text", "fill gaps"),
}


def use_of(config: Config) -> Use:
    """Return the command that runs of this configuration are made for."""
    task = architecture(config.model.name).task
    return task.text_use if config.data.is_text else task.use


def commands_for(run: Run) -> tuple[str, str]:
    """Return a command that applies the run, and one that evaluates it."""
    folder = (
        str(run.folder) if (file := run.imported()) is None else f"{run.folder} --import {shlex.quote(file)}"
    )
    commands: dict[Use, tuple[str, str]] = {
        "translate": (f"seqloom translate {folder} FILE", f"seqloom evaluate {folder} test.tsv"),
        "generate": (f'seqloom generate {folder} "A man"', f"seqloom score {folder} test.txt"),
        "fill": (f'seqloom fill {folder} "A man is {MASK} a guitar."', f"seqloom score {folder} test.txt"),
    }
    return commands[use_of(run.config())]


def _wrong_use(run: Run, use: Use) -> SeqloomError:
    config = run.config()
    (does, _), (_, other) = _VERBS[use_of(config)], _VERBS[use]
    return SeqloomError(
        f"The model of {run.folder} ({config.model.name}) {does}; it does not {other}.",
        f"e.g. {commands_for(run)[0]}",
    )


@dataclass(frozen=True)
class LoadedRun:
    """The model of a run, with its tokenizers and configuration."""

    run: Run
    model: SequenceModel | FittedModel  # on its device
    tokenizers: TokenizerPair
    config: Config
    device: torch.device

    def step_model(self) -> StepModel:
        """Return the model, which generates token by token."""
        assert not isinstance(self.model, HasTranslator), "it has its own search"
        return cast("StepModel", self.model)

    def sequence_model(self) -> SequenceModel:
        """Return the model, which has an output layer."""
        assert isinstance(self.model, SequenceModel)
        return self.model

    def translator(self, workers: int | None = None) -> Translator:
        """Return the translator that searches with the model, or the model's own one."""
        if isinstance(self.model, VectorModel):
            return VectorTranslator(self.model, self.tokenizers, self.config.search, self.device)
        if not isinstance(self.model, HasTranslator):
            return self.torch_translator()
        return self.model.translator(
            self.tokenizers, self.config.search, workers=workers, length_ratio=self.run.length_ratio()
        )

    def torch_translator(self) -> TorchTranslator:
        """Return the translator that searches with the model."""
        return TorchTranslator(
            self.step_model(),
            self.tokenizers,
            self.config.search,
            self.device,
            self.run.alignment_head(),
            cache(self.run.shortlist),
            self.run.length_ratio(),
        )


def load_run(folder: str | Path, *, checkpoint: str | None = None, device: str = "auto") -> LoadedRun:
    """Return the model of a run directory, whatever it is made for."""
    return _open(folder, None, checkpoint, device)


def _open(folder: str | Path, use: Use | None, checkpoint: str | None, device: str) -> LoadedRun:
    """Load the model of a run; raise if the run is made for another use than the given one."""
    run = Run.open(folder)
    config = run.config()
    if use is not None and use_of(config) != use:
        raise _wrong_use(run, use)
    chosen_device = choose_device(device)
    if architecture(config.model.name).fitted:
        fitted, tokenizers = load_fitted(run, checkpoint=checkpoint, device=chosen_device)
        return LoadedRun(run, fitted, tokenizers, config, chosen_device)
    model, tokenizers = load_model(run, checkpoint=checkpoint)
    return LoadedRun(
        run, model.to(chosen_device), tokenizers_for_inference(config, tokenizers), config, chosen_device
    )


def tokenizers_for_inference(config: Config, tokenizers: TokenizerPair) -> TokenizerPair:
    """Return the tokenizers for decoding: for a model that restores text, [MASK] is a gap, not text."""
    if config.data.noise.kind == "none" or use_of(config) != "translate":
        return tokenizers
    gapped = tokenizers.target.with_gaps()
    return TokenizerPair(gapped, gapped)  # plain text has one side, so both are the same


def load(
    folder: str | Path,
    *,
    checkpoint: str | None = None,
    device: str = "auto",
    workers: int | None = None,
    search: Mapping[str, Any] | None = None,
) -> Translator:
    """Return the translator of a run directory, which uses torch or the search of the model.

    `workers` is the number of processes for a model with its own search (default: chosen automatically).
    `search` holds search options that replace those of the run.
    """
    opened = _open(folder, "translate", checkpoint, device)
    return _checked(opened.translator(workers).with_search(search or {}))


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
            f"The model of {folder} has its own search: it does not generate token by token.",
            f"use seqloom translate {folder} FILE, e.g. with --nbest",
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
    """Return the translator of an ensemble, which averages the runs' predictions in probability or log space.

    Architectures and source vocabularies may differ; the target vocabulary must be the same.
    """
    if isinstance(folders, str | Path):
        raise SeqloomError(
            f"An ensemble needs a list of runs, got only {folders}.", "for one run use seqloom.load"
        )
    if not folders:
        raise SeqloomError("An ensemble needs at least one run.", "name one or more run directories")
    for name, values in (("checkpoints", checkpoints), ("weights", weights)):
        if values is not None and len(values) != len(folders):
            raise SeqloomError(f"{len(folders)} runs, but {len(values)} {name}.", "give one for each run")
    if weights and min(weights) <= 0:
        raise SeqloomError(
            f"A run has the weight {min(weights):g}.", "use a weight above 0, or leave the run out"
        )
    _check_space(space, len(folders))
    targets = [Run.open(folder).tokenizers().target.fingerprint for folder in folders]
    for folder, target in zip(folders, targets, strict=True):
        if target != targets[0]:
            raise SeqloomError(
                f"{folder} and {folders[0]} have different target vocabularies, so they cannot vote.",
                "train them on the same data with the same text.* options",
            )
    named = zip(folders, checkpoints or [None] * len(folders), strict=True)
    members = [load_decoder(folder, checkpoint=checkpoint, device=device) for folder, checkpoint in named]
    return EnsembleTranslator(members, weights=weights, space=space).with_search(search or {})


def _check_space(space: str, members: int) -> None:
    if space not in get_args(Space):
        raise unknown("space", space, get_args(Space))
    if space != "probability" and members == 1:
        raise SeqloomError(
            f"--ensemble-space {space} needs several runs, but there is only one.",
            "add runs with --ensemble RUN",
        )


def _combined(opened: LoadedRun, others: Sequence[str | Path], space: Space) -> StepModel:
    """Return the model of a run, or its ensemble with other runs that have the same tokenizers."""
    if not others:
        return opened.step_model()
    use, models = use_of(opened.config), [opened.step_model()]
    for folder in others:
        other = _open(folder, use, None, opened.device.type)
        _require_probabilities(other)
        if other.tokenizers.fingerprint != opened.tokenizers.fingerprint:
            raise SeqloomError(
                f"{folder} and {opened.run.folder} have different tokenizers, so they cannot vote.",
                "train them on the same data with the same text.* options",
            )
        models.append(other.step_model())
    return Ensemble(models, space=space)


def _require_probabilities(opened: LoadedRun) -> None:
    if isinstance(opened.model, HasTranslator | VectorModel):
        raise SeqloomError(
            f"The model of {opened.run.folder} ({opened.config.model.name}) gives scores that are not "
            "probabilities.",
            f"use another model here, or seqloom score {opened.run.folder} for its own scores",
        )


def load_generator(
    folder: str | Path,
    *,
    ensemble: Sequence[str | Path] = (),
    space: Space = "probability",
    checkpoint: str | None = None,
    device: str = "auto",
    search: Mapping[str, Any] | None = None,
) -> Generator:
    """Return the generator of a language model of plain text, or of its ensemble with other ones.

    `search` holds search options that replace those of the run.
    """
    _check_space(space, 1 + len(ensemble))
    opened = _open(folder, "generate", checkpoint, device)
    return Generator(
        _combined(opened, ensemble, space),
        opened.tokenizers.target,
        SearchConfig.checked({**opened.config.search.model_dump(), **(search or {})}, "search"),
        max_length=opened.config.data.max_length + 1,
        device=opened.device,
    )


def load_filler(folder: str | Path, *, checkpoint: str | None = None, device: str = "auto") -> Filler:
    """Return the filler of a masked language model."""
    opened = _open(folder, "fill", checkpoint, device)
    return Filler(opened.sequence_model(), opened.tokenizers.source, opened.config.search, opened.device)


def load_scorer(
    folder: str | Path,
    *,
    ensemble: Sequence[str | Path] = (),
    space: Space = "probability",
    checkpoint: str | None = None,
    device: str = "auto",
    use: Use | None = None,
) -> ForcedScorer | MaskedScorer:
    """Return the scorer of given targets or, for a masked language model, of the tokens of a text.

    The predictions of an `ensemble` are averaged with those of the run at each token, in probability or log
    `space`. Raise if `use` is given and the run is made for another use.
    """
    _check_space(space, 1 + len(ensemble))
    opened = _open(folder, use, checkpoint, device)
    _require_probabilities(opened)
    arguments = opened.tokenizers, opened.config.search, opened.device
    if use_of(opened.config) != "fill":
        return ForcedScorer(_combined(opened, ensemble, space), *arguments)
    if ensemble:
        raise SeqloomError(
            f"The model of {folder} ({opened.config.model.name}) fills gaps: it does not support ensembles.",
            "leave out --ensemble",
        )
    return MaskedScorer(opened.sequence_model(), *arguments)


def has_own_search(config: Config) -> bool:
    """Return whether the model has its own search, by scores that are not probabilities."""
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
    """Return the scorer that finds the best derivation of given targets, for a model with its own search."""
    opened = _open(folder, "translate", checkpoint, "cpu")
    if not isinstance(opened.model, HasScorer):
        raise SeqloomError(
            f"The model of {folder} ({opened.config.model.name}) does not support forced decoding.",
            "use seqloom evaluate to score its outputs",
        )
    scorer: PhraseScorer = opened.model.scorer(opened.tokenizers, workers=workers)
    return scorer
