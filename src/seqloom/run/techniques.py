"""Training techniques that a model, its data or its tokenizers do not support are errors before training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.errors import SeqloomError
from seqloom.registry import Architecture
from seqloom.text.pair import TokenizerPair
from seqloom.text.sampling import SubwordSampler

if TYPE_CHECKING:  # config.py imports this module
    from seqloom.run.config import Config


def is_augmented(config: Config) -> bool:
    """Return whether training batches are changed at random."""
    return bool(config.text.sampled_sides or config.train.word_dropout)


def check_techniques(config: Config, entry: Architecture) -> None:
    """Raise if the model or the data does not support a technique that is switched on."""
    chosen = _chosen(config)
    if entry.fitted and chosen:
        raise SeqloomError(
            f"The model {entry.name} is fitted, not trained by gradient, so it does not support {chosen[0]}.",
            "leave it out, or use a neural model",
        )
    if config.data.noise.kind != "none" and (changing := [name for name in chosen if "rdrop" not in name]):
        raise SeqloomError(
            f"{changing[0]} cannot be combined with data.noise.kind={config.data.noise.kind}.",
            "leave one of them out: the noise already changes the sources at random",
        )
    if config.data.is_text and config.text.sampling == "source":
        raise SeqloomError(
            "text.sampling=source has no effect on plain text, which is a target without a source.",
            "set text.sampling=target",
        )
    if "source" in config.text.sampled_sides and config.model.reads_trees:
        raise SeqloomError(
            f"text.sampling={config.text.sampling} does not support the dependency trees of {entry.name}.",
            "set text.sampling=target, or use other positions",
        )
    if entry.task.keeps_words:
        _check_keeps_words(config)
    if entry.task.writes_vectors:
        _check_fits_vectors(config)
    if config.train.rdrop and getattr(config.model, "dropout", None) == 0:
        raise SeqloomError(
            "train.rdrop compares two passes with other dropout masks, but model.dropout=0 makes them equal.",
            "set model.dropout, e.g. to 0.1",
        )


def _check_keeps_words(config: Config) -> None:
    """Raise if an option changes the words of a source, each of which has a target."""
    name, text = config.model.name, config.text
    if text.tokenizer == "word" and not text.byte_fallback:
        raise SeqloomError(
            f"The model {name} counts words, but the word tokenizer joins unknown words without byte_fallback.",
            "leave out text.byte_fallback=false, or use another tokenizer",
        )
    for option, is_on in (
        (f"train.word_dropout={config.train.word_dropout:g}", bool(config.train.word_dropout)),
        ("data.long=truncate", config.data.long == "truncate"),
    ):
        if is_on:
            raise SeqloomError(
                f"The model {name} has a target for every source word, so it does not support {option}.",
                "leave the option out",
            )


def _check_fits_vectors(config: Config) -> None:
    """Raise if an option is defined for symbols only."""
    train = config.train
    for name in ("label_smoothing", "word_dropout", "rdrop"):
        if value := getattr(train, name):
            raise SeqloomError(
                f"train.{name}={value:g} needs symbols as targets, but {config.model.name} writes vectors.",
                "leave the option out",
            )


def check_tokenizers(config: Config, tokenizers: TokenizerPair) -> None:
    """Raise if the tokenizers, which may be those of another run, do not support a technique."""
    for side in config.text.sampled_sides:
        SubwordSampler(tokenizers.text(side), config.text, config.data.max_length)
    if not _tags_have_positions(config) and not tokenizers.vocabularies.tags:
        raise SeqloomError(
            "model.tag_positions=false needs tags, but no source begins with a tag such as <V>.",
            "put tags before each source, list them in text.tags, or leave the option out",
        )


def _chosen(config: Config) -> list[str]:
    """Return the techniques that are switched on, as the options that do so."""
    text, train = config.text, config.train
    return [
        name
        for name, is_on in (
            (f"text.sampling={text.sampling}", bool(text.sampled_sides)),
            (f"train.word_dropout={train.word_dropout:g}", bool(train.word_dropout)),
            (f"train.rdrop={train.rdrop:g}", bool(train.rdrop)),
            ("model.tag_positions=false", not _tags_have_positions(config)),
        )
        if is_on
    ]


def _tags_have_positions(config: Config) -> bool:
    """Return `model.tag_positions`, which only encoder-decoder Transformers have."""
    return bool(getattr(config.model, "tag_positions", True))
