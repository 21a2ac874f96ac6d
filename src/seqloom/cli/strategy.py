"""How `seqloom translate` finds its answers: by a beam, by drawing, or by least risk among candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from seqloom.errors import SeqloomError, unknown

if TYPE_CHECKING:
    from seqloom.decode.config import SamplingConfig
    from seqloom.decode.ensemble import Space
    from seqloom.decode.risk import UtilityName
    from seqloom.exchange.engines import Loaded, Wanted
    from seqloom.types import Example, Hypothesis

_CANDIDATES = 32  # samples to choose from by least risk
_FOR_SAMPLES = (  # of the search's options
    "longest",
    "max_length_factor",
    "max_length_extra",
    "batch_tokens",
    "shortlist",
)


@dataclass(frozen=True)
class Strategy:
    """What becomes of a line: how its candidates are found, and how they are ranked."""

    beam: int | None
    nbest: int | None
    sampling: SamplingConfig | None  # None: by a beam
    utility: UtilityName | None  # None: as they are found

    @property
    def is_plain(self) -> bool:
        """Whether it is a beam of one model, which more than one engine can do."""
        return self.sampling is None and self.utility is None

    def answers(
        self,
        translator: Any,  # of either engine; to draw and to vote it is torch's
        examples: Sequence[Example],
        *,
        first: int,
        prefixed: bool,
        require_column: str | None,
        alignment: bool,
        on_progress: Callable[[int], None],
    ) -> list[list[Hypothesis]]:
        """The answers for these lines, of which the first has this number: it is part of a sample's seed."""
        from seqloom.decode.risk import by_least_risk

        lines = [example.source for example in examples]
        given: dict[str, Any] = {
            "heads": [example.heads for example in examples],
            "prefixes": [example.target or "" for example in examples] if prefixed else None,
            "on_progress": on_progress,
        }
        if require_column is not None:
            given["required"] = [_phrases(example.columns.get(require_column, "")) for example in examples]
        found: list[list[Hypothesis]]
        if self.sampling:
            numbers = range(first, first + len(lines))
            found = translator.sample(lines, self.sampling, keys=numbers, **given)
        else:
            nbest = self.beam if self.utility else self.nbest
            found = translator.translate(lines, beam=self.beam, nbest=nbest, alignment=alignment, **given)
        if not self.utility:
            return found
        ranked = by_least_risk(found, self.utility, drawn=self.sampling is not None)
        return [hypotheses[: self.nbest or 1] for hypotheses in ranked]


def _phrases(cell: str) -> list[str]:
    """The words and phrases of a cell, between semicolons."""
    return [phrase for part in cell.split(";") if (phrase := part.strip())]


def choose_strategy(
    *,
    beam: int | None,
    nbest: int | None,
    alignment: bool,
    sample: bool,
    mbr: str | None,
    samples: int | None,
    search: Mapping[str, Any],
    drawing: Mapping[str, Any],
) -> Strategy:
    """The strategy that is asked for; options that contradict each other are an error.

    `drawing` holds the options of sampling: what is not given is None.
    """
    from seqloom.decode.config import SamplingConfig
    from seqloom.decode.risk import UtilityName

    utilities = get_args(UtilityName)
    if mbr is not None and mbr not in utilities:
        raise unknown("utility", mbr, utilities)
    utility = cast("UtilityName | None", mbr)
    draws = sample or (mbr is not None and beam is None)
    given = {name: value for name, value in drawing.items() if value is not None}
    if samples is not None and mbr is None:
        raise SeqloomError(
            f"--samples {samples} are the candidates of --mbr, which is not given.",
            "to see samples: --sample --nbest N",
        )
    if not draws:
        if unused := [*given, *(["samples"] if samples else [])]:
            raise SeqloomError(
                f"--{unused[0].replace('_', '-')} is for drawing answers, and these are searched for.",
                "leave --beam out" if mbr else "add --sample",
            )
        return Strategy(beam, nbest, None, utility)
    _check_drawing(beam, alignment, search)
    count = (samples or _CANDIDATES) if mbr else (nbest or 1)
    return Strategy(None, nbest, SamplingConfig.checked({**given, "samples": count}, "sampling"), utility)


def _check_drawing(beam: int | None, alignment: bool, search: Mapping[str, Any]) -> None:
    if beam is not None:
        raise SeqloomError(
            f"--beam {beam} searches and --sample draws: both at once is not possible.", "leave one of them out"
        )
    if alignment:
        raise SeqloomError(
            "--alignment shows where a search looked, and these answers are drawn.", "use --beam"
        )
    for name in search:
        if name not in _FOR_SAMPLES:
            raise SeqloomError(
                f"search.{name} is for a search, and these answers are drawn.",
                f"drawing knows {', '.join(f'search.{known}' for known in _FOR_SAMPLES)}",
            )


def load_for(
    strategy: Strategy,
    runs: Sequence[Path],
    engine: str,
    *,
    space: str,
    checkpoint: str | None,
    device: str,
    threads: int | None,
    wanted: Wanted,
) -> Loaded:
    """The translator of a run, or of several that vote, by the engine that can do what is wanted."""
    from seqloom.exchange.engines import ENGINES, Loaded, load_translator

    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if len(runs) == 1 and space != "probability":
        raise SeqloomError(
            f"--ensemble-space {space} is for several runs, and there is one.",
            "name others with --ensemble RUN",
        )
    if not (strategy.is_plain and len(runs) == 1):
        if engine == "ctranslate2":
            raise SeqloomError(
                "The engine ctranslate2 is for the beam of one model; it has no votes, samples or least risk.",
                "leave --engine out",
            )
        engine = "torch"
    if len(runs) == 1:
        loaded = load_translator(
            runs[0], engine, checkpoint=checkpoint, device=device, threads=threads, wanted=wanted
        )
        if strategy.sampling and loaded.engine == "own":
            raise SeqloomError(
                f"The model of {runs[0]} has a search of its own, from which no answers can be drawn.",
                "leave out --sample; least risk works with --mbr and --beam N",
            )
        if loaded.engine == "own" and (wanted.search or {}).get("shortlist"):
            raise SeqloomError(
                f"A shortlist makes the output layer of a model shorter, and that of {runs[0]} has none.",
                "leave out search.shortlist",
            )
        return loaded
    import torch

    from seqloom.loading import load_ensemble
    from seqloom.machine import checked_threads

    if threads is not None:
        torch.set_num_threads(checked_threads(threads))
    checkpoints = [checkpoint, *[None] * (len(runs) - 1)]
    together = load_ensemble(runs, checkpoints=checkpoints, space=cast("Space", space), device=device)
    together.search = wanted.options(together.search)
    return Loaded(together, engine)
