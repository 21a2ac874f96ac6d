"""Text in another language than the rest of its side, recognised by py3langid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from seqloom.cleaning.rule import SIDES, LineRule, Pair, Violation
from seqloom.errors import SeqloomError, require_known

_LOOKED_AT = 1000  # texts that show the language of a side
_CLEAR = 0.5  # share of the texts that have to be in it


class Identifier(Protocol):
    """The part of py3langid that is used."""

    nb_classes: list[str]

    def rank(self, text: str) -> list[tuple[str, float]]:
        """Return the probability of every language, the most probable first."""
        ...


def load_identifier() -> Identifier:
    """Return the language identifier."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise SeqloomError(
            "Recognising languages needs py3langid, which is not installed.", "pip install 'seqloom[clean]'"
        ) from error
    found: Identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return found


class LanguageRule(LineRule):
    """Rule against texts that are probably not in the language of their side."""

    def __init__(
        self,
        sample: Sequence[Pair],
        languages: tuple[str | None, str | None],
        least: float,
        identifier: Identifier,
    ) -> None:
        super().__init__()
        self.least, self._identifier = least, identifier
        self.languages = [self._language(sample, side, given) for side, given in enumerate(languages)]

    def _language(self, sample: Sequence[Pair], side: int, given: str | None) -> str:
        if given is not None:
            require_known("language", given, sorted(set(self._identifier.nb_classes)))
            return given
        texts = [pair[side] for pair in sample[:_LOOKED_AT]]
        counts = Counter(self._identifier.rank(text)[0][0] for text in texts)
        found, count = counts.most_common(1)[0] if counts else ("", 0)
        if count <= _CLEAR * len(texts):
            raise SeqloomError(
                f"The language of the {SIDES[side]} side is not clear.",
                f"name it, e.g. --{SIDES[side]}-language en, or leave the rule language out",
            )
        return found

    @property
    def limit(self) -> str:
        source, target = self.languages
        return f"probability of {source} (source) and {target} (target) at least {self.least:g}"

    def check(self, pair: Pair) -> Violation | None:
        for side, text, expected in zip(SIDES, pair, self.languages, strict=True):
            if not any(map(str.isalpha, text)):
                continue
            ranks = self._identifier.rank(text)
            probability = dict(ranks)[expected]
            if probability < self.least:
                return Violation(f"{side} is probably {ranks[0][0]}, not {expected}", probability)
        return None
