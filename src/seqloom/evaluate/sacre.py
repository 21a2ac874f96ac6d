"""BLEU, chrF and TER from sacreBLEU; the only module that uses its private methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqloom import __version__
from seqloom.evaluate.resample import Matrix
from seqloom.evaluate.sentence_metric import SentenceMetric

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as Scorer
    from sacrebleu.metrics.bleu import BLEUScore

# Tokenizers that work offline and without additional packages.
TOKENIZERS = ("13a", "none", "char", "intl", "zh")


@dataclass(frozen=True)
class SacreMetric(SentenceMetric):
    """Metric of sacreBLEU, split into the statistics of a sentence and the score of their sum."""

    scorer: Scorer

    def statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return the counts of a sentence: matches and totals for BLEU and chrF, edits and length for TER."""
        streams = [[reference] for reference in references]  # sacreBLEU expects one list per reference set
        return list(self.scorer._extract_corpus_statistics([hypothesis], streams)[0])

    def compute(self, total: Matrix) -> float:
        """Return the corpus score of summed statistics, 0 to 100 (TER may be higher)."""
        return float(self.scorer._compute_score_from_stats(total.tolist()).score)

    def bleu_score(self, total: Sequence[float]) -> BLEUScore:
        """Return BLEU of summed statistics with its parts."""
        found: BLEUScore = self.scorer._compute_score_from_stats([int(value) for value in total])
        return found

    def tokens(self, text: str) -> list[str]:
        """Return the tokens that BLEU counts."""
        return list(self.scorer._preprocess_segment(text).split())

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        """Return sacreBLEU's signature, with the resampling settings and the version of seqloom."""
        sampled = {"n_bootstrap": bootstrap, "seed": seed} if bootstrap else {}
        facts = {**vars(self.scorer), **sampled, "num_refs": -1 if nrefs is None else nrefs}
        return f"{self.name}|{self.scorer._SIGNATURE_TYPE(facts)}|seqloom:{__version__}"


def bleu(tokenizer: str = "13a") -> SacreMetric:
    """Return cased BLEU with exponential smoothing and one of sacreBLEU's tokenizers."""
    from sacrebleu.metrics.bleu import BLEU

    variant = "" if tokenizer == "13a" else f":{tokenizer}"
    # force: no warning about tokenised input, since pronunciations and dates may end in " ."
    return SacreMetric(f"bleu{variant}", f"BLEU{variant}", True, BLEU(tokenize=tokenizer, force=True))


def chrf() -> SacreMetric:
    """Return chrF, the F2 score of character 1- to 6-grams."""
    from sacrebleu.metrics.chrf import CHRF

    return SacreMetric("chrf", "chrF", True, CHRF())


def chrf_plus_plus() -> SacreMetric:
    """Return chrF++, chrF with additional word 1- and 2-grams."""
    from sacrebleu.metrics.chrf import CHRF

    return SacreMetric("chrf++", "chrF++", True, CHRF(word_order=2))


def ter() -> SacreMetric:
    """Return TER, the edits and block moves per reference word, in lower case like Tercom."""
    from sacrebleu.metrics.ter import TER

    return SacreMetric("ter", "TER", False, TER())
