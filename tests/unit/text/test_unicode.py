"""An unpaired surrogate, which a Python string can hold, is rejected wherever text is accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import METRICS, evaluate
from seqloom.evaluate.significance import compare
from seqloom.text.config import TextConfig
from seqloom.text.frames import read_features
from seqloom.text.marian import as_marian
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import Request

RUNS = Path(__file__).parents[2] / "golden" / "fixtures"
SURROGATE = "ab\ud800c"
MESSAGE = r"Character 3 of the text .* surrogate \(U\+D800\)"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = TextConfig(vocab_size=300)
    return TokenizerPair.train(config, lambda: [("a man", "ein Mann"), ("a dog", "ein Hund")]).target


@pytest.mark.parametrize("marian", [False, True])
@pytest.mark.parametrize(
    "use",
    [
        lambda tokenizer: tokenizer.encode(SURROGATE),
        lambda tokenizer: tokenizer.encode_batch(["a", SURROGATE], threads=1),
        lambda tokenizer: tokenizer.normalize(SURROGATE),
    ],
)
def test_tokenizers_reject_it(tokenizer: Tokenizer, use: Callable[[Tokenizer], object], marian: bool) -> None:
    with pytest.raises(SeqloomError, match=MESSAGE):
        use(as_marian(tokenizer) if marian else tokenizer)


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_tokenizer_training_rejects_it(kind: Any) -> None:
    with pytest.raises(SeqloomError, match=MESSAGE):
        TokenizerPair.train(TextConfig(tokenizer=kind), lambda: [("a", SURROGATE)])


@pytest.mark.parametrize("run", ["transformer", "lstm", "prefix-lm", "hmm", "phrase"])
def test_translators_reject_it(run: str) -> None:
    translator = seqloom.load(RUNS / run)
    with pytest.raises(SeqloomError, match=MESSAGE):
        translator.translate(["a", SURROGATE])


@pytest.mark.parametrize(
    "request_with_surrogate", [Request("a", prefix=SURROGATE), Request("a", required=(SURROGATE,))]
)
def test_prefixes_and_required_words_reject_it(request_with_surrogate: Request) -> None:
    with pytest.raises(SeqloomError, match=MESSAGE):
        seqloom.load(RUNS / "transformer").translate([request_with_surrogate])


def test_generators_fillers_and_scorers_reject_it() -> None:
    for use in (
        lambda: seqloom.load_generator(RUNS / "lm").encode(SURROGATE),
        lambda: seqloom.load_filler(RUNS / "mlm").fill([f"{SURROGATE} [MASK]"]),
        lambda: seqloom.load_scorer(RUNS / "transformer").score([("a", SURROGATE)]),
        lambda: seqloom.load_scorer(RUNS / "ngram").score([("", SURROGATE)]),
    ):
        with pytest.raises(SeqloomError, match=MESSAGE):
            use()


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_reject_it(metric: str) -> None:
    with pytest.raises(SeqloomError, match=MESSAGE):
        evaluate([SURROGATE], [["a"]], metric, bootstrap=0)
    with pytest.raises(SeqloomError, match=MESSAGE):
        evaluate(["a"], [["a", SURROGATE]], metric, bootstrap=0)


def test_comparisons_reject_it() -> None:
    with pytest.raises(SeqloomError, match=MESSAGE):
        compare([SURROGATE], ["a"], [["a"]], "exact")


@pytest.mark.parametrize("suffix", ["wav", "npy", "npz"])
def test_a_path_that_contains_it_is_rejected(suffix: str) -> None:
    with pytest.raises(SeqloomError):
        read_features(f"{SURROGATE}.{suffix}")
