"""The rules that choose options: a table, read from top to bottom.

Each row has options with their values, the condition under which it applies, the reason shown to the user, and
its source. For each option the first row whose condition holds wins. An option that the user gives is never
changed, and an option without a matching row keeps its default. `benchmarks/defaults.py` compares the
rules with the defaults; a rule that does not help is removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from seqloom.registry import architecture
from seqloom.run.planner.facts import DataFacts

Value = bool | int | float | str | list[str]


@dataclass(frozen=True)
class Situation:
    """All that a rule may use: the data, the time budget, and the options given or chosen so far."""

    data: DataFacts
    minutes: float | None  # None: the user limits updates or epochs instead
    updates: int | None  # predicted number of updates; None while the model is not chosen
    options: Mapping[str, Any]
    tokens: int | None = None  # predicted number of target tokens; None if no speed is measured

    @property
    def words(self) -> bool:
        """Sources are single words, or short lines whose targets are new words, such as dates in digits."""
        source, target = self.data.source, self.data.target
        spelled = target.is_single_word and target.unseen > 0.1 and source.characters < 40
        return (source.is_single_word or spelled) and not self.data.frames

    @property
    def symbols(self) -> bool:
        """Both sides are sequences of symbols from small sets."""
        return self.data.source.is_closed and self.data.target.is_closed and not self.data.frames

    @property
    def words_to_symbols(self) -> bool:
        """Sources are single words, targets are sequences of symbols, such as phonemes."""
        return self.words and self.data.target.is_closed

    @property
    def tagged_words(self) -> bool:
        """Sources are single words with feature tags, such as lemmas to inflect."""
        return self.words and self.data.tags_per_line > 1

    @property
    def sentences(self) -> bool:
        """Sources are text of several words."""
        return not self.words and not self.symbols and not self.data.frames

    @property
    def recurrent(self) -> bool:
        """The model has recurrent cells."""
        return "cell" in architecture(str(self.options.get("model.name", "transformer"))).settings.model_fields

    @property
    def fine_tuning(self) -> bool:
        """Training starts from the weights of another run."""
        return bool(self.options.get("train.init_from"))


Condition = Callable[[Situation], bool]
Choose = Callable[[Situation], Value]


def _always(situation: Situation) -> bool:
    return True


class Rule(NamedTuple):
    """One row of the table."""

    options: Mapping[str, Value | Choose]
    when: Condition
    reason: str  # may use {data...}, {updates} and {tokens}
    source: str


_ARAABI = "Araabi & Monz 2020"  # arXiv:2011.02266
_SENNRICH = "Sennrich & Zhang 2019"  # arXiv:1905.11901
_WU = "Wu et al. 2021"  # Wu, Cotterell & Hulden, arXiv:2005.10213
_VASWANI = "Vaswani et al. 2017"  # arXiv:1706.03762
_POPOVIC = "Popović 2015"  # W15-3049
_PAPINENI = "Papineni et al. 2002"  # P02-1040
_DEFAULTS = "benchmarks/defaults.py"
_CMUDICT, _MULTI30K, _SCAN, _DIGITS = (
    "recipe cmudict",
    "recipe multi30k-en-de",
    "recipe scan",
    "recipe spoken-digits",
)

MIN_UPDATES = 3000  # below this, a smaller model or smaller batches learn more in the same time
# Below this number of target tokens, an LSTM with attention is better than a Transformer: on Multi30k by 4 BLEU
# after 3 million; the recipes have 38.0 BLEU after 6 million (LSTM) and 38.8 after 17 million (Transformer).
MIN_TOKENS = 10_000_000
_PAIRS = "{data.pairs:,} pairs"
_TOO_FEW = "the budget would allow only {updates:,} updates"


def _pairs_below(limit: int) -> Condition:
    return lambda s: s.data.pairs < limit


def _too_few_updates(s: Situation) -> bool:
    return s.sentences and not s.recurrent and (s.updates or 0) < MIN_UPDATES


def _vocabulary(s: Situation) -> int:
    """Return about one subword per five pairs, from 1,000 to 6,000, and more for large corpora."""
    large = 6000 * max(1.0, s.data.pairs / 60_000) ** 0.5
    return int(min(32_000, round(min(max(s.data.pairs / 5, 1000), large), -3)))


def _smaller_batch(s: Situation) -> int:
    """Return the largest batch of at least 1,024 tokens that allows MIN_UPDATES."""
    tokens = int(s.options.get("train.batch_tokens", 4096))
    updates = s.updates or MIN_UPDATES
    while updates < MIN_UPDATES and tokens >= 2048:
        tokens, updates = tokens // 2, updates * 2
    return tokens


def _transformer_rate(s: Situation) -> float:
    """Return 0.004 for width 128 and 4,096 tokens; less for wider models and smaller batches."""
    width, tokens = float(s.options.get("model.width", 256)), float(s.options.get("train.batch_tokens", 4096))
    return round(0.004 * (128 / width) * math.sqrt(min(1.0, tokens / 4096)), 5)


def _warmup(s: Situation) -> int:
    updates = s.updates or 8000
    return int(min(4000, updates / 4, max(100, round(updates / 12, -2))))


def _ema(s: Situation) -> float:
    return round(1 - 1 / min(1000.0, max(100.0, 0.06 * (s.updates or 8000))), 4)


def _checkpoint_every(s: Situation) -> int:
    validations = min(30.0, max(8.0, (s.minutes or 30) / 2))
    return int(max(50, round((s.updates or 8000) / validations, -1)))


# Text: the unit of a token
TEXT = (
    Rule({"text.tokenizer": "char"}, lambda s: s.words,
         "lines are single words or short strings", _WU),
    Rule({"text.tokenizer": "word"}, lambda s: s.symbols,
         "closed vocabularies of {data.source.vocabulary} and {data.target.vocabulary} words", _SCAN),
    Rule({"text.target_tokenizer": "word"}, lambda s: s.words_to_symbols,
         "targets are sequences of {data.target.vocabulary} symbols", _CMUDICT),
    Rule({"text.byte_fallback": False}, lambda s: s.words or s.symbols,
         "all characters are in the vocabulary", _CMUDICT),
    Rule({"text.preset": "code"}, lambda s: s.sentences and s.data.code > 0.05,
         "{data.code:.0%} of the targets have indentation or repeated spaces", "guide text"),
    Rule({"text.vocab_size": _vocabulary}, lambda s: s.sentences,
         "{data.pairs:,} pairs; small data needs a small vocabulary", _SENNRICH),
    Rule({"text.joint": False}, lambda s: s.sentences and s.data.shared_alphabet < 0.5,
         "the sides share {data.shared_alphabet:.0%} of their characters", _SENNRICH),
)  # fmt: skip

# Model: architecture and size for the amount of data
MODEL = (
    Rule({"model.name": "transformer"}, lambda s: s.tagged_words,
         "words with {data.tags} different tags", _WU),
    Rule({"model.tag_positions": False}, lambda s: s.tagged_words and not s.recurrent,
         "the order of tags has no meaning", _WU),
    Rule({"model.name": "lstm-bilinear"}, lambda s: s.words,
         "on short lines an LSTM learns faster than a Transformer", _CMUDICT),
    Rule({"model.name": "lstm-additive", "model.size": "tiny", "model.dropout": 0.5}, lambda s: s.data.frames,
         "sources are frames", _DIGITS),
    Rule({"model.width": 256, "model.layers": 1, "model.dropout": 0.4},
         lambda s: s.recurrent and s.data.pairs < 3_000, _PAIRS, _SENNRICH),
    Rule({"model.width": 256, "model.layers": 1, "model.dropout": 0.3},
         lambda s: s.recurrent and s.data.pairs < 30_000, _PAIRS, _DEFAULTS),
    Rule({"model.width": 320, "model.layers": 2, "model.dropout": 0.4},
         lambda s: s.recurrent, _PAIRS, _CMUDICT),
    Rule({"model.width": 128, "model.layers": 2, "model.heads": 8, "model.ffn": 256, "model.dropout": 0.1},
         lambda s: s.symbols, "closed vocabularies", _SCAN),
    Rule({"model.width": 128, "model.layers": 3, "model.heads": 4, "model.ffn": 512, "model.dropout": 0.3},
         lambda s: s.tagged_words, "words with tags", _DEFAULTS),
    Rule({"model.width": 128, "model.layers": 4, "model.heads": 4, "model.ffn": 256, "model.dropout": 0.3},
         _pairs_below(60_000), _PAIRS, _ARAABI),
    Rule({"model.width": 256, "model.layers": 3, "model.heads": 4, "model.ffn": 1024, "model.dropout": 0.2},
         _pairs_below(300_000), _PAIRS, _ARAABI),
    Rule({"model.width": 512, "model.layers": 6, "model.heads": 8, "model.ffn": 2048, "model.dropout": 0.1},
         lambda s: s.data.pairs >= 1_000_000 and (s.minutes or 0) >= 600, _PAIRS, _VASWANI),
    Rule({"model.width": 256, "model.layers": 3, "model.heads": 4, "model.ffn": 1024, "model.dropout": 0.1},
         _always, _PAIRS, _ARAABI),
    Rule({"train.batch_tokens": 512}, lambda s: s.words and s.recurrent and s.data.pairs < 30_000,
         "few and short lines; small batches give more updates", _DEFAULTS),
    Rule({"train.batch_tokens": 1024}, lambda s: s.words or s.symbols,
         "short lines; small batches give more updates", _CMUDICT),
)  # fmt: skip

# Changes after the speed is measured, each followed by a new measurement; all options of a row must be open
ADAPT = (
    Rule({"model.name": "lstm-bilinear", "model.width": 320, "model.layers": 1, "model.dropout": 0.3},
         lambda s: s.sentences and not (s.recurrent or s.fine_tuning) and (s.tokens or 0) < MIN_TOKENS,
         "{tokens:,} target tokens in the budget: an LSTM learns faster", "recipe multi30k-en-de-lstm"),
    Rule({"train.batch_tokens": 2048}, lambda s: s.sentences and s.recurrent,
         "recurrent model", "recipe multi30k-en-de-lstm"),
    Rule({"model.width": 128, "model.layers": 4, "model.heads": 4, "model.ffn": 256},
         lambda s: _too_few_updates(s) and not s.fine_tuning, _TOO_FEW, _MULTI30K),
    Rule({"train.batch_tokens": _smaller_batch}, _too_few_updates, _TOO_FEW, _WU),
)  # fmt: skip

# Training: learning rate, schedule and validation
TRAIN = (
    Rule({"train.learning_rate": 0.0003}, lambda s: s.fine_tuning,
         "fine-tuning", "guide fine-tuning"),
    Rule({"train.learning_rate": 0.003},
         lambda s: s.words and s.recurrent and s.options.get("model.layers") == 1,
         "words, recurrent model with one layer", _DEFAULTS),
    Rule({"train.learning_rate": 0.002}, lambda s: s.recurrent, "recurrent model", _CMUDICT),
    Rule({"train.learning_rate": 0.001}, lambda s: s.symbols, "closed vocabularies", _SCAN),
    Rule({"train.learning_rate": _transformer_rate}, _always, "width and batch size", _MULTI30K),
    Rule({"train.schedule": "cosine"}, _always, "the rate reaches 0 when the budget ends", _MULTI30K),
    Rule({"train.warmup": _warmup}, _always, "a twelfth of the updates", _MULTI30K),
    Rule({"train.label_smoothing": 0.0}, lambda s: s.symbols, "each source has one right target", _SCAN),
    Rule({"train.ema": _ema}, _always, "moving average of the weights", _MULTI30K),
    Rule({"train.metrics": ["per"]}, lambda s: s.words_to_symbols, "targets are symbols", _CMUDICT),
    Rule({"train.metrics": ["exact"]}, lambda s: s.symbols or s.data.target.is_single_word,
         "an output is right or wrong", _SCAN),
    Rule({"train.metrics": ["chrf"]}, lambda s: s.data.target.characters > 12 * s.data.target.words,
         "targets have no spaces between words", _POPOVIC),
    Rule({"train.metrics": ["bleu"]}, _always, "targets are sentences", _PAPINENI),
    Rule({"train.best_by": lambda s: str(s.options["train.metrics"][0])}, _always,
         "the metric selects the checkpoint", _MULTI30K),
    Rule({"train.checkpoint_every": _checkpoint_every}, _always, "8 to 30 validations", _MULTI30K),
    Rule({"train.patience": 10}, _always, "stop when validation no longer improves", _ARAABI),
    Rule({"train.validate_beam": 1}, _always, "validation takes a fifth of the time of a beam of 5", _MULTI30K),
    Rule({"train.validate_lines": 1000}, lambda s: s.words or s.symbols, "short lines", _CMUDICT),
    Rule({"train.keep": 2}, _always, "saves disk space", _MULTI30K),
)  # fmt: skip

# Search
SEARCH = (
    Rule({"search.beam": 1}, lambda s: s.symbols, "each source has one right target", _SCAN),
)  # fmt: skip
