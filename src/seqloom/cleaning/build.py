"""The rules of a corpus. What they need is loaded before the corpus is read, so that errors come early."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seqloom.cleaning.duplicates import Duplicates, Identical, normalised
from seqloom.cleaning.length_ratio import LengthRatio
from seqloom.cleaning.model_score import ModelScore, PairScorer
from seqloom.cleaning.options import CleaningOptions
from seqloom.cleaning.rule import CleaningRule, Pair
from seqloom.cleaning.script import Script
from seqloom.errors import SeqloomError

Sample = Sequence[Pair]
Builder = Callable[[Sample], CleaningRule]


def rule_builders(options: CleaningOptions) -> dict[str, Builder]:
    """Return for every rule that is on how to build it from a sample of the corpus."""
    prepare: dict[str, Callable[[CleaningOptions], Builder]] = {
        "duplicate": lambda options: lambda sample: Duplicates(str, "every pair once"),
        "near-duplicate": lambda options: lambda sample: Duplicates(normalised, "every normalised pair once"),
        "identical": lambda options: lambda sample: Identical(),
        "length-ratio": lambda options: lambda sample: LengthRatio(sample, options.max_ratio),
        "script": lambda options: lambda sample: Script(sample, options.min_script),
        "language": _language,
        "alignment": _alignment,
        "model": _model,
    }
    return {name: prepare[name](options) for name in options.rules}


def _language(options: CleaningOptions) -> Builder:
    from seqloom.cleaning.language import LanguageRule, load_identifier

    identifier = load_identifier()
    languages = (options.source_language, options.target_language)
    return lambda sample: LanguageRule(sample, languages, options.min_language, identifier)


def _alignment(options: CleaningOptions) -> Builder:
    from seqloom.cleaning.alignment import Alignment
    from seqloom.system import checked_threads

    threads = checked_threads(options.threads)
    return lambda sample: Alignment(sample, options.min_alignment, threads)


def _model(options: CleaningOptions) -> Builder:
    scorer = _scorer(options)
    return lambda sample: ModelScore(sample, options.min_model, scorer)


def _scorer(options: CleaningOptions) -> PairScorer:
    from seqloom.run.directory import Run
    from seqloom.run.load import load_scorer

    assert options.model is not None
    scorer = load_scorer(options.model, checkpoint=options.checkpoint, device=options.device, use="translate")
    if Run.open(options.model).tokenizers().frames:
        raise SeqloomError(
            f"The sources of {options.model} are feature frames, not text.", "name a run that translates text"
        )
    return scorer
