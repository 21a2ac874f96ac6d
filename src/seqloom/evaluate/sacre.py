"""BLEU, chrF and TER as sacreBLEU counts them: the only place that touches sacreBLEU's inner methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqloom import __version__
from seqloom.evaluate.resample import Matrix

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as Scorer

# Those that work offline and without a further package.
TOKENIZERS = ("13a", "none", "char", "intl", "zh")


@dataclass(frozen=True)
class SacreMetric:
    """A metric of sacreBLEU, taken apart into the statistics of a sentence and the score of their sum."""

    name: str
    label: str
    higher_is_better: bool
    scorer: Scorer

    def statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """The sentence's counts: matches and totals for BLEU and chrF, edits and length for TER."""
        streams = [[reference] for reference in references]  # sacreBLEU wants one list per reference set
        return list(self.scorer._extract_corpus_statistics([hypothesis], streams)[0])

    def compute(self, total: Matrix) -> float:
        """The corpus score of summed statistics, 0 to 100 (TER may exceed it)."""
        return float(self.scorer._compute_score_from_stats(total.tolist()).score)

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        """sacreBLEU's signature, with what was resampled and by whom."""
        sampled = {"n_bootstrap": bootstrap, "seed": seed} if bootstrap else {}
        facts = {**vars(self.scorer), **sampled, "num_refs": -1 if nrefs is None else nrefs}
        return f"{self.name}|{self.scorer._SIGNATURE_TYPE(facts)}|seqloom:{__version__}"


def bleu(tokenizer: str = "13a") -> SacreMetric:
    """Cased BLEU with exponential smoothing over the tokens of one of sacreBLEU's tokenizers."""
    from sacrebleu.metrics.bleu import BLEU

    variant = "" if tokenizer == "13a" else f":{tokenizer}"
    # force: pronunciations and dates may well end in " ."; no warning about tokenised input
    return SacreMetric(f"bleu{variant}", f"BLEU{variant}", True, BLEU(tokenize=tokenizer, force=True))


def chrf() -> SacreMetric:
    """chrF: the F2 of character 1- to 6-grams."""
    from sacrebleu.metrics.chrf import CHRF

    return SacreMetric("chrf", "chrF", True, CHRF())


def chrf_plus_plus() -> SacreMetric:
    """chrF++: chrF that also counts words and pairs of words."""
    from sacrebleu.metrics.chrf import CHRF

    return SacreMetric("chrf++", "chrF++", True, CHRF(word_order=2))


def ter() -> SacreMetric:
    """TER: edits and moves of blocks per reference word, in lower case as Tercom has it."""
    from sacrebleu.metrics.ter import TER

    return SacreMetric("ter", "TER", False, TER())
