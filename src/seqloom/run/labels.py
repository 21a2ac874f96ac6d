"""Checks of the targets of taggers and classifiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from seqloom.data.corpus import Prepared
from seqloom.errors import SeqloomError
from seqloom.registry import Task
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import Example

_SHOWN = 5


def check_labels(prepared: Prepared, task: Task) -> None:
    """Raise if a target does not fit its source, or has a label that is not in the training data."""
    if task.mismatch is None:
        return
    known = set[str]()
    for example in prepared.train_examples():
        known.update(_labels(example, prepared.tokenizers, task))
    for example in prepared.valid_examples():
        for label in _labels(example, prepared.tokenizers, task):
            if label not in known:
                raise SeqloomError(
                    f"{_place(example)}: the label {label!r} is in the validation data, but not in the "
                    "training data, so the model cannot learn it.",
                    "add examples of it to the training data, or remove the line",
                )


def _labels(example: Example, tokenizers: TokenizerPair, task: Task) -> list[str]:
    """Return the labels of an example; raise if there are not as many as needed."""
    words = 1 if tokenizers.frames else len(tokenizers.source.normalize(example.source).split())
    labels = tokenizers.target.normalize(example.target or "").split()
    if task.mismatch and (fault := task.mismatch(words, len(labels))):
        raise SeqloomError(f"{_place(example)}: {fault}.", "correct or remove the line")
    return labels


def _place(example: Example) -> str:
    return f"{example.file or 'The data'}, line {example.line}"


def unknown_labels(references: Sequence[str], tokenizer: Tokenizer) -> str | None:
    """Return a note about labels of test data that the model cannot predict, or None."""
    known = set(tokenizer.pieces(range(tokenizer.size)))
    unknown = Counter(
        label for text in references for label in tokenizer.normalize(text).split() if label not in known
    )
    if not unknown:
        return None
    names = ", ".join(repr(label) for label, _ in unknown.most_common(_SHOWN))
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    return f"{unknown.total():,} test labels are not in the training data and count as errors: {names}{more}"
