"""All views by name: JSON documents of a run, the same for `seqloom inspect VIEW --json` and for the studio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import Field
from torch import nn

from seqloom.decode.scoring import ForcedScorer
from seqloom.errors import SeqloomError, unknown
from seqloom.inspect.embeddings import EmbeddingsOptions, embeddings, has_embeddings
from seqloom.inspect.facts import example_source, long_example_source
from seqloom.inspect.gates import gate_trace, has_gates
from seqloom.inspect.heads import HeadAttention, head_attention
from seqloom.inspect.influence import has_influence, influence
from seqloom.inspect.intervention import InterventionOptions, cross_attentions, intervention
from seqloom.inspect.labels import END
from seqloom.inspect.layers import has_layers, layer_outputs
from seqloom.inspect.positions import TREE, position_tables
from seqloom.inspect.searchtree import SearchTree, search_tree
from seqloom.inspect.selfattention import check_is_distribution, default_kind, has_side, self_attention
from seqloom.inspect.stacks import stack_search
from seqloom.inspect.translation import (
    AlternativesOptions,
    TranslationOptions,
    alternatives,
    rounded,
    translation,
)
from seqloom.inspect.trellis import hidden_states
from seqloom.inspect.verdict import VerdictOptions, verdict
from seqloom.inspect.viewed_run import ViewedRun, check_length
from seqloom.run.load import LoadedRun, use_of
from seqloom.settings import Settings
from seqloom.statistical.base import HasTranslator
from seqloom.statistical.hmm.trellis import HasTrellis
from seqloom.statistical.phrase.translator import PhraseTranslator
from seqloom.strict_json import json_text
from seqloom.types import DependencyTree

VERSION = 1  # of the documents of a model and of a score
_Options = TypeVar("_Options", bound=Settings)
Document = dict[str, Any]


class TextOptions(Settings):
    """A text."""

    text: str = Field("", description="source text")
    checkpoint: str | None = Field(None, description="name of the checkpoint; None = the best one")


class TargetOptions(TextOptions):
    """A text and its target: text, tokens, or by default the model's own output."""

    target: str | None = Field(None, description="target text")
    target_tokens: tuple[str, ...] | None = Field(None, description="tokens of the target, instead of its text")

    @property
    def chosen(self) -> str | tuple[str, ...] | None:
        """The target."""
        return self.target if self.target_tokens is None else self.target_tokens


class AttentionOptions(TargetOptions):
    """A text, its target, and the kind of attention."""

    kind: Literal["cross", "encoder", "decoder"] | None = Field(None, description="cross, encoder or decoder")


class SearchOptions(TextOptions):
    """A text and a beam."""

    beam: int | None = Field(None, ge=1, le=100, description="beam size; None = that of the run")
    prefix: str = Field("", description="text that the output begins with")


class ScoreOptions(TextOptions):
    """A text and a target to score."""

    target: str = Field(description="target text")


class PositionOptions(Settings):
    """A number of positions."""

    length: int = Field(32, ge=2, le=512, description="number of positions")


class ModelOptions(Settings):
    """Nothing is asked: the document describes the model."""


def attention_of(
    viewed: ViewedRun, options: AttentionOptions, tree: DependencyTree | None = None
) -> HeadAttention:
    """Return the attention of all heads for a text."""
    opened = viewed.opened(options.checkpoint)
    check_is_distribution(opened)
    default = default_kind(opened)
    kind = options.kind or default
    if kind != "cross":
        side: Literal["encoder", "decoder"] = "encoder" if kind == "encoder" else "decoder"
        target = None if kind == "encoder" and options.target is None else options.chosen
        return self_attention(opened, options.text, target, kind=side, heads=tree)
    if default != "cross":
        raise SeqloomError(
            f"The model {opened.config.model.name} reads one text, so it has no cross-attention.",
            f"use --kind {default}",
        )
    translator = viewed.torch_translator(options.checkpoint)
    check_length(translator, options.text)
    attention = head_attention(translator, options.text, options.chosen, heads=tree)
    if attention is None:
        raise SeqloomError(
            "There is no attention to show.", "use a model with attention, and text that is not empty"
        )
    return attention


def search_of(viewed: ViewedRun, options: SearchOptions) -> SearchTree:
    """Return the search tree of a text."""
    translator = viewed.torch_translator(options.checkpoint)
    check_length(translator, options.text)
    if not options.text.strip():
        raise SeqloomError("The text is empty.", "give a text to translate")
    return search_tree(translator, options.text, beam=options.beam, prefix=options.prefix)


def _hmm(viewed: ViewedRun, options: TextOptions) -> Document:
    opened = viewed.opened(options.checkpoint)
    if not isinstance(opened.model, HasTrellis):
        raise SeqloomError(
            f"The model of {viewed.name} ({opened.config.model.name}) has no hidden states.",
            "use a run of --model hmm or hmm-lm",
        )
    return hidden_states(opened.model, opened.tokenizers, options.text).to_dict()


def _stacks(viewed: ViewedRun, options: SearchOptions) -> Document:
    translator = viewed.translator(options.checkpoint)
    if not isinstance(translator, PhraseTranslator):
        raise SeqloomError(f"The model of {viewed.name} has no stacks.", "use a run of --model phrase")
    return stack_search(translator, options.text, beam=options.beam).to_dict()


def _gates(viewed: ViewedRun, options: TargetOptions) -> Document:
    return gate_trace(viewed.opened(options.checkpoint), options.text, options.chosen).to_dict()


def _influence(viewed: ViewedRun, options: TargetOptions) -> Document:
    opened = viewed.opened(options.checkpoint)
    has_attention = "cross" in _attention_kinds(viewed, opened)
    return influence(opened, options.text, options.chosen, has_attention=has_attention)


def _layers(viewed: ViewedRun, options: TargetOptions) -> Document:
    return layer_outputs(viewed.opened(options.checkpoint), options.text, options.chosen)


def _positions(viewed: ViewedRun, options: PositionOptions) -> Document:
    model = viewed.opened().model
    if not isinstance(model, nn.Module):
        raise SeqloomError(f"The model of {viewed.name} has no positions.", "use a Transformer")
    return position_tables(model, length=options.length, text=TREE[0], heads=TREE[1]).to_dict()


def _has_positions(viewed: ViewedRun) -> bool:
    try:
        return bool(_positions(viewed, PositionOptions(length=2)))
    except SeqloomError:
        return False


def _score(viewed: ViewedRun, options: ScoreOptions) -> Document:
    """Return the log-probability of every token of a given target."""
    translator = viewed.torch_translator(options.checkpoint)
    check_length(translator, options.text)
    scorer = ForcedScorer(translator.model, translator.tokenizers, translator.search, translator.device)
    (score,) = scorer.score([(options.text, options.target)])
    return {
        "view": "score",
        "version": VERSION,
        "source": options.text,
        "target": options.target,
        "tokens": [*score.tokens, *[END] * score.ends],
        "log_probs": [rounded(value) for value in score.log_probs],
        "log_prob": rounded(score.log_prob),
        "mean": rounded(score.mean),
    }


def _curves(viewed: ViewedRun, options: ModelOptions) -> Document:
    from seqloom.inspect.curves import LearningCurves

    return LearningCurves(viewed.run.metrics(), viewed.name).to_dict()


def _model(viewed: ViewedRun, options: ModelOptions) -> Document:
    """Return the name, the architecture and the views of a run, and a text to begin with."""
    config, run = viewed.run.config(), viewed.run
    opened = viewed.opened()
    kinds, head = _attention_kinds(viewed, opened), run.alignment_head()
    return {
        "view": "model",
        "version": VERSION,
        "name": viewed.name,
        "architecture": config.model.name,
        "use": use_of(config),
        "checkpoint": viewed.checkpoint_name(),
        "checkpoints": [f"step-{step}" for step in run.checkpoints().steps()],
        "views": _views_of(viewed, opened, kinds),
        "attention": kinds,
        "changeable": "cross" in kinds and bool(cross_attentions(viewed.torch_translator())),
        "alignment_head": None if head is None else [head.layer, head.head],
        "beam": config.search.beam,
        "length_penalty": config.search.length_penalty,
        "example": example_source(config),
        "long_example": long_example_source(config),
    }


def _views_of(viewed: ViewedRun, opened: LoadedRun, kinds: Sequence[str]) -> list[str]:
    """Return the views that this model has."""
    model, translates = opened.model, use_of(opened.config) == "translate"
    own_search, text = isinstance(model, HasTranslator), not opened.tokenizers.frames
    found = {
        "translation": translates and text,
        "attention": bool(kinds),
        "search": translates and text and not own_search,
        "hmm": isinstance(model, HasTrellis),
        "stacks": own_search,
        "gates": text and has_gates(opened),
        "influence": has_influence(opened),
        "layers": has_layers(opened),
        "embeddings": has_embeddings(opened),
        "positions": text and _has_positions(viewed),
        "curves": any(line["kind"] in ("train", "valid") for line in opened.run.metrics()),
    }
    return [name for name, has in found.items() if has]


def _attention_kinds(viewed: ViewedRun, opened: LoadedRun) -> list[str]:
    """Return the kinds of attention of a model."""
    sides = [side for side in ("encoder", "decoder") if has_side(opened, side)]
    own_search = isinstance(opened.model, HasTranslator)
    if opened.tokenizers.frames or default_kind(opened) != "cross" or own_search:
        return sides
    translator = viewed.torch_translator()
    has_cross = head_attention(translator, "a", "a") is not None
    return ["cross", *sides] if has_cross else sides


class View(NamedTuple):
    """Fields of a view, and its document."""

    fields: type[Settings]
    document: Callable[[ViewedRun, Mapping[str, Any]], Document]


def _view(kind: type[_Options], function: Callable[[ViewedRun, _Options], Document]) -> View:
    return View(kind, lambda viewed, given: function(viewed, kind.checked(given, "view", "the request")))


VIEWS: dict[str, View] = {
    "model": _view(ModelOptions, _model),
    "translation": _view(TranslationOptions, translation),
    "alternatives": _view(AlternativesOptions, alternatives),
    "score": _view(ScoreOptions, _score),
    "attention": _view(AttentionOptions, lambda viewed, given: attention_of(viewed, given).to_dict()),
    "search": _view(SearchOptions, lambda viewed, given: search_of(viewed, given).to_dict()),
    "verdict": _view(VerdictOptions, verdict),
    "hmm": _view(TextOptions, _hmm),
    "stacks": _view(SearchOptions, _stacks),
    "gates": _view(TargetOptions, _gates),
    "influence": _view(TargetOptions, _influence),
    "layers": _view(TargetOptions, _layers),
    "embeddings": _view(
        EmbeddingsOptions, lambda viewed, given: embeddings(viewed.opened(given.checkpoint), given)
    ),
    "positions": _view(PositionOptions, _positions),
    "intervention": _view(InterventionOptions, intervention),
    "curves": _view(ModelOptions, _curves),
}


def document(viewed: ViewedRun, view: str, fields: Mapping[str, Any]) -> Document:
    """Return the document of a view."""
    if view not in VIEWS:
        raise unknown("view", view, VIEWS)
    return VIEWS[view].document(viewed, fields)


def document_text(found: Document) -> str:
    """Return a document as it is printed and sent."""
    return json_text(found) + "\n"
