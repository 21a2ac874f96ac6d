"""Translation of a large text in chunks that survive an interruption."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from seqloom.decode.select import load_translator
from seqloom.decode.strategies import BeamSearch, Strategy
from seqloom.decode.translator import Translator
from seqloom.distillation.journal import Journal
from seqloom.errors import SeqloomError
from seqloom.files import is_special, sha256
from seqloom.progress import counter
from seqloom.run.directory import Run
from seqloom.types import Example, Request

logger = logging.getLogger(__name__)

CHUNK_LINES = 1000  # lines that are translated together, and lost at most by an interruption


@dataclass(frozen=True)
class TranslatorOptions:
    """Options for loading a translator, and the strategy that gets outputs from it."""

    strategy: Strategy
    search: Mapping[str, Any] = field(default_factory=dict)  # options that override those of the run
    engine: str = "auto"
    space: str = "probability"  # of an ensemble
    device: str = "auto"
    threads: int | None = None

    def load(self, runs: Sequence[Path], *, checkpoint: str | None = None) -> Translator:
        """Load the translator of a run, or of an ensemble if there are several."""
        first, *others = runs
        return load_translator(
            first,
            "torch" if self.engine == "auto" and not self.strategy.is_beam_search else self.engine,
            ensemble=others,
            space=self.space,
            checkpoint=checkpoint,
            device=self.device,
            threads=self.threads,
            search={**self.search, **self.strategy.search_changes},
            needs=self.strategy.needs,
            scores=False,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the options that outputs depend on."""
        return {
            "strategy": {"name": self.strategy.name, **self.strategy.model_dump(mode="json")},
            "search": dict(self.search),
            "engine": self.engine,
            "space": self.space,
        }


def nbest_decoding(
    runs: Sequence[Path],
    *,
    beam: int | None,
    nbest: int | None,
    engine: str = "auto",
    space: str = "probability",
    device: str = "auto",
    threads: int | None = None,
) -> TranslatorOptions:
    """Return the decoding of n-best lists, by default of all hypotheses in the beam.

    The default beam is that of the first run, or as wide as the n-best list.
    """
    width = beam or max(Run.open(runs[0]).config().search.beam, nbest or 1)
    strategy = BeamSearch.checked({"beam": width, "nbest": nbest or width}, "search")
    return TranslatorOptions(strategy, {}, engine, space, device, threads)


@dataclass(frozen=True)
class FlaggedOutput:
    """Output for a line, with its quality flags."""

    text: str
    flags: tuple[str, ...] = ()


def weights_checksum(run: Path, checkpoint: str | None = None) -> str:
    """Return the checksum of the weights that a run is used with."""
    return sha256(Run.open(run).weights(checkpoint))


def check_file(path: str) -> None:
    """Raise if a file cannot be read several times, as interrupted work requires."""
    if path == "-" or is_special(path):
        name = "Standard input" if path == "-" else path
        raise SeqloomError(f"{name} can be read only once, so the work could not be resumed.", "give a file")
    if not Path(path).is_file():
        raise SeqloomError(f"There is no file {path}.", "check the path")


def translate_rest(
    journal: Journal,
    load: Callable[[], Translator],
    strategy: Strategy,
    examples: Iterable[Example],
    total: int,
) -> None:
    """Translate the examples whose outputs the journal does not have yet.

    The chunks are the same as in a run without interruption, and so are the outputs. The key for sampling is
    the position of the example.
    """
    if journal.items:
        logger.info(f"continue: {journal.items:,} of {total:,} lines are already translated")
    if journal.items == total:
        return
    translator, done = load(), journal.items
    rest = islice(examples, done, None)
    with counter("translated", total - done) as advance:
        while chunk := list(islice(rest, CHUNK_LINES)):
            requests = _requests(chunk, journal.items + 1, translator)
            outputs = strategy.translate(translator, requests, on_progress=advance)
            journal.append([[[one.text, *one.flags] for one in found] for found in outputs])


def candidates(journal: Journal) -> Iterator[list[FlaggedOutput]]:
    """Yield the outputs of each line, best first."""
    for line in journal.results():
        yield [FlaggedOutput(text, tuple(flags)) for text, *flags in line]


def _requests(examples: Sequence[Example], first: int, translator: Translator) -> list[Request]:
    reads_trees = "trees" in translator.capabilities
    return [
        Request(example.source, tree=example.heads if reads_trees else None, key=number)
        for number, example in enumerate(examples, first)
    ]
