"""A run directory: tokenizer, config and weights in one place, all that translating needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import nn

from seqloom.config import Config, from_tree, read_yaml
from seqloom.decode.ensemble import EnsembleTranslator, Space
from seqloom.decode.filling import Filler
from seqloom.decode.generation import Generator
from seqloom.decode.scoring import ForcedScorer, MaskedScorer
from seqloom.decode.translator import ModelTranslator
from seqloom.errors import SeqloomError, unknown
from seqloom.registry import architecture
from seqloom.text.config import MASK
from seqloom.text.pair import TokenizerPair
from seqloom.training.checkpoint import AVERAGE, BEST, MODEL, Checkpoints, check_sums, load_weights
from seqloom.training.log import clipping, read_metrics
from seqloom.types import Vocabularies


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
        return from_tree(read_yaml(self.config_file), where=str(self.config_file))

    def tokenizers(self) -> TokenizerPair:
        return TokenizerPair.load(self.tokenizer_folder)

    def checkpoints(self, keep: int = 3) -> Checkpoints:
        return Checkpoints(self.folder / "checkpoints", keep)

    def weights(self, checkpoint: str | None = None) -> Path:
        """The weights file of a named checkpoint, by default the best one, else the newest."""
        folder = self.folder / "checkpoints"
        if checkpoint is not None:
            file = folder / checkpoint / MODEL
            if not file.is_file():
                known = ", ".join(sorted(p.name for p in folder.glob("*") if (p / MODEL).is_file()))
                raise SeqloomError(
                    f"{self.folder} has no checkpoint {checkpoint!r}.", f"there is {known or 'none yet'}"
                )
            return file
        steps = self.checkpoints().steps()
        names = [BEST, *(f"step-{step}" for step in reversed(steps)), AVERAGE]
        for name in names:
            if (folder / name / MODEL).is_file():
                return folder / name / MODEL
        raise SeqloomError(
            f"{self.folder} has no checkpoint yet.", f"seqloom resume {self.folder} goes on training"
        )

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        return read_metrics(self.folder / "metrics.jsonl")


def build_model(config: Config, tokenizers: TokenizerPair) -> nn.Module:
    """The model of a configuration, with fresh weights drawn from the run's seed."""
    vocabularies = Vocabularies(tokenizers.source.size, tokenizers.target.size, tokenizers.joint)
    torch.manual_seed(config.train.seed)
    try:
        model: nn.Module = architecture(config.model.name).build(config.model, vocabularies)
    except (RuntimeError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else "out of memory"
        raise SeqloomError(
            f"The model {config.model.name} cannot be built: {reason}.", "make it smaller (model.*)"
        ) from error
    return model


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
    config, tokenizers = run.config(), run.tokenizers()
    weights = run.weights(checkpoint)
    check_sums(weights.parent, [weights.name])
    model = build_model(config, tokenizers)
    load_weights(model, weights)
    return model.eval(), tokenizers


def load(folder: str | Path, *, checkpoint: str | None = None, device: str = "auto") -> ModelTranslator:
    """The translator of a run directory: raw text in, raw text out."""
    run = Run.open(folder)
    config = run.config()
    if use_of(config) != "translate":
        raise _other_use(run, "translate")
    model, tokenizers = load_model(run, checkpoint=checkpoint)
    target = choose_device(device)
    return ModelTranslator(model.to(target), tokenizers, config.search, target)  # type: ignore[arg-type]


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
    members = [load(folder, checkpoint=checkpoint, device=device) for folder, checkpoint in named]
    return EnsembleTranslator(members, weights=weights, space=space)


def load_generator(folder: str | Path, *, checkpoint: str | None = None, device: str = "auto") -> Generator:
    """What continues a text, by a language model of plain text."""
    run = Run.open(folder)
    config = run.config()
    if use_of(config) != "generate":
        raise _other_use(run, "generate")
    model, tokenizers = load_model(run, checkpoint=checkpoint)
    target = choose_device(device)
    return Generator(
        model.to(target),  # type: ignore[arg-type]
        tokenizers.target,
        config.search,
        max_length=config.data.max_length + 1,
        device=target,
    )


def load_filler(folder: str | Path, *, checkpoint: str | None = None, device: str = "auto") -> Filler:
    """What fills the gaps of a text, by a masked language model."""
    run = Run.open(folder)
    config = run.config()
    if use_of(config) != "fill":
        raise _other_use(run, "fill")
    model, tokenizers = load_model(run, checkpoint=checkpoint)
    target = choose_device(device)
    return Filler(model.to(target), tokenizers.source, config.search, target)


def load_scorer(
    folder: str | Path, *, checkpoint: str | None = None, device: str = "auto", use: Use | None = None
) -> ForcedScorer | MaskedScorer:
    """What tells how probable given targets are, or by a masked language model the tokens of a text.

    A run that is not made for the given use, if one is given, is an error.
    """
    run = Run.open(folder)
    config = run.config()
    if use is not None and use_of(config) != use:
        raise _other_use(run, use)
    model, tokenizers = load_model(run, checkpoint=checkpoint)
    target = choose_device(device)
    kind = MaskedScorer if use_of(config) == "fill" else ForcedScorer
    return kind(model.to(target), tokenizers, config.search, target)


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
    model = build_model(config, tokenizers)
    lines = run.metrics()
    checks = [line for line in lines if line["kind"] in ("valid", "average")]
    best = [line for line in checks if line["best"]]
    last = max((line["step"] for line in lines), default=0)
    facts: dict[str, Any] = {
        "run": str(run.folder),
        "model": config.model.model_dump(mode="json", exclude_none=True),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "vocabulary": {"source": tokenizers.source.size, "target": tokenizers.target.size},
        "joint_vocabulary": tokenizers.joint,
        "steps": last,
        "checkpoints": run.checkpoints().steps(),
    }
    if checks:
        facts["minutes"] = round(max(line.get("seconds", 0.0) for line in checks) / 60, 1)
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
