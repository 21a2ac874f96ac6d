"""Half a surrogate pair, which a Python string can hold, is an error with a message wherever text comes in."""

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
HALF = "ab\ud800c"
WANTED = r"Character 3 of the text .* surrogate pair \(U\+D800\)"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = TextConfig(vocab_size=300)
    return TokenizerPair.train(config, lambda: [("a man", "ein Mann"), ("a dog", "ein Hund")]).target


@pytest.mark.parametrize("marian", [False, True])
@pytest.mark.parametrize(
    "use",
    [
        lambda tokenizer: tokenizer.encode(HALF),
        lambda tokenizer: tokenizer.encode_batch(["a", HALF], threads=1),
        lambda tokenizer: tokenizer.normalize(HALF),
    ],
)
def test_tokenizers_refuse_it(tokenizer: Tokenizer, use: Callable[[Tokenizer], object], marian: bool) -> None:
    with pytest.raises(SeqloomError, match=WANTED):
        use(as_marian(tokenizer) if marian else tokenizer)


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_it_does_not_train_a_tokenizer(kind: Any) -> None:
    with pytest.raises(SeqloomError, match=WANTED):
        TokenizerPair.train(TextConfig(tokenizer=kind), lambda: [("a", HALF)])


@pytest.mark.parametrize("run", ["transformer", "lstm", "prefix-lm", "hmm", "phrase"])
def test_translators_refuse_it(run: str) -> None:
    translator = seqloom.load(RUNS / run)
    with pytest.raises(SeqloomError, match=WANTED):
        translator.translate(["a", HALF])


@pytest.mark.parametrize("asked", [Request("a", prefix=HALF), Request("a", required=(HALF,))])
def test_prefixes_and_required_words_refuse_it(asked: Request) -> None:
    with pytest.raises(SeqloomError, match=WANTED):
        seqloom.load(RUNS / "transformer").translate([asked])


def test_generators_fillers_and_scorers_refuse_it() -> None:
    for use in (
        lambda: seqloom.load_generator(RUNS / "lm").encode(HALF),
        lambda: seqloom.load_filler(RUNS / "mlm").fill([f"{HALF} [MASK]"]),
        lambda: seqloom.load_scorer(RUNS / "transformer").score([("a", HALF)]),
        lambda: seqloom.load_scorer(RUNS / "ngram").score([("", HALF)]),
    ):
        with pytest.raises(SeqloomError, match=WANTED):
            use()


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_refuse_it(metric: str) -> None:
    with pytest.raises(SeqloomError, match=WANTED):
        evaluate([HALF], [["a"]], metric, bootstrap=0)
    with pytest.raises(SeqloomError, match=WANTED):
        evaluate(["a"], [["a", HALF]], metric, bootstrap=0)


def test_comparisons_refuse_it() -> None:
    with pytest.raises(SeqloomError, match=WANTED):
        compare([HALF], ["a"], [["a"]], "exact")


@pytest.mark.parametrize("suffix", ["wav", "npy", "npz"])
def test_a_path_with_it_names_no_file(suffix: str) -> None:
    with pytest.raises(SeqloomError):
        read_features(f"{HALF}.{suffix}")
