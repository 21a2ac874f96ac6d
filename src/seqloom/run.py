"""A run directory: tokenizer, config and weights in one place, all that translating needs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import nn

from seqloom.config import Config, from_tree, read_yaml
from seqloom.decode.ensemble import EnsembleTranslator, Space
from seqloom.decode.filling import Filler
from seqloom.decode.generation import Generator
from seqloom.decode.scoring import ForcedScorer, MaskedScorer
from seqloom.decode.shortlist import Shortlist
from seqloom.decode.translator import ModelTranslator
from seqloom.errors import SeqloomError, unknown
from seqloom.files import check_sealed_text, read_json, read_sealed
from seqloom.registry import architecture
from seqloom.statistical.counting import CountingModel, OwnSearch, SaysTargets
from seqloom.statistical.phrase.scorer import PhraseScorer
from seqloom.text.config import MASK
from seqloom.text.pair import TokenizerPair
from seqloom.training.checkpoint import (
    AVERAGE,
    BEST,
    MODEL,
    Checkpoints,
    check_sums,
    load_weights,
    read_tensors,
)
from seqloom.training.log import clipping, read_metrics
from seqloom.types import Head, Translator


@dataclass(frozen=True)
class Run:
    """The files of a run directory."""

    folder: Path

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """The run in that folder, or an error that says what is missing."""
        run = cls(Path(folder))
        if not run.folder.is_dir():
            raise SeqloomError(f"There is no run directory {folder}.", "seqloom train ... --out DIR makes one")
        if not run.config_file.is_file():
            raise SeqloomError(
                f"{folder} is not a run directory: it has no config.yaml.",
                "give the folder that --out named when training",
            )
        _check_whole(run.folder)
        return run

    @property
    def config_file(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def tokenizer_folder(self) -> Path:
        return self.folder / "tokenizer"

    @property
    def data_file(self) -> Path:
        return self.folder / "data.json"

    @property
    def initial_file(self) -> Path:
        """The weights that the run starts from, if not from random ones."""
        return self.folder / "initial.safetensors"

    def config(self) -> Config:
        check_sealed_text(self.config_file)
        return from_tree(read_yaml(self.config_file), where=str(self.config_file))

    def tokenizers(self) -> TokenizerPair:
        return TokenizerPair.load(self.tokenizer_folder)

    def checkpoints(self, keep: int = 3) -> Checkpoints:
        return Checkpoints(self.folder / "checkpoints", keep, tokenizers=self._tokenizer_sum())

    def _tokenizer_sum(self) -> str:
        """One checksum of the tokenizers, for theirs are in the JSON files; checkpoints carry it."""
        records = [read_json(file) for file in sorted(self.tokenizer_folder.glob("*.json"))]
        return hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()

    def weights(self, checkpoint: str | None = None) -> Path:
        """The weights file of a named checkpoint, by default the best one, else the newest."""
        folder = self.folder / "checkpoints"
        if checkpoint is not None:
            known = sorted(p.name for p in folder.glob("*") if (p / MODEL).is_file())
            if checkpoint not in known:  # a name, never a path
                raise SeqloomError(
                    f"{self.folder} has no checkpoint {checkpoint!r}.",
                    f"there is {', '.join(known) or 'none yet'}",
                )
            return folder / checkpoint / MODEL
        steps = self.checkpoints().steps()
        names = [BEST, *(f"step-{step}" for step in reversed(steps)), AVERAGE]
        for name in names:
            if (folder / name / MODEL).is_file():
                return folder / name / MODEL
        raise SeqloomError(
            f"{self.folder} has no checkpoint yet.", f"seqloom resume {self.folder} goes on training"
        )

    @property
    def alignment_file(self) -> Path:
        """Which head aligns words best, if it was found out."""
        return self.folder / "alignment.json"

    def alignment_head(self) -> Head | None:
        """The head whose attention is the alignment of an answer; None: the mean of all."""
        if not self.alignment_file.is_file():
            return None
        try:
            values = read_sealed(self.alignment_file)
            return Head(int(values["layer"]), int(values["head"]), bool(values["later"]))
        except (SeqloomError, KeyError, TypeError, ValueError) as error:
            raise SeqloomError(
                f"{self.alignment_file} does not name a head: it is damaged.",
                "remove it, or choose again by seqloom evaluate-alignment --keep",
            ) from error

    @property
    def shortlist_folder(self) -> Path:
        """The table of likely translations, if it was made."""
        return self.folder / "shortlist"

    def shortlist(self) -> Shortlist:
        """The table of likely translations of this run's tokens."""
        if not self.shortlist_folder.is_dir():
            raise SeqloomError(
                f"{self.folder} has no shortlist.",
                f"seqloom shortlist {self.folder} makes one; or leave out search.shortlist",
            )
        return Shortlist.load(self.shortlist_folder, self.tokenizers())

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        return read_metrics(self.folder / "metrics.jsonl")


def _check_whole(folder: Path) -> None:
    """Raises if a link in the run leads out of it, or if something in it is neither a file nor a folder.

    Whoever made the run could otherwise let us read, write or wait at any place of this machine.
    """
    root = os.path.realpath(folder)
    for place, folders, files in os.walk(folder):
        for path in (os.path.join(place, name) for name in (*folders, *files)):
            end = os.path.realpath(path)
            if os.path.commonpath((root, end)) != root:
                raise SeqloomError(
                    f"{path} is a link that leads out of the run directory.",
                    "copy what it points to, or make the run directory itself a link",
                )
            if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
                raise SeqloomError(
                    f"{path} is neither a file nor a folder.", "remove it from the run directory"
                )


def build_model(config: Config, tokenizers: TokenizerPair) -> nn.Module:
    """The model of a configuration that is trained by gradient, with weights drawn from the run's seed."""
    if architecture(config.model.name).counting:
        raise SeqloomError(
            f"The model {config.model.name} is counted, not trained by gradient: it has no layers and weights.",
            "this works with neural models; see `seqloom models`",
        )
    torch.manual_seed(config.train.seed)
    model: nn.Module = _build(config, tokenizers)
    return model


def build_counting(config: Config, tokenizers: TokenizerPair) -> CountingModel:
    """The model of a configuration that is fitted by counting, before it has seen anything."""
    model: CountingModel = _build(config, tokenizers)
    return model


def _build(config: Config, tokenizers: TokenizerPair) -> Any:
    try:
        return architecture(config.model.name).build(config.model, tokenizers.vocabularies)
    except (RuntimeError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else "out of memory"
        raise SeqloomError(
            f"The model {config.model.name} cannot be built: {reason}.", "make it smaller (model.*)"
        ) from error


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` takes an accelerator if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        if device.type == "meta":
            raise RuntimeError("it holds no values")
    except (RuntimeError, AssertionError) as error:
        raise SeqloomError(f"The device {name!r} cannot be used here.", "try device cpu or auto") from error
    return device


def load_model(run: Run, *, checkpoint: str | None = None) -> tuple[nn.Module, TokenizerPair]:
    """The trained model of a run, checked, and its tokenizers."""
    tokenizers = run.tokenizers()
    model = build_model(run.config(), tokenizers)
    load_weights(model, _checked_weights(run, checkpoint))
    return model.eval(), tokenizers


def load_counting(
    run: Run, *, checkpoint: str | None = None, device: torch.device | str = "cpu"
) -> tuple[CountingModel, TokenizerPair]:
    """The fitted model of a run, checked, and its tokenizers."""
    tokenizers = run.tokenizers()
    model = build_counting(run.config(), tokenizers)
    weights = _checked_weights(run, checkpoint)
    try:
        model.restore({name: tensor.to(device) for name, tensor in read_tensors(weights).items()})
    except (KeyError, RuntimeError, TypeError, ValueError, IndexError) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise SeqloomError(
            f"The weights in {weights} do not fit this model: {reason}.",
            "the file belongs to another run or config.yaml was changed after training",
        ) from error
    return model, tokenizers


def _checked_weights(run: Run, checkpoint: str | None) -> Path:
    """The weights file of a checkpoint, which is what was written."""
    weights = run.weights(checkpoint)
    check_sums(weights.parent, [weights.name], tokenizers=run.checkpoints().tokenizers)
    return weights


@dataclass(frozen=True)
class Opened:
    """All that is needed to use a run."""

    run: Run
    model: Any  # on its device
    tokenizers: TokenizerPair
    config: Config
    device: torch.device


def _open(folder: str | Path, wanted: Use | None, checkpoint: str | None, device: str) -> Opened:
    """The model of a run that is made for the wanted use; any run if none is named."""
    run = Run.open(folder)
    config = run.config()
    if wanted is not None and use_of(config) != wanted:
        raise _other_use(run, wanted)
    place = choose_device(device)
    if architecture(config.model.name).counting:
        counting, tokenizers = load_counting(run, checkpoint=checkpoint, device=place)
        return Opened(run, counting, tokenizers, config, place)
    model, tokenizers = load_model(run, checkpoint=checkpoint)
    return Opened(run, model.to(place), answering(config, tokenizers), config, place)


def answering(config: Config, tokenizers: TokenizerPair) -> TokenizerPair:
    """The tokenizers for what is asked of a run: to one that restores texts, [MASK] is a gap, not text."""
    if config.data.noise.kind != "none" and use_of(config) == "translate":
        tokenizers.target.gaps = True  # the source's as well: they are one, for texts have one side
    return tokenizers


def load(
    folder: str | Path, *, checkpoint: str | None = None, device: str = "auto", workers: int | None = None
) -> ModelTranslator | Translator:
    """The translator of a run directory: raw text in, raw text out.

    `workers` are the processes of a model with a search of its own; None = as many as are good here.
    """
    opened = _open(folder, "translate", checkpoint, device)
    if isinstance(opened.model, OwnSearch):
        return opened.model.translator(opened.tokenizers, opened.config.search, workers=workers)
    return ModelTranslator(
        opened.model,
        opened.tokenizers,
        opened.config.search,
        opened.device,
        opened.run.alignment_head(),
        cache(opened.run.shortlist),
    )


def load_decoder(folder: str | Path, *, checkpoint: str | None = None, device: str = "auto") -> ModelTranslator:
    """The translator of a run whose model answers token by token."""
    found = load(folder, checkpoint=checkpoint, device=device)
    if not isinstance(found, ModelTranslator):
        raise SeqloomError(
            f"The model of {folder} has a search of its own: it does not answer token by token.",
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
) -> EnsembleTranslator:
    """The translator of several runs that vote on every token, in probability or log space.

    Their architectures and source vocabularies may differ; the target vocabulary has to be the same.
    """
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
    return EnsembleTranslator(members, weights=weights, space=space)


def load_generator(folder: str | Path, *, checkpoint: str | None = None, device: str = "auto") -> Generator:
    """What continues a text, by a language model of plain text."""
    opened = _open(folder, "generate", checkpoint, device)
    longest = opened.config.data.max_length + 1
    return Generator(
        opened.model, opened.tokenizers.target, opened.config.search, max_length=longest, device=opened.device
    )


def load_filler(folder: str | Path, *, checkpoint: str | None = None, device: str = "auto") -> Filler:
    """What fills the gaps of a text, by a masked language model."""
    opened = _open(folder, "fill", checkpoint, device)
    return Filler(opened.model, opened.tokenizers.source, opened.config.search, opened.device)


def load_scorer(
    folder: str | Path, *, checkpoint: str | None = None, device: str = "auto", use: Use | None = None
) -> ForcedScorer | MaskedScorer:
    """What tells how probable given targets are, or by a masked language model the tokens of a text.

    A run that is not made for the given use, if one is given, is an error.
    """
    opened = _open(folder, use, checkpoint, device)
    if isinstance(opened.model, OwnSearch):
        raise SeqloomError(
            f"The model of {folder} ({opened.config.model.name}) ranks answers, it has no probabilities.",
            f"take another model here; seqloom score {folder} tells its own scores",
        )
    kind = MaskedScorer if use_of(opened.config) == "fill" else ForcedScorer
    return kind(opened.model, opened.tokenizers, opened.config.search, opened.device)


def has_own_search(config: Config) -> bool:
    """Whether a model of that configuration finds its answers itself, by scores that are no probabilities."""
    build = architecture(config.model.name).build
    return isinstance(build, type) and issubclass(build, OwnSearch)


def load_derivations(
    folder: str | Path, *, checkpoint: str | None = None, workers: int | None = None
) -> PhraseScorer:
    """What finds the best derivation of given targets, by a model with a search of its own."""
    opened = _open(folder, "translate", checkpoint, "cpu")
    if not isinstance(opened.model, SaysTargets):
        raise SeqloomError(
            f"The model of {folder} ({opened.config.model.name}) cannot be made to say a given target.",
            "seqloom evaluate measures its answers",
        )
    scorer: PhraseScorer = opened.model.scorer(opened.tokenizers, workers=workers)
    return scorer


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
    """A command that shows what the run can do, and one that measures it."""
    folder = run.folder
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


def describe(run: Run) -> dict[str, Any]:
    """What a person asks about a run, as plain data."""
    config, tokenizers = run.config(), run.tokenizers()
    lines = run.metrics()
    checks = [line for line in lines if line["kind"] in ("valid", "average")]
    best = [line for line in checks if line.get("best")]
    last = max((line["step"] for line in lines), default=0)
    facts: dict[str, Any] = {
        "run": str(run.folder),
        "model": config.model.model_dump(mode="json", exclude_none=True),
        "parameters": _parameters(run, config, tokenizers),
        "vocabulary": {"source": tokenizers.reader.size, "target": tokenizers.target.size},
        "joint_vocabulary": tokenizers.joint,
        "steps": last,
        "checkpoints": run.checkpoints().steps(),
    }
    if checks:
        facts["minutes"] = round(max(line.get("seconds") or 0.0 for line in checks) / 60, 1)
    if best:
        facts["best_step"] = best[-1]["step"]
        facts["best"] = {
            key: value
            for key, value in best[-1].items()
            if isinstance(value, float) and key not in ("seconds",)
        }
    if clipped := clipping(lines):
        facts["clipped"] = clipped
    return facts


def _parameters(run: Run, config: Config, tokenizers: TokenizerPair) -> int:
    """How many numbers the model learns; of a counting model, has learned."""
    if architecture(config.model.name).counting:
        return sum(tensor.numel() for tensor in read_tensors(_checked_weights(run, None)).values())
    return sum(weight.numel() for weight in build_model(config, tokenizers).parameters())
