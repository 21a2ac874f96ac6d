"""Cost of subword sampling: processor time per batch and the length of sources and targets, without any model.

python benchmarks/sampling.py --source train.en.gz --target train.de.gz [--batches 100] [--vocab-size 8000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any

from command import run_command

from seqloom.data.batching import Collate
from seqloom.data.corpus import Corpus, Prepared
from seqloom.data.loader import augmented, collator
from seqloom.run.config import Config, compose
from seqloom.types import Batch

SAMPLED: Mapping[str, Any] = {"text.sampling": "both"}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "unigram": {"text.tokenizer": "unigram"},
    "unigram, 64 best, alpha 0.1": {"text.tokenizer": "unigram", **SAMPLED},
    "unigram, all, alpha 0.2": {
        "text.tokenizer": "unigram",
        **SAMPLED,
        "text.sampling_nbest": -1,
        "text.sampling_alpha": 0.2,
    },
    "bpe": {"text.tokenizer": "bpe"},
    "bpe, dropout 0.1": {"text.tokenizer": "bpe", **SAMPLED},
    "word dropout 0.1": {"text.tokenizer": "unigram", "train.word_dropout": 0.1},
}


def collate(config: Config, prepared: Prepared) -> Collate[Batch]:
    """Return the function that makes the training batches of a configuration."""
    return augmented(
        collator(config.data.noise, prepared.tokenizers, config.train.seed, in_place=False),
        prepared.tokenizers,
        config.train.seed,
        text=config.text,
        longest=config.data.max_length,
        word_dropout=config.train.word_dropout,
    )


def measure(config: Config, batches: int) -> dict[str, float]:
    """Make batches and return milliseconds of processor time per batch and tokens per pair."""
    prepared = Corpus(config.data, config.text).prepare()
    stream = prepared.batches(batch_tokens=config.train.batch_tokens, seed=config.train.seed)
    began = time.process_time()
    made = [batch for _, batch in islice(stream.collated(0, 0, collate(config, prepared)), batches)]
    seconds = time.process_time() - began
    pairs = sum(len(batch.source) for batch in made)
    return {
        "ms": 1000 * seconds / len(made),
        "pairs": pairs / len(made),
        "source": sum(int(batch.source_lengths.sum()) for batch in made) / pairs,
        "target": sum(batch.target_tokens for batch in made) / pairs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--source", required=True, help="text file with one source per line")
    parser.add_argument("--target", required=True, help="text file with the target of each line")
    parser.add_argument("--batches", type=int, default=100, help="batches of 4,096 tokens (default: 100)")
    parser.add_argument("--vocab-size", type=int, default=8000, help="of the joint tokenizer (default: 8000)")
    given = parser.parse_args()
    files = {"data.source": given.source, "data.target": given.target, "text.vocab_size": given.vocab_size}
    print("| batches | ms per batch | pairs per batch | source tokens per pair | target tokens per pair |")
    print("|---|---|---|---|---|")
    for name, options in KINDS.items():
        row = measure(compose(values={**files, **options}), given.batches)
        print(f"| {name} | {row['ms']:.1f} | {row['pairs']:.0f} | {row['source']:.1f} | {row['target']:.1f} |")


if __name__ == "__main__":
    run_command(main)
