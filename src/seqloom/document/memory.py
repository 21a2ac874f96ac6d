"""Translation memories: exact matches replace the output of the model, and similar texts are reported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.languages import LanguagePair

_LEAST_SIMILAR = 70.0  # percent


class Match(NamedTuple):
    """Text of a memory that is equal or similar to a segment."""

    source: str
    target: str
    similarity: float  # 100 if equal, apart from white space


class TranslationMemory:
    """Pairs of texts and their translations; of several translations of a text, the last one counts."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        known = ((_key(source), target.strip()) for source, target in pairs)
        self._targets = {key: target for key, target in known if key and target}
        self._sources = list(self._targets)

    @classmethod
    def read(cls, path: str, languages: LanguagePair | None = None) -> Self:
        """Read a memory in any format of training data: TMX, XLIFF, PO, MO, Qt TS, a table, or a zip file."""
        from seqloom.data.readers import read
        from seqloom.data.report import DataReport

        report = DataReport()
        memory = cls((one.source, one.target or "") for one in read(path, languages=languages, report=report))
        if not memory:
            raise report.no_pairs(path)
        return memory

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and _key(text) in self._targets

    def find(self, text: str) -> Match | None:
        """Return the equal text, or else the most similar one; None if none is similar."""
        key = _key(text)
        if key in self._targets:
            return Match(key, self._targets[key], 100.0)
        if not self._sources:
            return None
        library = _rapidfuzz()
        found = library.process.extractOne(
            key, self._sources, scorer=library.fuzz.ratio, score_cutoff=_LEAST_SIMILAR
        )
        if found is None:
            return None
        source, similarity, _ = found
        return Match(source, self._targets[source], min(float(similarity), 99.9))


def _key(text: str) -> str:
    return " ".join(text.split())


def _rapidfuzz() -> Any:
    try:
        import rapidfuzz.fuzz
        import rapidfuzz.process
    except ImportError as error:
        raise SeqloomError(
            "Similar texts of a memory are found by the library rapidfuzz, which is not installed.",
            "pip install 'seqloom[documents]'",
        ) from error
    return rapidfuzz
